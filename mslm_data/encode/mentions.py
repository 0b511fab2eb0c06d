"""Mentions in characters to mentions in tokens, and to the windows that they lie in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import numpy.typing as npt

from mslm_data.data.document import Document
from mslm_data.encode.layout import Ints, Layout


@dataclass(slots=True)
class Account:
    """What became of mentions and rows: `mentions` placed in rows = given - left out + pieces added by cuts.

    Attributes:
        left_out: Reason -> mentions that are in no row.
        cut_mentions: Mentions longer than a row, in several rows.
        cut_pieces: Spans that those became, less one each.
        windowed: Sequences that were too long for one row.
        empty: Sequences without a token, in no row.
        widened: Mentions that begin or end within a token, and take all of it.
    """

    left_out: Counter[str] = field(default_factory=Counter)
    cut_mentions: int = 0
    cut_pieces: int = 0
    windowed: int = 0
    empty: int = 0
    widened: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Mentions:
    """S mentions over the tokens of a `Layout`, rising, not overlapping.

    Attributes:
        starts: int64 `[S]`, first token.
        ends: int64 `[S]`, half open, past the start.
        labels: int16 `[S]`.
        sources: int64 `[S]`, which of the documents' mentions, counted over all of them.
    """

    starts: Ints
    ends: Ints
    labels: npt.NDArray[np.int16]
    sources: Ints


def align(
    documents: Sequence[Document], layout: Layout, labels: Mapping[str, int], account: Account
) -> Mentions:
    """Find the tokens of each mention: all that share a character with it.

    Args:
        documents: With flat, sorted mentions.
        layout: Of the same documents.
        labels: Label -> index.
        account: What became of them; added to.
    """
    of_documents = [document.spans for document in documents]
    first, last, names = [*zip(*chain.from_iterable(of_documents), strict=True)][:3] or ((), (), ())
    base = np.repeat(layout.bases[:-1], [*map(len, of_documents)])
    begins, stops = np.array(first, np.int64) + base, np.array(last, np.int64) + base
    of = np.array([labels[name] for name in names], np.int16)
    starts = np.searchsorted(layout.ends, begins, side="right")
    ends = np.searchsorted(layout.starts, stops, side="left")
    bare = starts >= ends
    account.left_out["no token"] += int(bare.sum())
    ends = np.where(bare, 0, ends)
    taken = np.concatenate([[0], np.maximum.accumulate(ends)[:-1]]) if len(ends) else ends
    starts = np.maximum(starts, taken)
    shared = ~bare & (starts >= ends)
    account.left_out["shares its tokens with another"] += int(shared.sum())
    kept = np.flatnonzero(~bare & ~shared)
    widened = (layout.starts[starts[kept]] < begins[kept]) | (
        layout.ends[ends[kept] - 1] > stops[kept]
    )
    account.widened += int(widened.sum())
    return Mentions(starts[kept], ends[kept], of[kept], kept)


def costs(layout: Layout, mentions: Mentions, *, protect: bool) -> npt.NDArray[np.uint8]:
    """Say what it costs to begin a window at each token: 0 nothing, 1 a word is cut, 2 a mention, 3 both.

    Args:
        layout: The tokens.
        mentions: What `protect` protects.
        protect: Whether cutting a mention costs anything.
    """
    cost = (~layout.heads).astype(np.uint8)
    if protect:
        depth = np.zeros(len(cost) + 1, np.int64)
        np.add.at(depth, mentions.starts + 1, 2)
        np.add.at(depth, mentions.ends, -2)
        cost += np.cumsum(depth)[:-1].astype(np.uint8)
    return cost


def split_at(mentions: Mentions, cuts: Ints) -> tuple[Mentions, Ints]:
    """Divide mentions at the windows' first tokens.

    Args:
        mentions: S mentions.
        cuts: int64 `[W]`, rising, the first token of each window; `cuts[0] == 0` if there is a token.

    Returns:
        The mentions, those that go over a cut as one piece a window, and each one's window.
    """
    first = np.searchsorted(cuts, mentions.starts, side="right") - 1
    last = np.searchsorted(cuts, mentions.ends - 1, side="right") - 1
    pieces = last - first + 1
    which = np.repeat(np.arange(len(pieces)), pieces)
    nth = np.arange(len(which)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    window = first[which] + nth
    starts = np.where(nth > 0, cuts[window], mentions.starts[which])
    following = np.append(cuts, np.iinfo(np.int64).max)[window + 1]
    ends = np.minimum(mentions.ends[which], following)
    return Mentions(starts, ends, mentions.labels[which], mentions.sources[which]), window
