from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

torch = pytest.importorskip("torch")

from mslm_data.torch import EntityClassificationHead, EntityDetectionHead, decode_spans, pool_spans  # noqa: E402
from tests.reference import loss as twin  # noqa: E402

H = 6


def spans(rows: list[list[tuple[int, int, int]]]) -> tuple[Any, Any, Any]:
    """Mentions (start, end, label) of rows, padded with -1."""
    most = max(map(len, rows), default=0)
    padded = [row + [(-1, -1, -1)] * (most - len(row)) for row in rows]
    return tuple(torch.tensor(padded, dtype=torch.int64).reshape(len(rows), most, 3).unbind(-1))


@given(
    st.integers(1, 9).flatmap(
        lambda width: st.lists(
            st.lists(st.sampled_from([-100, 0, 0, 1, 2, 2, 3, 4]), min_size=width, max_size=width),
            min_size=1,
            max_size=4,
        )
    )
)
def test_decode_spans__equals_its_slow_twin(tags: list[list[int]]) -> None:
    found = decode_spans(torch.tensor(tags))

    for got, wanted in zip(found, spans([twin.decode(row) for row in tags]), strict=True):
        assert got.dtype == torch.int64
        assert got.tolist() == wanted.tolist()


def test_decode_spans__starts_at_a_lone_i_and_ends_at_special_tokens() -> None:
    # I-Y after B-X; B-X B-X; I-X alone; I-X split by a special token
    starts, ends, labels = decode_spans(torch.tensor([[1, 4, 1, 1, 0, 2, -100, 2]]))

    assert list(zip(starts[0].tolist(), ends[0].tolist(), labels[0].tolist(), strict=True)) == [
        (0, 1, 0),
        (1, 2, 1),
        (2, 3, 0),
        (3, 4, 0),
        (5, 6, 0),
        (7, 8, 0),
    ]


def test_pool_spans__is_the_mean_of_each_mention_or_0() -> None:
    torch.manual_seed(0)
    hidden = torch.randn((3, 12, H), dtype=torch.float64)
    rows = [[(0, 1, 0), (3, 12, 0)], [], [(5, 8, 0)]]
    starts, ends, _ = spans(rows)

    pooled = pool_spans(hidden, starts, ends)

    assert pooled.shape == (3, 2, H)
    for b, row in enumerate(rows):
        for s in range(2):
            mean = (
                hidden[b, row[s][0] : row[s][1]].mean(0)
                if s < len(row)
                else torch.zeros(H).double()
            )
            torch.testing.assert_close(pooled[b, s], mean)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_head__applies_f_to_each_state_and_the_shared_vector(dtype: Any) -> None:
    torch.manual_seed(0)
    head = EntityDetectionHead(H, 5).to(dtype).eval()
    hidden = torch.randn((2, 7, H), dtype=dtype)

    logits = head(hidden)

    joined = torch.cat([hidden, head.vector.expand(2, 7, 100)], -1)
    assert head.hidden.weight.shape == (H, H + 100)  # k = 100, Table 7
    torch.testing.assert_close(logits, head.out(torch.relu(head.hidden(joined))))


def test_classification_head__applies_f_to_each_mean_and_the_shared_vector() -> None:
    torch.manual_seed(0)
    head, hidden = EntityClassificationHead(H, 3).eval(), torch.randn((2, 7, H))
    starts, ends, _ = spans([[(1, 3, 0)], [(0, 1, 0), (2, 7, 2)]])

    logits = head(hidden, starts, ends)

    joined = torch.cat([pool_spans(hidden, starts, ends), head.vector.expand(2, 2, 100)], -1)
    assert head.hidden.weight.shape == (H, H + 100)  # d = 100, Table 7
    torch.testing.assert_close(logits, head.out(torch.relu(head.hidden(joined))))


def test_head_losses__equal_their_slow_twins() -> None:
    torch.manual_seed(0)
    tag_logits, span_logits = torch.randn((2, 4, 5)).double(), torch.randn((2, 2, 3)).double()
    bio, labels = (
        torch.tensor([[-100, 1, 2, -100], [-100, 0, 4, 3]]),
        torch.tensor([[1, -1], [2, 0]]),
    )

    detection = EntityDetectionHead.loss(tag_logits, bio)
    classification = EntityClassificationHead.loss(span_logits, labels)

    for loss, logits, of in ((detection, tag_logits, bio), (classification, span_logits, labels)):
        total, items = twin.cross_entropy(logits.numpy(), of.numpy())
        assert loss.total.item() == pytest.approx(total, rel=1e-12)
        assert loss.items.item() == items


def test_classification_loss__without_a_mention_is_0_with_a_path_for_gradients() -> None:
    head, hidden = EntityClassificationHead(H, 3), torch.randn((2, 5, H), requires_grad=True)
    starts, ends, labels = spans([[], []])

    loss = head.loss(head(hidden, starts, ends), labels).per_item()
    loss.backward()

    assert loss.item() == 0
    assert hidden.grad is not None
    assert head.out.weight.grad is not None


def test_classification_loss__with_one_type_is_0() -> None:
    torch.manual_seed(0)
    head, hidden = EntityClassificationHead(H, 1), torch.randn((2, 5, H), requires_grad=True)
    starts, ends, labels = spans([[(0, 2, 0), (3, 4, 0)], [(1, 5, 0)]])

    loss = head.loss(head(hidden, starts, ends), labels).per_item()
    loss.backward()

    assert loss.item() == 0
    assert not hidden.grad.any()


def test_head__refuses_no_classes() -> None:
    with pytest.raises(ValueError, match="EntityDetectionHead: expected at least 1 class, got 0"):
        EntityDetectionHead(H, 0)
