"""Dropout with SFC64: its rate, its seed, and its end."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from transformers import BertConfig, BertModel  # noqa: E402

from experiments.dropout import cheap_dropout  # noqa: E402


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_cheap_dropout__drops_the_share_and_keeps_the_mean(
    share: float, dtype: torch.dtype
) -> None:
    values = torch.ones(1001, 999, dtype=dtype, requires_grad=True)

    with cheap_dropout(1):
        out = torch.nn.Dropout(share)(values)
    out.sum().backward()

    zeros = float((out == 0).float().mean())
    # Five deviations of the share of a million independent draws.
    assert abs(zeros - share) < 5 * (share * (1 - share) / values.numel()) ** 0.5 + 1e-5
    kept = out[out != 0].float()
    assert torch.allclose(kept, torch.full_like(kept, 1 / (1 - share)), rtol=1e-2)
    assert torch.equal(values.grad, out.detach())
    # Neighbours are independent: P(both dropped) = P(dropped)^2.
    dropped = (out == 0).float().flatten()
    assert abs(float((dropped[1:] * dropped[:-1]).mean()) - zeros**2) < 0.003


def test_cheap_dropout__depends_on_the_seed_and_ends_with_the_block() -> None:
    values = torch.ones(64, 64)
    usual = torch.nn.functional.dropout

    def dropped(seed: int) -> list[torch.Tensor]:
        with cheap_dropout(seed):
            return [torch.nn.functional.dropout(values, 0.1) for _ in range(2)]

    assert all(map(torch.equal, dropped(3), dropped(3)))
    assert not torch.equal(*dropped(3))
    assert not torch.equal(dropped(3)[0], dropped(4)[0])
    with cheap_dropout(0):
        assert torch.equal(torch.nn.functional.dropout(values, 0.1, training=False), values)
        assert torch.equal(torch.nn.functional.dropout(values, 0.0), values)
        assert not torch.nn.functional.dropout(values, 1.0).any()
    assert torch.nn.functional.dropout is usual


def test_cheap_dropout__replaces_all_dropout_of_a_model() -> None:
    config = BertConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=64, attn_implementation="eager",
    )  # fmt: skip
    model = BertModel(config).train()
    ids = torch.randint(5, 50, (4, 16))

    def outputs(torch_seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        torch.manual_seed(torch_seed)
        with cheap_dropout(5):
            out = model(input_ids=ids, output_attentions=True)
        return out.last_hidden_state, out.attentions[0]

    (first, attended), (again, _) = outputs(0), outputs(1)

    # The seed of torch's generator makes no difference, also in attention.
    assert torch.equal(first, again)
    assert 0.05 < float((attended == 0).float().mean()) < 0.15
