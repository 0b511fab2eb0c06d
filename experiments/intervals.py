"""Intervals by the bootstrap, over seeds and groups of sentences, paired by seed.

Dimensions: S seeds, G groups of sentences, K counts of a group, R resamples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

RESAMPLES = 2_000
POWER = 2.8
"""Difference, in standard errors, that a two-sided test at 5 % detects with a power of 80 %."""

Floats = npt.NDArray[np.float64]
Score = Callable[[Floats], Floats]
"""Maps counts `[..., K]` to scores `[...]`."""


class Difference(NamedTuple):
    """A mean difference over seeds.

    Attributes:
        mean: Mean of the second minus the first.
        low: Lower end of the 95 % interval.
        high: Upper end of the interval.
        seen: Smallest true difference that such a study detects with a power of 80 %.
        seeds: Number of seeds.
    """

    mean: float
    low: float
    high: float
    seen: float
    seeds: int


def signed(points: float) -> str:
    """Return a difference with its sign and one decimal: `+0.0`, never `-0.0`."""
    return f"{round(points, 1) + 0.0:+.1f}"


def interval(low: float, high: float) -> str:
    """Return the ends of an interval with one decimal, rounded outwards.

    The signs differ if the interval contains 0: `-0.1 to +0.9` for a lower end of -0.01. An upper
    end just below 0 is `-0.0`.
    """
    low, high = np.round((low * 10, high * 10), 6)  # drop the rounding error of floats
    return f"{np.floor(low) / 10:+.1f} to {np.ceil(high) / 10:+.1f}"


def f1(counts: Floats) -> Floats:
    """Return F1 from counts of hits, gold and predicted mentions."""
    both = counts[..., 1] + counts[..., 2]
    return np.divide(2 * counts[..., 0], both, out=np.zeros(both.shape), where=both > 0)


def accuracy(counts: Floats) -> Floats:
    """Return hits / total, the first two counts."""
    return counts[..., 0] / np.maximum(counts[..., 1], 1)


def perplexity(counts: Floats) -> Floats:
    """Return perplexity from counts of hits, tokens and summed losses."""
    return np.exp(counts[..., 2] / np.maximum(counts[..., 1], 1))


def macro_f1(counts: Floats) -> Floats:
    """Return the mean F1 over classes, from hits, gold and predicted of each class.

    Classes without gold and predicted rows are skipped.
    """
    per_class = counts.reshape(*counts.shape[:-1], -1, 3)
    there = (per_class[..., 1] + per_class[..., 2]) > 0
    means: Floats = (f1(per_class) * there).sum(-1) / np.maximum(there.sum(-1), 1)
    return means


def micro_f1(counts: Floats) -> Floats:
    """Return F1 from sums over classes; see `macro_f1`."""
    whole: Floats = counts.reshape(*counts.shape[:-1], -1, 3).sum(-2)
    return f1(whole)


def by_class(gold: Sequence[int], predicted: Sequence[int], classes: int) -> Floats:
    """Return hits, gold and predicted of each class for each row, `[rows, 3 * classes]`."""
    rows = np.arange(len(gold))
    counts = np.zeros((len(gold), classes, 3))
    counts[rows, gold, 1] = 1
    counts[rows, predicted, 2] = 1
    counts[..., 0] = counts[..., 1] * counts[..., 2]
    return counts.reshape(len(gold), -1)


def difference(first: Floats, second: Floats, *, score: Score) -> Difference:
    """Compare two arms by runs of the same seeds.

    Each resample draws groups of sentences, the same for all seeds and both arms, and independently
    draws seeds. The deviation by seeds is widened by `_widening`, because resamples of five seeds
    vary less than samples of five new seeds. With one seed the interval covers sentences only.

    Args:
        first: Counts of the first arm, `[S, G, K]`.
        second: Counts of the second arm, for the same seeds and groups.
        score: Score to compare.
    """
    seeds, groups, _ = first.shape
    weights, drawn = _resamples(seeds, groups)

    of_groups = score(_sums(second, weights)) - score(_sums(first, weights))  # [R, S]
    of_seeds = score(second.sum(axis=1)) - score(first.sum(axis=1))  # [S]
    mean = of_seeds.mean()
    by_seeds = of_seeds[drawn].mean(axis=1) - mean
    resampled = of_groups.mean(axis=1) + _widening(seeds) * by_seeds

    low, high = np.quantile(resampled, [0.025, 0.975])
    seen = POWER * resampled.std()
    return Difference(float(mean), float(low), float(high), float(seen), seeds)


def replicated_difference(
    replicates: Sequence[Mapping[str, tuple[Floats, Floats]]], *, score: Score
) -> Difference:
    """Compare two arms by independent replicates, each with several pairs of runs.

    A replicate's difference is the mean over its pairs. Each resample draws replicates, with the
    deviation widened as in `difference`. Independently, it draws groups of each test text, the same
    for both arms and all replicates.

    Args:
        replicates: For each replicate, test text -> the counts of both arms' runs, pair by pair,
            each `[pairs, G, K]`.
        score: Score to compare.

    Returns:
        The difference; its `seeds` is the number of replicates.
    """
    texts = sorted({text for replicate in replicates for text in replicate})
    draw = np.random.default_rng(0)
    point = np.zeros(len(replicates))
    by_groups = np.zeros((RESAMPLES, len(replicates)))
    pairs = [sum(len(first) for first, _ in replicate.values()) for replicate in replicates]
    for text in texts:
        groups = next(replicate[text][0].shape[1] for replicate in replicates if text in replicate)
        weights = draw.multinomial(groups, np.full(groups, 1 / groups), RESAMPLES).astype(float)
        for number, replicate in enumerate(replicates):
            if text in replicate:
                first, second = replicate[text]
                apart = score(second.sum(axis=1)) - score(first.sum(axis=1))  # [pairs]
                resampled = score(_sums(second, weights)) - score(_sums(first, weights))
                point[number] += apart.sum() / pairs[number]
                by_groups[:, number] += resampled.sum(axis=1) / pairs[number]

    drawn = draw.integers(len(replicates), size=(RESAMPLES, len(replicates)))
    mean = point.mean()
    by_replicates = point[drawn].mean(axis=1) - mean
    values = by_groups.mean(axis=1) + _widening(len(replicates)) * by_replicates
    low, high = np.quantile(values, [0.025, 0.975])
    return Difference(
        float(mean), float(low), float(high), float(POWER * values.std()), len(replicates)
    )


@lru_cache(maxsize=16)  # few sizes occur, and drawing takes longer than comparing
def _resamples(seeds: int, groups: int) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Return the number of draws of each group, `[R, G]`, and the drawn seeds, `[R, S]`."""
    draw = np.random.default_rng(0)
    weights = draw.multinomial(groups, np.full(groups, 1 / groups), RESAMPLES).astype(float)
    return weights, draw.integers(seeds, size=(RESAMPLES, seeds))


def _widening(seeds: int) -> float:
    """Return the factor from the bootstrap's spread of a mean over seeds to that of a t-interval.

    The bootstrap divides by n instead of n - 1 and has normal quantiles; see the expanded
    percentile interval of Hesterberg (The American Statistician 69, 2015).
    """
    if seeds == 1:
        return 1.0

    quantiles = stats.t.ppf(0.975, seeds - 1) / stats.norm.ppf(0.975)
    return float(np.sqrt(seeds / (seeds - 1)) * quantiles)


def _sums(counts: Floats, weights: Floats) -> Floats:
    """Return the total counts of each resample and seed, `[R, S, K]`."""
    return np.tensordot(weights, counts, axes=(1, 1))
