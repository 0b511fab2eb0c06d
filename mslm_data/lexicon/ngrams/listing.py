"""Truncate ranked n-grams: by size, by shares of lengths, or by coverage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mslm_data.lexicon.ngrams.choice import LONGEST
from mslm_data.lexicon.ngrams.counting import Grams
from mslm_data.lexicon.ngrams.stream import WordStream

_PLACES_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """N-grams of one length, best first.

    Attributes:
        numbers: int64 `[K]`, indices into all counted n-grams of this length.
        words: int32 `[K, n]`, word types.
        scores: float64 `[K]`, descending.
    """

    numbers: npt.NDArray[np.int64]
    words: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.scores)

    def sort(self, ties: npt.NDArray[np.int64]) -> Listing:
        """Sort the n-grams, best first.

        Args:
            ties: int64 `[W]`, rank of each word type. N-grams with equal scores are sorted by the
                ranks of their words.
        """
        columns = ties[self.words].T

        # The last key of `lexsort` is the primary one.
        return self.select(np.lexsort((*columns[::-1], -self.scores)))

    def select(self, places: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Listing:
        """Select n-grams by index or mask."""
        return Listing(self.numbers[places], self.words[places], self.scores[places])


def list_sizes(
    listings: Mapping[int, Listing], shares: Sequence[float]
) -> dict[int, npt.NDArray[np.int64]]:
    """Return for each n-gram the size of the smallest list that contains it.

    Args:
        listings: Length -> n-grams, best first.
        shares: Percentage of each length in a list, rounded down. Without shares, all lengths
            compete by score, shorter n-grams first for equal scores.

    Returns:
        Length -> int64 `[K]`; -1 if no list contains the n-gram.
    """
    if shares:
        return {
            n: _sizes_by_share(len(listing), share)
            for (n, listing), share in zip(listings.items(), shares, strict=True)
        }

    order = order_by_score(listings)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(1, len(order) + 1)

    ends = np.cumsum([len(listing) for listing in listings.values()])
    return dict(zip(listings, np.split(ranks, ends[:-1]), strict=True))


def _sizes_by_share(count: int, share: float) -> npt.NDArray[np.int64]:
    """Return for each n-gram of a length the list size at which it is included.

    Args:
        count: Number of n-grams.
        share: Share of the length in a list, in percent.
    """
    if not share:
        return np.full(count, -1)

    # Subtract an epsilon, so that integers with a rounding error are not rounded up.
    return np.ceil(np.arange(1, count + 1) * 100 / share - 1e-9).astype(np.int64)


def order_by_score(listings: Mapping[int, Listing]) -> npt.NDArray[np.int64]:
    """Return the order by score, descending, of concatenated n-grams of all lengths."""
    scores = np.concatenate([listing.scores for listing in listings.values()])
    return np.argsort(-scores, kind="stable")


def count_covered_tokens(
    stream: WordStream,
    grams: Sequence[Grams],
    listings: Mapping[int, Listing],
    sizes: Mapping[int, npt.NDArray[np.int64]],
) -> npt.NDArray[np.int64]:
    """Count the additional tokens covered by each list size.

    Args:
        stream: The words.
        grams: Its n-grams.
        listings: Length -> candidate n-grams.
        sizes: See `list_sizes`.

    Returns:
        int64 `[S + 2]`, S is the maximum size. The last item counts tokens that no list covers.
    """
    # For each n-gram of the corpus, the size of the smallest list that contains it. The last item,
    # at index -1, is for positions without an n-gram.
    never = 1 + max((int(size.max()) for size in sizes.values() if len(size)), default=0)
    listed = {n: np.full(len(grams[n - 1].counts) + 1, never) for n in listings}
    for n, listing in listings.items():
        listed[n][listing.numbers] = np.where(sizes[n] < 0, never, sizes[n])

    # `tail` carries the needs of words in n-grams that cross the end of a block.
    lengths = stream.words.tokens.lengths
    counts = np.zeros(never + 1, np.int64)
    tail = np.full(LONGEST, never)
    for start in range(0, len(stream.numbers), _PLACES_AT_ONCE):
        words = stream.numbers[start : start + _PLACES_AT_ONCE]

        # The need of a word is the minimum size over all n-grams that contain it.
        needs = np.full(len(words) + LONGEST, never)
        needs[:LONGEST] = tail
        for n, min_sizes in listed.items():
            gram_sizes = min_sizes[grams[n - 1].stream[start : start + len(words)]]
            for place in range(n):
                covered = needs[place : place + len(words)]
                np.minimum(covered, gram_sizes, out=covered)

        is_word = words >= 0
        np.add.at(counts, needs[: len(words)][is_word], lengths[words[is_word]])
        tail = needs[len(words) :]

    return counts


def find_size(covered: npt.NDArray[np.int64], coverage: float | None) -> int:
    """Return the size of the smallest list that covers a share of tokens.

    If no list does, returns the maximum size.

    Args:
        covered: See `count_covered_tokens`.
        coverage: Share in (0, 1]; None for the maximum size.
    """
    longest = len(covered) - 2
    if coverage is None:
        return longest
    return min(int(np.searchsorted(np.cumsum(covered), coverage * covered.sum())), longest)
