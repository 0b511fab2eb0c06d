"""Truncate ranked n-grams to a list: by size, by share per length, or by coverage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mslm_data.kernels import ngrams as kernels
from mslm_data.lexicon.ngrams.counting import Grams
from mslm_data.lexicon.ngrams.stream import LONGEST, WordStream

_PLACES_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """N-grams of one length, best first.

    Attributes:
        numbers: int64 `[K]`, their numbers among all that were counted.
        words: int32 `[K, n]`, their word types.
        scores: float64 `[K]`, from the highest to the lowest.
    """

    numbers: npt.NDArray[np.int64]
    words: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.scores)

    def best(self, ties: npt.NDArray[np.int64]) -> Listing:
        """Sort the n-grams, best first.

        Args:
            ties: int64 `[W]`: the place of each word type. N-grams of equal score are ordered by
                those of their words.
        """
        columns = ties[self.words].T

        # `lexsort` takes the most important key last.
        return self.where(np.lexsort((*columns[::-1], -self.scores)))

    def where(self, places: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Listing:
        """Select n-grams by index or mask."""
        return Listing(self.numbers[places], self.words[places], self.scores[places])


def list_sizes(
    listings: Mapping[int, Listing], shares: Sequence[float]
) -> dict[int, npt.NDArray[np.int64]]:
    """Return for each n-gram the size of the smallest list that contains it.

    Args:
        listings: Length -> n-grams, the best first.
        shares: Percentage of a list that each length has, rounded down. Without shares all lengths
            compete by score, and of equal scores the shorter n-gram comes first.

    Returns:
        Length -> int64 `[K]`; -1 where no list holds the n-gram.
    """
    if shares:
        return {
            n: _sizes_by_share(len(listing), share)
            for (n, listing), share in zip(listings.items(), shares, strict=True)
        }

    order = by_score(listings)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(1, len(order) + 1)

    ends = np.cumsum([len(listing) for listing in listings.values()])
    return dict(zip(listings, np.split(ranks, ends[:-1]), strict=True))


def _sizes_by_share(count: int, share: float) -> npt.NDArray[np.int64]:
    """Return for each n-gram the size at which a length's share, in percent, reaches it."""
    if not share:
        return np.full(count, -1)

    # The small number keeps a quotient that is whole but for its rounding from being rounded up.
    return np.ceil(np.arange(1, count + 1) * 100 / share - 1e-9).astype(np.int64)


def by_score(listings: Mapping[int, Listing]) -> npt.NDArray[np.int64]:
    """Return the order by score, highest first, of concatenated n-grams of all lengths."""
    scores = np.concatenate([listing.scores for listing in listings.values()])
    return np.argsort(-scores, kind="stable")


def tokens_by_size(
    stream: WordStream,
    grams: Sequence[Grams],
    listings: Mapping[int, Listing],
    sizes: Mapping[int, npt.NDArray[np.int64]],
) -> npt.NDArray[np.int64]:
    """Count the additional tokens that a list of each size covers.

    Args:
        stream: The words.
        grams: Its n-grams.
        listings: Length -> n-grams that may be listed.
        sizes: See `list_sizes`.

    Returns:
        int64 `[S + 2]`, S the size of the longest list. The last item counts the tokens that no
        list covers.
    """
    # For each n-gram of the corpus the size of the smallest list that holds it.
    never = 1 + max((int(size.max()) for size in sizes.values() if len(size)), default=0)
    listed = {n: np.full(len(grams[n - 1].counts), never) for n in listings}
    for n, listing in listings.items():
        listed[n][listing.numbers] = np.where(sizes[n] < 0, never, sizes[n])
    counts = np.zeros(never + 1, np.int64)
    tail = np.full(
        LONGEST, never
    )  # what n-grams that reach over the end of a block leave to the next
    for start in range(0, len(stream.numbers), _PLACES_AT_ONCE):
        words = stream.numbers[start : start + _PLACES_AT_ONCE]

        # A word is covered by a list of its `needs`: the least size of the n-grams that it stands
        # in.
        needs = np.full(len(words) + LONGEST, never)
        needs[:LONGEST] = tail
        for n, sizes_of in listed.items():
            kernels.lower_needs(grams[n - 1].stream[start : start + len(words)], n, sizes_of, needs)

        kernels.add_needs(words, stream.words.tokens.lengths, needs, counts)
        tail = needs[len(words) :]

    return counts


def size_for(covered: npt.NDArray[np.int64], coverage: float | None) -> int:
    """Return the size of the smallest list that covers a share of tokens.

    If none does, it is that of the longest list.

    Args:
        covered: See `tokens_by_size`.
        coverage: In (0, 1]; None for the longest list.
    """
    longest = len(covered) - 2
    if coverage is None:
        return longest
    return min(int(np.searchsorted(np.cumsum(covered), coverage * covered.sum())), longest)


def overlap(
    stream: WordStream, grams: Sequence[Grams], listings: Mapping[int, Listing]
) -> dict[str, int]:
    """Count listed n-grams by their overlap with the mentions of the same rows.

    Abaho et al. 2024, Table 11, count 8,130 of BC2GM's 15,787 n-grams (51.5 %) as domain terms.
    None of these three readings gives that number: of the same 15,787 n-grams 857 are mentions (5.4
    %), 3,089 lie within mentions (19.6 %) and 5,944 have words of mentions only (37.7 %).

    Returns:
        `mentions`: n-grams that are a whole mention somewhere. `within_mentions`: those that lie in
        a mention, or are one. `of_mention_words`: those of words each of which is in a mention
        somewhere.
    """
    counts = {"mentions": 0, "within_mentions": 0, "of_mention_words": 0}
    for n, listing in listings.items():
        found = np.zeros(len(grams[n - 1].counts), np.uint8)
        kernels.match_mentions(grams[n - 1].stream, n, stream.mentions, found)
        matches = found[listing.numbers]  # 0 nowhere in a mention, 1 within one, 2 a whole one

        counts["mentions"] += int((matches == 2).sum())
        counts["within_mentions"] += int((matches > 0).sum())
        counts["of_mention_words"] += int(stream.in_mention[listing.words].all(axis=1).sum())
    return counts
