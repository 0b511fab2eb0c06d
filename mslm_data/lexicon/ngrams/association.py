"""Score n-grams by the association of their words: pointwise mutual information, in bits.

p(g) is the count of g divided by the number of n-gram positions of its length.
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
"""Decimal places of scores, so that equal values tie despite different orders of summation."""


def levine(grams: Sequence[Grams], positions: Sequence[int], n: int) -> Scores:
    """Compute `PMI_n`, which is limited by the n-gram's weakest split.

    Levine et al. 2021, Eq. 3: the minimum of log p(n-gram) - sum of log p(part), over all splits of
    the n-gram into two or more parts.

    Args:
        grams: Counts from `count_ngrams`, for lengths up to n or more.
        positions: Number of k-grams at index k, see `WordStream`.
        n: Number of words, at least 2.

    Returns:
        float64 `[G]`.
    """
    split, logs = _best_split(grams, positions, n)
    return np.round(logs - split, _DECIMALS)


def squared(grams: Sequence[Grams], positions: Sequence[int], n: int) -> Scores:
    """Compute `PMI_n` with the squared probability of the n-gram, which favours frequent n-grams.

    Levine et al. 2021 used it for their published lists. See `levine` for the arguments.
    """
    split, logs = _best_split(grams, positions, n)
    return np.round(2 * logs - split, _DECIMALS)


def plain(grams: Sequence[Grams], positions: Sequence[int], n: int) -> Scores:
    """Compute log2 N^(n - 1) c / (c_1 ... c_n), with N words, n-gram count c, word counts c_i.

    This is NLTK's measure, used by the code released with Abaho et al. 2024. Like NLTK, it uses
    integers up to the logarithms, so the order is identical. See `levine` for the arguments.
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


MEASURES: dict[str, Callable[[Sequence[Grams], Sequence[int], int], Scores]] = {
    "levine": levine,
    "plain": plain,
    "squared": squared,
}
"""Name -> measure."""


def _best_split(grams: Sequence[Grams], positions: Sequence[int], n: int) -> tuple[Scores, Scores]:
    """Return the maximum over splits of the sum of log p(part), and the n-gram's log p.

    Dynamic programming over lengths: the first cut of a split gives two pieces, each of them whole
    or split further. The best value of a piece is the maximum of its log p and its best split.
    """
    best: list[Scores] = []  # at index k - 1: best value of each k-gram, whole or split
    split = np.empty(0, np.float64)
    logs = np.empty(0, np.float64)

    for k in range(1, n + 1):
        logs = np.log2(grams[k - 1].counts) - math.log2(max(positions[k], 1))
        if k == 1:
            best.append(logs)
            continue

        first, last = _find_parts(grams, k)
        cuts = [best[i - 1][first[i]] + best[k - i - 1][last[k - i]] for i in range(1, k)]
        split = np.max(cuts, axis=0)
        best.append(np.maximum(logs, split))

    return split, logs


def _find_parts(
    grams: Sequence[Grams], n: int
) -> tuple[list[npt.NDArray[np.int32]], list[npt.NDArray[np.int32]]]:
    """Return the ids of the first k words, and of the last k words, of each n-gram, at index k."""
    whole = np.arange(len(grams[n - 1].counts), dtype=np.int32)
    first = [whole] * (n + 1)
    last = [whole] * (n + 1)

    for k in range(n, 1, -1):
        first[k - 1] = grams[k - 1].left[first[k]]
        last[k - 1] = grams[k - 1].right[last[k]]

    return first, last
