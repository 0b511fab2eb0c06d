"""Converts mentions from characters to tokens, and splits them at window boundaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mslm_data.data.documents import Mentions
from mslm_data.data.ragged import count_up
from mslm_data.data.reason import Reason
from mslm_data.encode.layout import Ints, Layout

NO_TOKEN = Reason("no token")
SHARED = Reason("shares its tokens with another")
"""Reasons in `Account.left_out`."""
NARROWED = "begins within a token that another mention has"
"""Reason in `Account.adjusted`: the first token of a mention belongs to the mention before."""


@dataclass(slots=True)
class Account:
    """Counts of lost and changed mentions, and of cut sentences.

    The rows have `given - sum(left_out) + cut_pieces` mentions.

    Attributes:
        left_out: Reason -> number of mentions that are in no row.
        adjusted: Reason -> number of mentions without some of their tokens.
        cut_mentions: Number of mentions divided among several rows.
        cut_pieces: Number of additional mentions made by dividing these.
        windowed: Number of sentences divided among several rows.
        empty: Number of sentences without tokens, which are in no row.
        widened: Number of mentions that start or end inside a token, and were extended to it.
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
    """S sorted, non-overlapping mentions over the tokens of a `Layout`.

    Attributes:
        starts: int64 `[S]`, first token.
        ends: int64 `[S]`, token after the last, greater than the start.
        labels: int16 `[S]`, label index.
        sources: int64 `[S]`, index of the mention in `Documents.mentions`.
    """

    starts: Ints
    ends: Ints
    labels: npt.NDArray[np.int16]
    sources: Ints


def align(
    mentions: Mentions, layout: Layout, labels: Mapping[str, int], account: Account
) -> TokenMentions:
    """Convert mentions from characters to tokens.

    A mention gets all tokens that overlap it, except tokens of the mention before. A mention
    without tokens is left out.

    Args:
        mentions: Sorted, non-overlapping mentions.
        layout: Tokens of the same documents.
        labels: Label -> index, for all labels with mentions.
        account: Counts of mentions; updated.
    """
    begins = mentions.starts
    stops = mentions.ends
    numbers = np.array([labels.get(name, -1) for name in mentions.names], np.int16)
    indices = numbers[mentions.labels]

    # A mention reaches from the first token that ends after the mention's start, to the last token
    # that starts before the mention's end.
    starts = np.searchsorted(layout.ends, begins, side="right")
    ends = np.searchsorted(layout.starts, stops, side="left")
    is_bare = starts >= ends

    # A shared token belongs to the first mention: `taken` is the end of all mentions before.
    # Mentions without tokens must not count, so their end is 0.
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
    """Split mentions at window boundaries.

    Args:
        mentions: S mentions.
        cuts: int64 `[W]`, sorted first token of each window, starting with 0.

    Returns:
        P pieces of mentions, each within a window, and int64 `[P]`, the window of each piece.
    """
    first = np.searchsorted(cuts, mentions.starts, side="right") - 1
    last = np.searchsorted(cuts, mentions.ends - 1, side="right") - 1

    # Piece n of mention m is in window `first[m] + n`.
    num_pieces = last - first + 1
    mention = np.repeat(np.arange(len(num_pieces)), num_pieces)
    nth = count_up(0, num_pieces)
    window = first[mention] + nth

    next_cut = np.append(cuts, np.iinfo(np.int64).max)[window + 1]
    starts = np.where(nth > 0, cuts[window], mentions.starts[mention])
    ends = np.minimum(mentions.ends[mention], next_cut)
    pieces = TokenMentions(starts, ends, mentions.labels[mention], mentions.sources[mention])
    return pieces, window
