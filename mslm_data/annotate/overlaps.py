"""Resolves overlapping mentions.

Mentions are kept in order of length, longest first; among equal lengths the leftmost comes first,
and among equal positions the first in the input. A mention that overlaps a kept mention is left
out, with the reason `same place`, `inside another` or `overlaps another`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from mslm_data.data.documents import Mentions
from mslm_data.data.reason import Reason

SAME = Reason("same place", is_rule=True)
INSIDE = Reason("inside another", is_rule=True)
OVERLAPS = Reason("overlaps another", is_rule=True)

Place: TypeAlias = tuple[int, int, int]
"""Start, end and index of a mention."""


def flatten(mentions: Mentions) -> tuple[Mentions, Counter[Reason]]:
    """Leave out mentions until none overlap.

    Args:
        mentions: Mentions of each document, in any order.

    Returns:
        The kept mentions, sorted within each document, and reason -> number of mentions left out.
    """
    order = np.lexsort((mentions.starts, mentions.documents))
    starts = mentions.starts[order]
    ends = mentions.ends[order]

    # A cluster is a chain of overlapping mentions: a mention that starts after the ends of all
    # before starts a new one. Documents share no characters, so a cluster is within a document.
    ended = np.maximum.accumulate(ends)
    clusters = np.append(0, np.cumsum(starts[1:] >= ended[:-1]))
    sizes = np.bincount(clusters) if len(starts) else np.empty(0, np.int64)
    if (sizes == 1).all():
        in_order = bool((order[1:] > order[:-1]).all())
        return (mentions if in_order else mentions.choose(order)), Counter()

    # Only clusters of several mentions need a loop.
    left_out: Counter[Reason] = Counter()
    dropped = np.zeros(len(mentions), np.bool_)
    stops = np.cumsum(sizes)
    for cluster in np.flatnonzero(sizes > 1).tolist():
        members = np.sort(order[stops[cluster] - sizes[cluster] : stops[cluster]])
        places = zip(
            mentions.starts[members].tolist(),
            mentions.ends[members].tolist(),
            members.tolist(),
            strict=True,
        )
        reasons = clashes([*places])
        left_out.update(reasons.values())
        dropped[[*reasons]] = True
    return mentions.choose(order[~dropped[order]]), left_out


def clashes(places: Sequence[Place]) -> dict[int, Reason]:
    """Return index -> reason, for mentions to leave out.

    Args:
        places: Mentions in the order of the input.
    """
    kept: list[Place] = []
    reasons: dict[int, Reason] = {}
    for place in sorted(places, key=lambda place: (place[0] - place[1], place[0])):
        # Kept mentions are sorted and do not overlap, so only two neighbours can overlap this one.
        at = bisect_right(kept, place[0], key=lambda other: other[0])
        before = kept[at - 1] if at else None
        after = kept[at] if at < len(kept) else None

        reason = _clash(place, before, after)
        if reason:
            reasons[place[2]] = reason
        else:
            kept.insert(at, place)
    return reasons


def _clash(place: Place, before: Place | None, after: Place | None) -> Reason | None:
    """Return how a mention overlaps a neighbour; None for no overlap.

    Args:
        place: A mention, at most as long as its neighbours.
        before: Last kept mention that starts at or before the start of this one.
        after: First kept mention that starts later.
    """
    start, end, _ = place
    if before is not None and before[1] > start:
        if before[:2] == (start, end):
            return SAME
        return INSIDE if before[1] >= end else OVERLAPS
    if after is not None and after[0] < end:
        return OVERLAPS
    return None
