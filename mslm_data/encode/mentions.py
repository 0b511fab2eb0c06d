"""Converts mentions from characters to tokens, and splits them at window boundaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mslm_data.data.documents import Mentions
from mslm_data.data.reason import Reason
from mslm_data.encode.layout import Ints, Layout, number_within

NO_TOKEN = Reason("no token")
SHARED = Reason("shares its tokens with another")
"""Reasons in `Account.left_out`."""
NARROWED = "begins within a token that another mention has"
"""Reason in `Account.adjusted`: a mention lacks the token that it begins in, as the one before it
ends there."""


@dataclass(slots=True)
class Account:
    """Counts of mentions and rows by what became of them.

    Mentions in rows = mentions given - those left out + pieces added by cuts.

    Attributes:
        left_out: Reason -> number of mentions that are in no row.
        adjusted: Reason -> number of mentions that lack a token of theirs.
        cut_mentions: Mentions longer than a row, which lie in several rows.
        cut_pieces: Spans that those became, less one each.
        windowed: Sentences that were too long for one row.
        empty: Sentences without a token, which are in no row.
        widened: Mentions that begin or end within a token, and were given all of it.
    """

    left_out: Counter[Reason] = field(default_factory=Counter)
    adjusted: Counter[str] = field(default_factory=Counter)
    cut_mentions: int = 0
    cut_pieces: int = 0
    windowed: int = 0
    empty: int = 0
    widened: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class TokenMentions:
    """S mentions over the tokens of a `Layout`, sorted, not overlapping.

    Attributes:
        starts: int64 `[S]`, first token.
        ends: int64 `[S]`, half open, past the start.
        labels: int16 `[S]`.
        sources: int64 `[S]`, the number of the mention among those of all documents.
    """

    starts: Ints
    ends: Ints
    labels: npt.NDArray[np.int16]
    sources: Ints


def align(
    mentions: Mentions, layout: Layout, labels: Mapping[str, int], account: Account
) -> TokenMentions:
    """Find the tokens of each mention: those that overlap it and no earlier mention.

    Args:
        mentions: Flat and sorted.
        layout: Tokens of the same documents.
        labels: Label -> index, of every label that a mention has.
        account: Counts of mentions, added to.
    """
    begins = mentions.starts
    stops = mentions.ends
    numbers = np.array([labels.get(name, -1) for name in mentions.names], np.int16)
    indices = numbers[mentions.labels]

    # The first token that ends after the mention's start, and past the last that begins before its
    # end.
    starts = np.searchsorted(layout.ends, begins, side="right")
    ends = np.searchsorted(layout.starts, stops, side="left")
    is_bare = starts >= ends

    # A token that two mentions share belongs to the first. Mentions without a token take none.
    ends = np.where(is_bare, 0, ends)
    taken = np.concatenate([[0], np.maximum.accumulate(ends)])[:-1]
    is_late = ~is_bare & (starts < taken)
    starts = np.maximum(starts, taken)
    is_shared = ~is_bare & (starts >= ends)
    num_narrowed = int((is_late & ~is_shared).sum())

    kept = np.flatnonzero(~is_bare & ~is_shared)
    begins_within = layout.starts[starts[kept]] < begins[kept]
    ends_within = layout.ends[ends[kept] - 1] > stops[kept]

    account.left_out[NO_TOKEN] += int(is_bare.sum())
    account.left_out[SHARED] += int(is_shared.sum())
    if num_narrowed:
        account.adjusted[NARROWED] += num_narrowed
    account.widened += int((begins_within | ends_within).sum())
    return TokenMentions(starts[kept], ends[kept], indices[kept], kept)


def split_at(mentions: TokenMentions, cuts: Ints) -> tuple[TokenMentions, Ints]:
    """Split mentions at the first token of each window.

    Args:
        mentions: S mentions.
        cuts: int64 `[W]`, rising, the first token of each window; `cuts[0] == 0` if there is a
            token.

    Returns:
        The mentions, with one piece in each window for those that go over a cut, and the window of
        each piece.
    """
    first = np.searchsorted(cuts, mentions.starts, side="right") - 1
    last = np.searchsorted(cuts, mentions.ends - 1, side="right") - 1

    # Piece n of mention m lies in window `first[m] + n`.
    num_pieces = last - first + 1
    mention = np.repeat(np.arange(len(num_pieces)), num_pieces)
    nth = number_within(num_pieces)
    window = first[mention] + nth

    next_cut = np.append(cuts, np.iinfo(np.int64).max)[window + 1]
    starts = np.where(nth > 0, cuts[window], mentions.starts[mention])
    ends = np.minimum(mentions.ends[mention], next_cut)
    pieces = TokenMentions(starts, ends, mentions.labels[mention], mentions.sources[mention])
    return pieces, window
