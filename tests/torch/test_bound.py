"""Masked diffusion against exact enumeration: a model of four words, rows of up to ten units, all masks.

The oracle uses neither rates nor random masks. It evaluates the model's losses for each subset of units, and sums them
with the weights of the process. It also enumerates all orders.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import mslm_data as md  # noqa: E402
from mslm_data.batches.collate import Masked  # noqa: E402
from mslm_data.data.examples import Examples  # noqa: E402
from mslm_data.torch import MaskSpecificLoss, diffusion_bound  # noqa: E402
from tests.generate import IDS, Row, examples_of, row_of  # noqa: E402
from tests.reference.picks import units_of  # noqa: E402

WORDS = [20, 21, 22, 23]
REACH = 16
UNITS = ["tokens", "words", "mentions"]
LOW = 0.001


class FourWords:
    """The logits of a token are sums over nearby tokens, by distance."""

    def __init__(self) -> None:
        draw = torch.Generator().manual_seed(7)
        shape = (2 * REACH + 1, IDS.size, len(WORDS))
        self.weights = torch.randn(shape, generator=draw, dtype=torch.float64) * 0.7

    def __call__(self, *, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        rows, width = input_ids.shape
        distances = torch.arange(width)[:, None] - torch.arange(width) + REACH
        parts = self.weights[distances[None], input_ids[:, None, :]]
        parts = parts * attention_mask[:, None, :, None] * ~torch.eye(width, dtype=bool)[..., None]
        logits = torch.full((rows, width, IDS.size), -torch.inf, dtype=torch.float64)
        logits[..., WORDS] = parts.sum(2)
        return logits


MODEL = FourWords()


def row(sizes: list[int], mentions: list[tuple[int, int]], key: int = 0) -> Row:
    made = row_of(sizes, mentions, key=key)
    text = [WORDS[(3 * t + t // 2) % 4] for t in range(sum(sizes))]
    return Row(
        key=key,
        ids=[made.ids[0], *text, made.ids[-1]],
        word_ids=made.word_ids,
        mentions=made.mentions,
    )


LONG = ([1, 2, 1, 3, 1, 2], [(1, 2), (3, 5)])
"""Ten tokens of six words: two mentions, and four tokens outside them."""
SHORT = ([1, 2, 2], [(1, 2)])


def units(of: Row, name: str) -> list[list[int]]:
    if name != "mentions":
        return units_of(of, name)
    inside = units_of(of, "mentions")
    alone = [t for t in units_of(of, "tokens") if not any(t[0] in unit for unit in inside)]
    return sorted(inside + alone)


@dataclass
class Enumerated:
    """The losses of all masks: `[2**U, U, 2]`, by mask, unit, and whether the token is in a term."""

    units: list[list[int]]
    losses: Any

    @property
    def totals(self) -> Any:
        return self.losses.sum((1, 2))

    def expected(self, weights: list[float]) -> Any:
        """Return the losses of other tokens and of terms, summed over masks; `weights[k]` weighs masks of k units."""
        sizes = np.array([mask.bit_count() for mask in range(len(self.losses))])
        return (np.array(weights)[sizes, None] * self.losses.sum(1)).sum(0)


@cache
def enumerate_masks(name: str, short: bool = False) -> Enumerated:
    one = row(*(SHORT if short else LONG))
    parts = units(one, name)
    masks = range(2 ** len(parts))
    ids = np.array([one.ids] * len(masks))
    for mask, (unit, tokens) in itertools.product(masks, enumerate(parts)):
        if mask >> unit & 1:
            ids[mask, tokens] = IDS.mask

    shown = torch.from_numpy(ids)
    chances = MODEL(input_ids=shown, attention_mask=torch.ones_like(shown)).log_softmax(-1)
    losses = np.zeros((len(masks), len(parts), 2))
    for mask, (unit, tokens) in itertools.product(masks, enumerate(parts)):
        for token in tokens:
            if mask >> unit & 1:
                losses[mask, unit, int(one.bio[token] > 0)] -= chances[mask, token, one.ids[token]]
    return Enumerated(parts, losses)


def weights_of_rates(size: int, low: Fraction, high: Fraction) -> list[float]:
    """Return the mean of `t^k (1 - t)^(U - k) / t` over t in `[low, high]`, for each k; 0 for k = 0."""

    def integral(k: int) -> Fraction:
        # Integrate t^(k - 1) times the binomial expansion of (1 - t)^(U - k).
        total = Fraction(0)
        for j in range(size - k + 1):
            power = k + j
            term = Fraction((-1) ** j * math.comb(size - k, j), power)
            total += term * (high**power - low**power)
        return total / (high - low)

    return [0.0, *(float(integral(k)) for k in range(1, size + 1))]


def weights_of_process(size: int) -> list[float]:
    """Return the weights for rates in (0, 1): 1 / k, divided by the number of masks with k units."""
    return [0.0, *(1 / (k * math.comb(size, k)) for k in range(1, size + 1))]


def copies(count: int, *, short: bool = False) -> Examples:
    return examples_of([row(*(SHORT if short else LONG), key=key) for key in range(count)])


@pytest.mark.parametrize("name", UNITS)
def test_weights__over_all_rates_equal_the_process(name: str) -> None:
    size = len(enumerate_masks(name).units)

    by_integral = weights_of_rates(size, Fraction(0), Fraction(1))
    assert by_integral == pytest.approx(weights_of_process(size), rel=1e-12)
    assert size <= 10


@pytest.mark.parametrize("sampling", ["kronecker", "uniform"])
@pytest.mark.parametrize("complement", [False, True])
@pytest.mark.parametrize("name", UNITS)
def test_strategy__mean_loss_equals_all_masks(name: str, complement: bool, sampling: str) -> None:
    every = enumerate_masks(name)
    examples = copies(4000)
    strategy = md.strategy("diffusion", units=name, complement=complement, sampling=sampling)
    firsts = [unit[0] for unit in every.units]

    losses = []
    for epoch in range(8):
        plan = strategy.plan(examples, seed=1, epoch=epoch)
        assert plan.rates is not None
        hidden = plan.kinds.values.reshape(len(examples), -1)[:, firsts] > 0
        masks = hidden @ (1 << np.arange(len(firsts)))
        losses.append(every.totals[masks] / plan.rates)

    # Rates of a row depend on each other across epochs, so the error is computed from the rows' means.
    of_rows = np.mean(losses, axis=0)
    error = of_rows.std(ddof=1) / math.sqrt(len(of_rows))
    low = Fraction(LOW)
    weights = weights_of_rates(len(firsts), low, 1 - low if complement else Fraction(1))
    expected = every.expected(weights).sum()
    assert abs(of_rows.mean() - expected) < 4 * error
    assert error < 0.02 * expected


@pytest.mark.parametrize("name", UNITS)
def test_loss__of_a_batch_divides_by_the_rates(name: str) -> None:
    every = enumerate_masks(name)
    examples = copies(50)
    masked = Masked.by_strategy(examples, md.strategy("diffusion", units=name), seed=2, epoch=3)
    batch = {key: torch.from_numpy(x) for key, x in masked.batch().items() if key != "keys"}

    logits = MODEL(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
    loss = MaskSpecificLoss(1, 1, per_rate=True)(
        logits, batch["labels"], batch["mask_kinds"], batch["mask_rates"]
    )

    hidden = masked.kinds.values.reshape(50, -1)[:, [unit[0] for unit in every.units]] > 0
    totals = every.totals[hidden @ (1 << np.arange(len(every.units)))]
    assert masked.rates is not None
    expected = (totals / masked.rates).sum()
    assert loss.item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", UNITS)
def test_diffusion_bound__equals_all_masks(name: str) -> None:
    every = enumerate_masks(name)
    expected = every.expected(weights_of_process(len(every.units)))
    tokens = sum(map(len, every.units))

    bound = diffusion_bound(MODEL, copies(600), units=name, samples=8, batch_size=100)

    terms = sum(row(*LONG).bio[t] > 0 for unit in every.units for t in unit)
    for part, size, exact in [
        (bound, tokens, expected.sum()),
        (bound["terms"], terms, expected[1]),
        (bound["others"], tokens - terms, expected[0]),
    ]:
        assert part["tokens"] == 600 * size
        error = (part["high"] - part["low"]) / (2 * 1.96)
        assert abs(part["nats"] - exact / size) < 4 * error
        assert 0 < error < 0.02 * part["nats"]


@pytest.mark.parametrize("name", UNITS)
def test_bound__equals_the_mean_over_orders_above_log_p(name: str) -> None:
    every = enumerate_masks(name, short=True)
    size = len(every.units)
    losses = every.losses.sum(2)

    # In each order, units that have not been read are masked.
    by_order = []
    for order in itertools.permutations(range(size)):
        masks = itertools.accumulate(
            order, lambda mask, unit: mask - (1 << unit), initial=2**size - 1
        )
        by_order.append(sum(losses[mask, unit] for mask, unit in zip(masks, order, strict=False)))

    bound = every.expected(weights_of_process(size)).sum()
    log_p = math.log(np.exp(-np.array(by_order)).mean())
    assert bound == pytest.approx(np.mean(by_order), rel=1e-12)
    assert bound > -log_p
    # p sums to 1, so the bound is that of a proper model.
    assert log_p < 0


def test_diffusion_bound__is_none_without_units_and_refuses_too_few_samples() -> None:
    empty = examples_of([row_of([])])

    bound = diffusion_bound(MODEL, empty, samples=2)

    assert bound["nats"] is bound["terms"]["nats"] is None
    assert bound["tokens"] == 0
    with pytest.raises(ValueError, match="samples: expected 2 or more"):
        diffusion_bound(MODEL, empty, samples=1)
    with pytest.raises(TypeError, match="rows: expected a split"):
        diffusion_bound(MODEL, "train")
