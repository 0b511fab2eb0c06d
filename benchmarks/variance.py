"""Variance of the masked diffusion loss, by the sampling of rates.

`python -m benchmarks variance` trains `examples/masked_diffusion.py` on the shipped notes.

Losses are divided by the rate, so at low rates their distribution is heavy-tailed, and Monte Carlo
estimates of the variance remain noisy. Instead, the model computes the loss of k random masked
tokens and of their complement, for each k from 0 to n, in a row of n tokens. Given the rate t, k is
binomial, so means and variances follow by sums over k and integrals over t.

A point u in `[0, 1]` is mapped linearly to the rate t. N rows in a batch, R draws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import mslm_data as md
from benchmarks.harness import Results, Table
from benchmarks.inputs import Inputs
from examples import masked_diffusion
from mslm_data.batches.collate import Masked, find_labels
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
"""Number of simulated batches of antithetic rates, and of grid points u."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RowLosses:
    """Moments of the loss of a row of n tokens, by number k of masked tokens.

    Attributes:
        mean: Mean of the summed loss of k masked tokens in nats, `[n + 1]`.
        square: Mean of its square, `[n + 1]`.
        product: Mean of its product with the loss of the complement, `[n + 1]`.
    """

    mean: Floats
    square: Floats
    product: Floats

    @classmethod
    def from_draws(cls, losses: Floats) -> RowLosses:
        """Compute moments from losses of k tokens and of their complement, `[n + 1, R, 2]`."""
        # The complement of k tokens is itself a draw of n - k tokens: use both.
        masked, others = losses[..., 0], losses[::-1, :, 1]
        both = np.concatenate([masked, others], axis=1)
        product = (losses[..., 0] * losses[..., 1]).mean(1)
        return cls(both.mean(1), (both**2).mean(1), (product + product[::-1]) / 2)

    def at(self, rates: Floats) -> tuple[Floats, Floats, Floats]:
        """Return moments of the loss per token divided by the rate, at each rate t.

        Args:
            rates: `[T]`.

        Returns:
            Mean, mean square, and mean product with the loss of the complement divided by 1 - t,
            each `[T]`.
        """
        size = len(self.mean) - 1

        # Binomial distribution of the number of masked tokens, `[T, n + 1]`.
        number = np.arange(size + 1)
        choose = np.array([math.comb(size, k) for k in number], float)
        others = 1 - rates[:, None]
        chances = choose * rates[:, None] ** number * others ** (size - number)
        return (
            chances @ self.mean / (size * rates),
            chances @ self.square / (size * rates) ** 2,
            chances @ self.product / (size**2 * rates * np.maximum(1 - rates, 1e-300)),
        )


_ABOUT = """
The variance of the mean loss of a batch of {batch} rows in nats a token, over masks and rates of
single tokens from {low} to 1, while the rows and the model stay. The model's losses are of {draws}
masks of each number of tokens, and of their complements; all else is integrated. Means are of the
same batch over 1, 2 and 8 epochs, and beside those of independent rates.
"""


def run(
    inputs: Inputs,  # noqa: ARG001 - the notes are the shipped ones
    scratch: Path,
    *,
    draws: int = 8,
    epochs: int = 40,
) -> Results:
    """Train a model, and compute variances.

    Args:
        inputs: Unused.
        scratch: Folder for notes and model.
        draws: Masks per number of tokens.
        epochs: Epochs of training.
    """
    split = md.build("mimic", sample=True, out=scratch / "notes")["train"]
    masked_diffusion.main(str(scratch / "notes"), "tokens", str(scratch / "model"), str(epochs))
    model = MslmModel.from_pretrained(scratch / "model").eval()

    rows = take(split.examples(), np.arange(_BATCH))
    losses = [RowLosses.from_draws(row) for row in draw_losses(model, rows, draws)]
    about = _ABOUT.format(batch=_BATCH, low=_LOW, draws=draws)
    return Results(about=about, tables=[make_table(variances(losses))])


def variances(rows: Sequence[RowLosses]) -> dict[str, dict[int, float]]:
    """Return the variance of a batch's mean loss over 1, 2 and 8 epochs.

    Returns:
        Sampling of rates -> number of epochs -> variance.
    """
    # A mask of rate t and its complement of rate 1 - t both need rates of at least _LOW.
    places = (np.arange(_DRAWS) + 0.5) / _DRAWS
    whole = [_Curves.from_row(row, places, high=1.0) for row in rows]
    halves = [_Curves.from_row(row, places, high=1 - _LOW) for row in rows]

    # Rows are independent, so the variance of their mean is the sum of variances over N^2.
    def batch_variance(values: Sequence[float]) -> float:
        return float(sum(values)) / len(rows) ** 2

    # Law of total variance: variance over masks at a given rate, plus variance over rates of the
    # mean. Only the second term depends on the sampling of rates. Antithetic rows are dependent,
    # so it is simulated.
    noise = batch_variance([row.noise for row in whole])
    once = noise + batch_variance([row.mean.var() for row in whole])
    half_once = batch_variance([row.noise + row.mean.var() for row in halves])
    pair_noise = batch_variance([row.pair_noise for row in halves])
    pair_once = pair_noise + batch_variance([row.pair.var() for row in halves])
    spread = noise + _antithetic(whole)

    by_sampling: dict[str, dict[int, float]] = {
        "independent: `uniform`": {},
        "antithetic over a batch (MDLM)": {},
        "`kronecker`, the default": {},
        "`uniform`, `complement`": {},
        "`kronecker`, `complement`": {},
    }
    # Two epochs make one pair of a mask and its complement.
    for length in _LENGTHS:
        pairs = length // 2
        by_golden = batch_variance([_over_epochs(row.mean, length) for row in whole])
        half_by_golden = batch_variance([_over_epochs(row.pair, pairs) for row in halves])
        figures = (
            once / length,
            spread / length,
            noise / length + by_golden,
            pair_once / pairs if pairs else half_once,
            pair_noise / pairs + half_by_golden if pairs else half_once,
        )
        for by_length, figure in zip(by_sampling.values(), figures, strict=True):
            by_length[length] = figure
    return by_sampling


@dataclass(frozen=True)
class _Curves:
    """Loss of a row as a function of u, alone and averaged with its complement.

    Attributes:
        mean: Mean loss at each u.
        noise: Variance over masks at a given u, averaged over u.
        pair: Mean loss of a mask and its complement at each u.
        pair_noise: Variance over masks of that mean, averaged over u.
    """

    mean: Floats
    noise: float
    pair: Floats
    pair_noise: float

    @classmethod
    def from_row(cls, row: RowLosses, places: Floats, *, high: float) -> _Curves:
        mean, _, _ = row.at(_LOW + (high - _LOW) * places)
        mirrored, _, _ = row.at(_LOW + (high - _LOW) * (1 - places))

        # Squares grow like 1 / t, so the grid is even in log t. The weights turn sums over it into
        # means over the uniform distribution of t.
        knots = np.geomspace(_LOW, high, 4001)
        at_knots, squares, products = row.at(knots)
        others, _, _ = row.at(np.maximum(1 - knots, _LOW))
        weights = np.gradient(knots) / (high - _LOW)
        weights /= weights.sum()
        noise = float(weights @ (squares - at_knots**2))

        # Mask and complement have the same distribution, hence the same mean square.
        square = float(weights @ squares)
        pair_square = square / 2 + float(weights @ products) / 2
        pair_mean = float(weights @ ((at_knots + others) / 2) ** 2)
        return cls(mean, noise, (mean + mirrored) / 2, pair_square - pair_mean)


def _over_epochs(curve: Floats, epochs: int) -> float:
    """Return the variance, over the first u, of the mean over epochs with golden-ratio steps."""
    if epochs == 0:
        return math.nan
    steps = np.arange(epochs)[:, None] * _GOLDEN
    places = np.floor(((np.arange(len(curve)) / len(curve) + steps) % 1) * len(curve)).astype(int)
    return float(curve[places % len(curve)].mean(0).var())


def _antithetic(rows: Sequence[_Curves]) -> float:
    """Return the variance of a batch's mean with antithetic rates.

    The interval is split into N equal parts, and each row draws u from a different part.
    """
    rng = np.random.default_rng(0)
    means = np.stack([row.mean for row in rows])
    totals = np.empty(_DRAWS)
    numbers = np.arange(len(rows))
    for draw in range(_DRAWS):
        places = (rng.permutation(len(rows)) + rng.random(len(rows))) / len(rows)
        totals[draw] = means[numbers, (places * means.shape[1]).astype(int)].mean()
    return float(totals.var())


def draw_losses(model: Any, rows: Examples, draws: int) -> list[Floats]:
    """Return for each row the losses of k random tokens and of their complement.

    Args:
        model: An `MslmModel`.
        rows: N rows.
        draws: Number R of masks for each k.

    Returns:
        N arrays `[n + 1, R, 2]`, summed losses in nats.
    """
    rng = np.random.default_rng(0)
    by_sampling = []
    for number in range(len(rows)):
        row = take(rows, np.array([number]))
        real = np.flatnonzero(row.word_ids.values >= 0)
        copies = take(row, np.zeros((len(real) + 1) * draws, np.int64))

        # Copies 0 to R - 1 of the row have no masked token, copies R to 2 R - 1 one, and so on.
        kinds = np.zeros((len(copies), len(row.word_ids.values)), np.uint8)
        for copy in range(len(copies)):
            kinds[copy, rng.permutation(real)[: copy // draws]] = 1
        others = np.zeros_like(kinds)
        others[:, real] = 1 - kinds[:, real]
        both = [_losses(model, copies, masked.ravel()) for masked in (kinds, others)]
        by_sampling.append(np.stack(both, axis=-1).reshape(len(real) + 1, draws, 2))
    return by_sampling


def _losses(model: Any, rows: Examples, kinds: npt.NDArray[np.uint8]) -> Floats:
    """Return the summed loss of each row's masked tokens."""
    plan = MaskPlan.from_kinds(rows, kinds)
    corrupted = corrupt(rows, plan, Corruption(), seed=0, epoch=0)
    masked = Masked(
        examples=rows,
        input_ids=corrupted,
        labels=find_labels(rows.input_ids, plan.kinds),
        kinds=plan.kinds,
    )
    batch = masked.batch()
    labels = torch.from_numpy(batch["labels"])
    with torch.inference_mode():
        logits = model.masked_lm(
            input_ids=torch.from_numpy(batch["input_ids"]),
            attention_mask=torch.from_numpy(batch["attention_mask"]),
        ).logits
        losses = token_losses(logits.flatten(0, 1), labels.flatten()).view_as(labels)
    return np.asarray(losses.sum(1).double().numpy())


def make_table(by_sampling: dict[str, dict[int, float]]) -> Table:
    """Make the table of variances, beside those of the first sampling."""
    base = next(iter(by_sampling.values()))
    rows = [
        (
            name,
            *(
                f"{by_length[length]:.4f} ({by_length[length] / base[length]:.2f}x)"
                for length in _LENGTHS
            ),
        )
        for name, by_length in by_sampling.items()
    ]
    return Table(header=("rates", "1 epoch", "2 epochs", "8 epochs"), rows=rows, align="lrrr")
