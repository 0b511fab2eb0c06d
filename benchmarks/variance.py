"""How much a loss of masked diffusion varies, by how rates are drawn.

`python -m benchmarks.variance shards/notes model` takes a folder and a model that
`examples/masked_diffusion.py` saved, and writes docs/results/diffusion.md.

Losses divided by low rates have such heavy tails that variances of many draws are still noise. So
the model is asked only for the losses of k masked tokens, for each k, and for those of their
complements. Given these, the number of masked tokens is binomial, and all means and variances are
sums and integrals over the rate.

Of a row of n tokens, a place in `[0, 1]` is what the rate t is made of.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import mslm_data as md
from benchmarks.inputs import ROOT
from benchmarks.report import PAGES, commit, machine
from mslm_data.batches.masked import Masked
from mslm_data.data.examples import Examples, take
from mslm_data.mask.corruption import Corruption, corrupt
from mslm_data.mask.plan import MaskPlan
from mslm_data.torch import MslmModel
from mslm_data.torch.model.loss import token_losses

_BATCH = 32
_LENGTHS = (1, 2, 8)
_LOW = 0.001
_GOLDEN = 0.6180339887498949
_DRAWS = 20_000
"""Batches of rates that are drawn for antithetic sampling, and places of a row's first rate."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RowLosses:
    """Losses of a row, by the number of its masked tokens, `[n + 1]`.

    Attributes:
        mean: Mean of the summed loss of k masked tokens.
        square: Mean of its square.
        product: Mean of its product with that of the n - k other tokens.
    """

    mean: Floats
    square: Floats
    product: Floats

    @classmethod
    def from_draws(cls, losses: Floats) -> RowLosses:
        """Take `[n + 1, R, 2]`: losses of k tokens, and of the others, of R draws."""
        masked, others = losses[..., 0], losses[::-1, :, 1]
        both = np.concatenate([masked, others], axis=1)
        product = (losses[..., 0] * losses[..., 1]).mean(1)
        return cls(both.mean(1), (both**2).mean(1), (product + product[::-1]) / 2)

    def at(self, rates: Floats) -> tuple[Floats, Floats, Floats]:
        """Return, for each rate, moments of the loss in nats a token, divided by the rate.

        Its mean, its square, and its product with that of the complement, divided by 1 - t.
        """
        size = len(self.mean) - 1
        number = np.arange(size + 1)
        choose = np.array([math.comb(size, k) for k in number], float)
        others = 1 - rates[:, None]
        chances = choose * rates[:, None] ** number * others ** (size - number)
        return (
            chances @ self.mean / (size * rates),
            chances @ self.square / (size * rates) ** 2,
            chances @ self.product / (size**2 * rates * np.maximum(1 - rates, 1e-300)),
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.variance", description=__doc__)
    parser.add_argument("folder", help="a built folder, such as of the shipped notes")
    parser.add_argument("model", help="a model that examples/masked_diffusion.py saved")
    parser.add_argument("--draws", type=int, default=8, help="masks of each number of tokens")
    options = parser.parse_args(arguments)

    split = md.load(options.folder)["train"]
    rows = take(split.examples(), np.arange(_BATCH))
    model = MslmModel.from_pretrained(options.model).eval()
    losses = [RowLosses.from_draws(row) for row in draw_losses(model, rows, options.draws)]

    text = page(variances(losses), options.draws)
    (ROOT / PAGES["benchmarks.variance"][1]).write_text(text, encoding="utf-8")
    print(text)


def variances(rows: Sequence[RowLosses]) -> dict[str, dict[int, float]]:
    """Return the variance of a batch's mean loss over 1, 2 and 8 epochs, by how rates are drawn."""
    places = (np.arange(_DRAWS) + 0.5) / _DRAWS
    whole = [_Curves.from_row(row, places, high=1.0) for row in rows]
    halves = [_Curves.from_row(row, places, high=1 - _LOW) for row in rows]

    def of_batch(values: Sequence[float]) -> float:
        return float(sum(values)) / len(rows) ** 2

    noise = of_batch([row.noise for row in whole])
    once = noise + of_batch([row.mean.var() for row in whole])
    half_once = of_batch([row.noise + row.mean.var() for row in halves])
    pair_noise = of_batch([row.pair_noise for row in halves])
    pair_once = pair_noise + of_batch([row.pair.var() for row in halves])
    spread = noise + _antithetic(whole)

    found: dict[str, dict[int, float]] = {
        "independent: `uniform`": {},
        "antithetic over a batch (MDLM)": {},
        "`kronecker`, the default": {},
        "`uniform`, `complement`": {},
        "`kronecker`, `complement`": {},
    }
    for length in _LENGTHS:
        pairs = length // 2
        by_golden = of_batch([_over_epochs(row.mean, length) for row in whole])
        half_by_golden = of_batch([_over_epochs(row.pair, pairs) for row in halves])
        figures = (
            once / length,
            spread / length,
            noise / length + by_golden,
            pair_once / pairs if pairs else half_once,
            pair_noise / pairs + half_by_golden if pairs else half_once,
        )
        for of_sampling, figure in zip(found.values(), figures, strict=True):
            of_sampling[length] = figure
    return found


@dataclass(frozen=True)
class _Curves:
    """A row's loss at each place of the rate, and at a place together with its complement.

    Attributes:
        mean: Its mean at each place.
        noise: Its variance at a place, over masks; the mean of all places.
        pair: The mean of the two of a pair.
        pair_noise: Their variance.
    """

    mean: Floats
    noise: float
    pair: Floats
    pair_noise: float

    @classmethod
    def from_row(cls, row: RowLosses, places: Floats, *, high: float) -> _Curves:
        mean, _, _ = row.at(_LOW + (high - _LOW) * places)
        mirrored, _, _ = row.at(_LOW + (high - _LOW) * (1 - places))

        # Squares grow as 1 / t: integrate over log t from either end.
        knots = np.geomspace(_LOW, high, 4001)
        at_knots, squares, products = row.at(knots)
        others, _, _ = row.at(np.maximum(1 - knots, _LOW))
        weights = np.gradient(knots) / (high - _LOW)
        weights /= weights.sum()
        noise = float(weights @ (squares - at_knots**2))
        # Either of the two has the same law, so their squares have one mean.
        square = float(weights @ squares)
        pair_square = square / 2 + float(weights @ products) / 2
        pair_mean = float(weights @ ((at_knots + others) / 2) ** 2)
        return cls(mean, noise, (mean + mirrored) / 2, pair_square - pair_mean)


def _over_epochs(curve: Floats, epochs: int) -> float:
    """Return the variance of the mean over epochs, which golden steps take from a first place."""
    if epochs == 0:
        return math.nan
    steps = np.arange(epochs)[:, None] * _GOLDEN
    places = np.floor(((np.arange(len(curve)) / len(curve) + steps) % 1) * len(curve)).astype(int)
    return float(curve[places % len(curve)].mean(0).var())


def _antithetic(rows: Sequence[_Curves]) -> float:
    """Return the variance of a batch's mean where each row has another part of the interval."""
    rng = np.random.default_rng(0)
    means = np.stack([row.mean for row in rows])
    totals = np.empty(_DRAWS)
    numbers = np.arange(len(rows))
    for draw in range(_DRAWS):
        places = (rng.permutation(len(rows)) + rng.random(len(rows))) / len(rows)
        totals[draw] = means[numbers, (places * means.shape[1]).astype(int)].mean()
    return float(totals.var())


def draw_losses(model: Any, rows: Examples, draws: int) -> list[Floats]:
    """Return for each row the losses of k random tokens and of all others, `[n + 1, R, 2]`."""
    rng = np.random.default_rng(0)
    found = []
    for number in range(len(rows)):
        row = take(rows, np.array([number]))
        real = np.flatnonzero(row.word_ids.values >= 0)
        copies = take(row, np.zeros((len(real) + 1) * draws, np.int64))

        kinds = np.zeros((len(copies), len(row.word_ids.values)), np.uint8)
        for copy in range(len(copies)):
            kinds[copy, rng.permutation(real)[: copy // draws]] = 1
        others = np.zeros_like(kinds)
        others[:, real] = 1 - kinds[:, real]
        both = [_losses(model, copies, masked.ravel()) for masked in (kinds, others)]
        found.append(np.stack(both, axis=-1).reshape(len(real) + 1, draws, 2))
    return found


def _losses(model: Any, rows: Examples, kinds: npt.NDArray[np.uint8]) -> Floats:
    """Return the summed loss of each row's masked tokens."""
    plan = MaskPlan.from_kinds(rows, kinds)
    hidden = corrupt(rows, plan, Corruption(), seed=0, epoch=0)
    batch = Masked(examples=rows, kinds=plan.kinds, corrupted=hidden).batch()
    labels = torch.from_numpy(batch["labels"])
    with torch.inference_mode():
        logits = model.masked_lm(
            input_ids=torch.from_numpy(batch["input_ids"]),
            attention_mask=torch.from_numpy(batch["attention_mask"]),
        ).logits
        losses = token_losses(logits.flatten(0, 1), labels.flatten()).view_as(labels)
    return np.asarray(losses.sum(1).double().numpy())


def page(found: dict[str, dict[int, float]], draws: int) -> str:
    """Return the page."""
    base = next(iter(found.values()))
    lines = [
        f"| {name} | "
        + " | ".join(f"{of[length]:.4f} ({of[length] / base[length]:.2f}x)" for length in _LENGTHS)
        + " |"
        for name, of in found.items()
    ]
    return "\n".join(
        [
            "# Variance of the loss of masked diffusion",
            "",
            "Written by `python -m benchmarks.variance`: the variance of the mean loss of a batch "
            f"of {_BATCH} rows in nats a",
            "token, over masks and rates of single tokens from 0.001 to 1, while the rows and the "
            "model stay. The",
            f"model's losses are of {draws} masks of each number of tokens, and of their "
            "complements; all else is",
            "integrated. Means are of the same batch over 1, 2 and 8 epochs, and beside those of "
            "independent rates.",
            "",
            "| rates | 1 epoch | 2 epochs | 8 epochs |",
            "|---|---:|---:|---:|",
            *lines,
            "",
            *[f"* {line}" for line in (*machine(), f"Commit: {commit(ROOT)}")],
            "",
        ]
    )


if __name__ == "__main__":
    main()
