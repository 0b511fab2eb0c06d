"""Measure the association of the words of an n-gram: pointwise mutual information, in bits.

p(g) is the count of g over the number of n-gram positions of its length.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from mslm_data.lexicon.ngrams.counting import Grams, spell

Scores: TypeAlias = npt.NDArray[np.float64]

_DECIMALS = 9
"""Sums of logarithms are rounded to so many places, so that equal values tie whatever the order of
the sum."""


def levine(grams: Sequence[Grams], positions: Sequence[int], n: int) -> Scores:
    """Compute `PMI_n`: an n-gram is only as strong as its weakest split.

    Levine et al. 2021, Eq. 3: the minimum of log p(n-gram) - sum of log p(part), over all ways to
    split the n-gram into two or more parts.

    Args:
        grams: As `count_ngrams` gives them, of lengths up to n or more.
        positions: At index k, how many k-grams there are; see `WordStream`.
        n: Words of the n-grams to measure, 2 or more.

    Returns:
        `[G]`.
    """
    split, logs = _best_split(grams, positions, n)
    return np.round(logs - split, _DECIMALS)


def squared(grams: Sequence[Grams], positions: Sequence[int], n: int) -> Scores:
    """Compute `PMI_n` with the squared probability of the n-gram, which prefers frequent n-grams.

    The lists that Levine et al. 2021 published are ranked by this measure. Arguments as for
    `levine`.
    """
    split, logs = _best_split(grams, positions, n)
    return np.round(2 * logs - split, _DECIMALS)


def plain(grams: Sequence[Grams], positions: Sequence[int], n: int) -> Scores:
    """Compute log N^(n - 1) c / (c_1 ... c_n): N words, n-gram count c, word counts c_i.

    NLTK's measure, which the code released with Abaho et al. 2024 takes. It is computed in whole
    numbers up to the logarithms, as NLTK does, so that the order is the same to the last bit.
    Arguments as for `levine`.
    """
    counts = grams[n - 1].counts.tolist()
    word_counts = grams[0].counts.tolist()
    products = (
        math.prod([word_counts[word] for word in gram]) for gram in spell(grams, n).tolist()
    )

    total = positions[1] ** (n - 1)
    values = [
        math.log2(c * total) - math.log2(product)
        for c, product in zip(counts, products, strict=True)
    ]
    return np.array(values, np.float64)


# Name -> measure.
MEASURES: dict[str, Callable[[Sequence[Grams], Sequence[int], int], Scores]] = {
    "levine": levine,
    "plain": plain,
    "squared": squared,
}


def _best_split(grams: Sequence[Grams], positions: Sequence[int], n: int) -> tuple[Scores, Scores]:
    """Return the maximum over splits of the sum of log p(part), and the n-gram's log p.

    A split's first cut leaves two pieces, each of them whole or split again. The best of a piece is
    therefore the greater of its own log p and its best split.
    """
    best: list[Scores] = []  # at index k - 1, for each k-gram: the best of it, whole or split
    split = np.empty(0, np.float64)
    logs = np.empty(0, np.float64)

    for k in range(1, n + 1):
        logs = np.log2(grams[k - 1].counts) - math.log2(max(positions[k], 1))
        if k == 1:
            best.append(logs)
            continue

        first, last = _parts(grams, k)
        cuts = [best[i - 1][first[i]] + best[k - i - 1][last[k - i]] for i in range(1, k)]
        split = np.max(cuts, axis=0)
        best.append(np.maximum(logs, split))

    return split, logs


def _parts(
    grams: Sequence[Grams], n: int
) -> tuple[list[npt.NDArray[np.int32]], list[npt.NDArray[np.int32]]]:
    """Return the ids of the first k words of each n-gram, and of the last k, at index k."""
    whole = np.arange(len(grams[n - 1].counts), dtype=np.int32)
    first = [whole] * (n + 1)
    last = [whole] * (n + 1)

    for k in range(n, 1, -1):
        first[k - 1] = grams[k - 1].left[first[k]]
        last[k - 1] = grams[k - 1].right[last[k]]

    return first, last
