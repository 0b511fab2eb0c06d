from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

torch = pytest.importorskip("torch")

from mslm_data.torch.model.ranges import decode_spans, pool_spans  # noqa: E402
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
