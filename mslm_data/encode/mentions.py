"""Converts mentions from characters to tokens, and splits them at window boundaries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mslm_data.data.accounts import Counts
from mslm_data.data.documents import Mentions
from mslm_data.data.ragged import count_up
from mslm_data.data.reason import Reason
from mslm_data.encode.layout import Layout
from mslm_data.encode.replaced import Ints

NO_TOKEN = Reason("no token")
SHARED = Reason("shares its tokens with another")
"""Reasons for mentions that are left out."""
NARROWED = "begins within a token that another mention has"
"""Reason for an adjusted mention, without its first token, which belongs to the mention before."""


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
    mentions: Mentions, layout: Layout, labels: Mapping[str, int]
) -> tuple[TokenMentions, Counts]:
    """Convert mentions from characters to tokens.

    A mention gets all tokens that overlap it, except tokens of the mention before. A mention
    without tokens is left out.

    Args:
        mentions: Sorted, non-overlapping mentions.
        layout: Tokens of the same documents.
        labels: Label -> index, for all labels with mentions.

    Returns:
        The mentions with tokens, and the counts of those left out, adjusted and widened.
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

    kept = np.flatnonzero(~is_bare & ~is_shared)
    begins_within = layout.starts[starts[kept]] < begins[kept]
    ends_within = layout.ends[ends[kept] - 1] > stops[kept]

    counts = Counts(widened_mentions=int((begins_within | ends_within).sum()))
    counts.leave_out(NO_TOKEN, int(is_bare.sum()))
    counts.leave_out(SHARED, int(is_shared.sum()))
    counts.adjust(NARROWED, int((is_late & ~is_shared).sum()))
    return TokenMentions(starts[kept], ends[kept], indices[kept], kept), counts


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
