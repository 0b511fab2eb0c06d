from __future__ import annotations

import math
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

torch = pytest.importorskip("torch")


import torch.nn.functional as F  # noqa: E402, N812
from torch._dynamo import lookup_backend  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from mslm_data.torch import MaskSpecificLoss, weighted_loss  # noqa: E402
from mslm_data.torch.model import loss as module  # noqa: E402
from tests.reference import loss as twin  # noqa: E402
from tests.support.properties import fewer  # noqa: E402

V, H = 11, 6


def made(rows: int, width: int, rate: float, seed: int = 0) -> tuple[Any, Any, Any]:
    """Logits in float64, labels, kinds."""
    draw = torch.Generator().manual_seed(seed)
    original = torch.randint(0, V, (rows, width), generator=draw)
    kinds = torch.randint(1, 3, (rows, width), generator=draw, dtype=torch.uint8)
    kinds[torch.rand((rows, width), generator=draw) >= rate] = 0
    labels = torch.where(kinds == 0, -100, original)
    return torch.randn((rows, width, V), generator=draw, dtype=torch.float64), labels, kinds


def decoder(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return torch.nn.Linear(H, V, dtype=torch.float64)


@fewer(0.3)
@given(
    shape=st.tuples(st.integers(1, 4), st.integers(1, 9)),
    rate=st.sampled_from([0.0, 0.3, 1.0]),
    weights=st.tuples(st.floats(0, 2), st.floats(0, 2)),
    seed=st.integers(0, 99),
)
def test_mask_specific_loss__equals_its_slow_twin(
    shape: tuple[int, int], rate: float, weights: tuple[float, float], seed: int
) -> None:
    logits, labels, kinds = made(*shape, rate, seed)

    loss = MaskSpecificLoss(*weights)(logits, labels, kinds)

    total, _ = twin.mask_specific(logits.numpy(), labels.numpy(), kinds.numpy(), *weights)
    assert loss.item() == pytest.approx(total, rel=1e-12, abs=1e-12)


@fewer(0.3)
@given(
    shape=st.tuples(st.integers(1, 4), st.integers(1, 9)),
    rates=st.lists(st.sampled_from([0.0, 0.001, 0.25, 1.0]), min_size=4, max_size=4),
    by_token=st.booleans(),
    seed=st.integers(0, 99),
)
def test_mask_specific_loss__per_rate_equals_its_slow_twin(
    shape: tuple[int, int], rates: list[float], by_token: bool, seed: int
) -> None:
    logits, labels, kinds = made(*shape, 0.5, seed)
    given_rates = torch.tensor(rates[: shape[0]])
    if by_token:
        given_rates = given_rates[:, None].expand(shape)

    loss = MaskSpecificLoss(0.6, 0.4, per_rate=True, low=0.01)(logits, labels, kinds, given_rates)

    floored = [max(float(np.float32(rate)), 0.01) for rate in rates]
    total, _ = twin.mask_specific(logits.numpy(), labels.numpy(), kinds.numpy(), 0.6, 0.4, floored)
    assert loss.item() == pytest.approx(total, rel=1e-12, abs=1e-12)


def test_mask_specific_loss__per_rate_requires_rates() -> None:
    logits, labels, kinds = made(3, 5, 0.5)
    loss = MaskSpecificLoss(1, 1, per_rate=True)

    with pytest.raises(ValueError, match="expected mask_rates with per_rate=True"):
        loss(logits, labels, kinds)
    with pytest.raises(ValueError, match="rates of 3 rows or 3 x 5 tokens, got 5"):
        loss(logits, labels, kinds, torch.ones(5))
    with pytest.raises(ValueError, match=r"low in \(0, 1\]"):
        MaskSpecificLoss(1, 1, per_rate=True, low=0)


def test_mask_specific_loss__equals_the_worked_example() -> None:
    # P = .25 for a token of an entity, .125 for another token: .6 ln 4 + .4 ln 8
    p = torch.tensor(
        [[[0.25, 0.75, 0, 0], [0.125, 0.375, 0.25, 0.25], [0.7, 0.1, 0.1, 0.1]]]
    ).double()
    labels, kinds = torch.tensor([[0, 0, -100]]), torch.tensor([[2, 1, 0]], dtype=torch.uint8)

    loss = MaskSpecificLoss(w_elm=0.6, w_blm=0.4)(p.log(), labels, kinds)

    assert loss.item() == pytest.approx(1.663553, abs=5e-7)
    assert pytest.approx(0.6 * math.log(4) + 0.4 * math.log(8), abs=5e-7) == 1.663553


def test_from_hidden__equals_forward_in_value_and_gradient() -> None:
    head, loss = decoder(), MaskSpecificLoss(0.6, 0.4)
    _, labels, kinds = made(3, 7, 0.4)
    hidden = torch.randn((3, 7, H), dtype=torch.float64)
    roads = []
    for road in ("hidden", "logits"):
        h = hidden.clone().requires_grad_()
        head.zero_grad()
        if road == "hidden":
            total = loss.from_hidden(h, head, labels, kinds)
        else:
            total = loss(head(h), labels, kinds)
        total.backward()
        gradients = (h.grad, head.weight.grad.clone(), head.bias.grad.clone())
        roads.append((total.detach(), *gradients))

    for one, other in zip(*roads, strict=True):
        torch.testing.assert_close(one, other)


def test_mask_specific_loss__with_weights_of_1_is_cross_entropy() -> None:
    logits, labels, kinds = made(4, 9, 0.5)

    loss = MaskSpecificLoss(1, 1)(logits, labels, kinds)

    torch.testing.assert_close(
        loss, F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
    )


def test_mask_specific_loss__does_not_normalise_weights() -> None:
    logits, labels, kinds = made(2, 9, 0.5)
    only_entities = torch.where(kinds > 0, 2, 0).to(torch.uint8)

    one = MaskSpecificLoss(0.6, 0.4)(logits, labels, only_entities)
    twice = MaskSpecificLoss(1.2, 0.8)(logits, labels, only_entities)

    torch.testing.assert_close(twice, 2 * one)


def test_mask_specific_loss__passes_gradcheck() -> None:
    logits, labels, kinds = made(2, 4, 0.6)
    loss, head = MaskSpecificLoss(0.6, 0.4), decoder()
    hidden = torch.randn((2, 4, H), dtype=torch.float64, requires_grad=True)

    assert torch.autograd.gradcheck(lambda x: loss(x, labels, kinds), (logits.requires_grad_(),))
    assert torch.autograd.gradcheck(lambda h: loss.from_hidden(h, head, labels, kinds), (hidden,))


def test_from_hidden__sums_in_float32_under_autocast() -> None:
    _, labels, kinds = made(32, 64, 0.9)
    hidden, head = torch.randn((32, 64, H)), decoder().float()
    kept: list[Any] = []

    def watched(h: Any) -> Any:
        kept.append(out := head(h))
        return out

    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = MaskSpecificLoss(0.6, 0.4).from_hidden(hidden, watched, labels, kinds)

    at = labels.flatten() != -100
    exact = torch.nn.functional.cross_entropy(
        torch.cat(kept).double(), labels.flatten()[at], reduction="none"
    )
    weights = torch.tensor([0, 0.4, 0.6]).double()[kinds.flatten()[at].long()]
    assert kept[0].dtype == torch.bfloat16
    assert loss.dtype == torch.float32
    # Sums in bfloat16 have an error of 1e-2.
    assert loss.item() == pytest.approx((exact * weights).sum().item(), rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_mask_specific_loss__sums_half_precision_in_float32(dtype: Any) -> None:
    logits, labels, kinds = made(32, 64, 0.9)
    half = logits.to(dtype)

    loss = MaskSpecificLoss(0.6, 0.4)(half, labels, kinds)

    exact = MaskSpecificLoss(0.6, 0.4)(half.double(), labels, kinds)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(exact.item(), rel=1e-6)


@pytest.mark.parametrize("road", ["hidden", "logits"])
def test_mask_specific_loss__of_an_empty_mask_is_0_with_a_path_for_gradients(road: str) -> None:
    head, loss = decoder(), MaskSpecificLoss(0.6, 0.4)
    hidden = torch.randn((2, 3, H), dtype=torch.float64, requires_grad=True)
    labels, kinds = torch.full((2, 3), -100), torch.zeros((2, 3), dtype=torch.uint8)

    if road == "hidden":
        value = loss.from_hidden(hidden, head, labels, kinds)
    else:
        value = loss(head(hidden), labels, kinds)
    value.backward()

    assert value.item() == 0
    assert hidden.grad is not None
    assert not hidden.grad.any()
    assert head.weight.grad is not None


@pytest.mark.long
def test_mask_specific_loss__compiles_to_one_graph_for_any_number_of_masked_tokens() -> None:
    graphs: list[int] = []

    def backend(module: Any, inputs: Any) -> Any:
        graphs.append(1)
        return lookup_backend("aot_eager")(module, inputs)

    head, loss = decoder(), MaskSpecificLoss(0.6, 0.4)
    compiled = torch.compile(
        lambda h, y, k: loss.from_hidden(h, head, y, k), fullgraph=True, backend=backend
    )
    for rate in (0.5, 0.9, 0.0):
        _, labels, kinds = made(3, 8, rate)
        hidden = torch.randn((3, 8, H), dtype=torch.float64, requires_grad=True)
        value = compiled(hidden, labels, kinds)
        (gradient,) = torch.autograd.grad(value, hidden)

        expected = loss.from_hidden(hidden, head, labels, kinds)
        torch.testing.assert_close(value, expected)
        torch.testing.assert_close(gradient, torch.autograd.grad(expected, hidden)[0])
    assert len(graphs) == 1


class Sizes(TorchDispatchMode):
    """Records the number of elements of each new tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for one in out if isinstance(out, (tuple, list)) else [out]:
            self.most = max(self.most, one.numel() if isinstance(one, torch.Tensor) else 0)
        return out


def test_from_hidden__computes_logits_of_masked_positions_only() -> None:
    rows, width, words = 4, 50, 300
    torch.manual_seed(0)
    head, hidden = torch.nn.Linear(H, words), torch.randn((rows, width, H), requires_grad=True)
    labels = torch.full((rows, width), -100)
    labels[:, ::10] = 7
    kinds = (labels >= 0).to(torch.uint8)
    loss = MaskSpecificLoss(0.6, 0.4)

    with Sizes() as sparse:
        loss.from_hidden(hidden, head, labels, kinds).backward()
    with Sizes() as dense:
        loss(head(hidden), labels, kinds).backward()

    assert sparse.most == rows * 5 * words
    assert dense.most == rows * width * words


def test_mask_specific_loss__refuses_negative_weights() -> None:
    for weights, message in (((0.6, -0.1), "w_blm .* got -0.1"), ((np.nan, 0.1), "w_elm .* nan")):
        with pytest.raises(ValueError, match=message):
            MaskSpecificLoss(*weights)


def of_tokens(*shape: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return logits over 7 ids, labels of a third of the tokens, and their mask kinds."""
    generator = torch.Generator().manual_seed(3)
    labels = torch.randint(0, 7, shape, generator=generator)
    labels[torch.rand(shape, generator=generator) > 0.3] = -100
    kinds = torch.randint(1, 3, shape, generator=generator).to(torch.uint8)
    return torch.randn(*shape, 7, generator=generator), labels, kinds


def test_mask_specific_loss__accepts_a_flat_row() -> None:
    logits, labels, kinds = of_tokens(4, 9)
    loss = MaskSpecificLoss(0.7, 0.3)

    rows = loss(logits, labels, kinds)
    flat = loss(logits.flatten(0, 1), labels.flatten(), kinds.flatten())

    assert rows > 0
    assert torch.equal(rows, flat)


@pytest.mark.parametrize("change", ["shifted", "transposed", "cut labels", "cut kinds", "flat"])
def test_mask_specific_loss__refuses_labels_of_other_tokens(change: str) -> None:
    logits, labels, kinds = of_tokens(4, 9)
    logits = {"shifted": logits[:, :-1], "transposed": logits.transpose(1, 2)}.get(change, logits)
    if change == "flat":
        logits = logits.flatten(0, 1)
    labels = labels[:, :3] if change == "cut labels" else labels
    kinds = kinds[:, :3] if change == "cut kinds" else kinds

    with pytest.raises(ValueError, match=r"^MaskSpecificLoss: expected labels and mask kinds of "):
        MaskSpecificLoss(0.5, 0.5)(logits, labels, kinds)


def weighed(rows: int, width: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """Hidden states in float64, labels of three quarters of the tokens, weights of some of them."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, V, (rows, width), generator=draw)
    labels[torch.rand((rows, width), generator=draw) > 0.75] = -100
    weights = torch.randint(0, 4, (rows, width), generator=draw) / 2
    hidden = torch.randn((rows, width, H), generator=draw, dtype=torch.float64)
    return hidden, labels, weights


def plain_weighted_loss(hidden: Any, head: Any, labels: Any, weights: Any, causal: bool) -> Any:
    """Compute the loss token by token, from the logits of all tokens."""
    logits = head(hidden).log_softmax(-1)
    total = 0 * logits.sum()
    for row in range(len(labels)):
        for at in range(int(causal), labels.shape[1]):
            if labels[row, at] != -100:
                log_p = logits[row, at - int(causal), labels[row, at]]
                total = total - weights[row, at].double() * log_p
    return total


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("at_once", [1, 4, 1024])
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (2, 20)])
def test_weighted_loss__equals_the_plain_computation_for_any_chunk(
    shape: tuple[int, int], at_once: int, causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TOKENS_AT_ONCE", at_once)
    head = decoder()
    hidden, labels, weights = weighed(*shape)
    hidden.requires_grad_()
    leaves = (hidden, *head.parameters())

    found = weighted_loss(hidden, labels, weights, decoder=head, causal=causal)
    expected = plain_weighted_loss(hidden, head, labels, weights, causal)

    exact = {"rtol": 1e-12, "atol": 1e-12}
    torch.testing.assert_close(found, expected, **exact)
    gradients = torch.autograd.grad(found, leaves)
    torch.testing.assert_close(gradients, torch.autograd.grad(expected, leaves), **exact)


def test_weighted_loss__with_weights_of_1_is_the_loss_of_transformers() -> None:
    losses = pytest.importorskip("transformers.loss.loss_utils")
    head = decoder()
    hidden, labels, weights = weighed(4, 9)
    ones = torch.ones_like(weights)

    causal = weighted_loss(hidden, labels, ones, decoder=head, causal=True)
    masked = weighted_loss(head(hidden), labels, ones)

    logits = head(hidden).float()
    options = {"vocab_size": V, "num_items_in_batch": 1}
    expected = losses.ForCausalLMLoss(logits, labels, **options)
    assert causal.item() == pytest.approx(expected.item(), rel=1e-6)
    expected = losses.ForMaskedLMLoss(logits, labels, **options)
    assert masked.item() == pytest.approx(expected.item(), rel=1e-6)


def test_weighted_loss__never_has_more_logits_than_a_chunk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "TOKENS_AT_ONCE", 5)
    rows, width, words = 4, 50, 300
    head = torch.nn.Linear(H, words)
    hidden = torch.randn((rows, width, H), requires_grad=True)
    labels = torch.randint(0, words, (rows, width))

    with Sizes() as sizes:
        weighted_loss(hidden, labels, torch.ones(rows, width), decoder=head, causal=True).backward()

    assert sizes.most == max(5 * words, head.weight.numel(), hidden.numel())


def test_weighted_loss__does_not_project_tokens_without_a_weight() -> None:
    hidden, labels, weights = weighed(3, 8)
    projected: list[int] = []
    head = decoder()

    def watched(hidden: Any) -> Any:
        projected.append(len(hidden))
        return head(hidden)

    weighted_loss(hidden, labels, weights, decoder=watched)

    assert projected == [int(((labels != -100) & (weights > 0)).sum())]


def test_weighted_loss__of_no_labels_is_0_with_a_path_for_gradients() -> None:
    head = decoder()
    hidden, labels, weights = weighed(2, 3)
    hidden.requires_grad_()

    value = weighted_loss(hidden, torch.full_like(labels, -100), weights, decoder=head, causal=True)
    value.backward()

    assert value.item() == 0
    assert hidden.grad is not None
    assert not hidden.grad.any()
    assert head.weight.grad is not None


def test_weighted_loss__in_chunks_sums_in_float32_under_autocast(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    head = decoder().float()
    hidden, labels, weights = weighed(8, 64)
    found = []
    for at_once in (1024, 50):
        monkeypatch.setattr(module, "TOKENS_AT_ONCE", at_once)
        states = hidden.float().requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            value = weighted_loss(states, labels, weights, decoder=head)
        found.append((value.detach(), *torch.autograd.grad(value, (states,))))

    assert found[0][0].dtype == torch.float32
    torch.testing.assert_close(found[0], found[1])
