"""Resolves overlapping mentions by one rule.

The longest mentions stay, of equally long ones the leftmost, and of several of the same characters
the first given. Those that overlap one that stays are counted by reason: `same place`, `inside
another`, `overlaps another`.
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
"""Start and end of a mention, half open, and its number."""


def flatten(mentions: Mentions) -> tuple[Mentions, Counter[Reason]]:
    """Drop mentions until none overlap.

    Args:
        mentions: Those of a document in any order.

    Returns:
        The mentions kept, those of a document by their start, and reason -> number of the others.
    """
    order = np.lexsort((mentions.starts, mentions.documents))
    starts = mentions.starts[order]
    ends = mentions.ends[order]

    # A mention that begins where all before it have ended begins a cluster. Documents do not share
    # characters, so a cluster lies in one of them.
    ended = np.maximum.accumulate(ends)
    clusters = np.append(0, np.cumsum(starts[1:] >= ended[:-1]))
    sizes = np.bincount(clusters) if len(starts) else np.empty(0, np.int64)
    if (sizes == 1).all():
        in_order = bool((order[1:] > order[:-1]).all())
        return (mentions if in_order else mentions.choose(order)), Counter()

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
    """Return the indices of the mentions to drop, with the reason of each.

    Args:
        places: Mentions in the order given.
    """
    kept: list[Place] = []
    reasons: dict[int, Reason] = {}
    for place in sorted(places, key=lambda place: (place[0] - place[1], place[0])):
        # Mentions kept so far are sorted and flat, so only the two neighbours can overlap this one.
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
    """Return how a mention overlaps a neighbour, or None.

    Args:
        place: A mention, not longer than its neighbours.
        before: The kept mention that begins last at or before it.
        after: The kept mention that begins first after it. It is never around this one.
    """
    start, end, _ = place
    if before is not None and before[1] > start:
        if before[:2] == (start, end):
            return SAME
        return INSIDE if before[1] >= end else OVERLAPS
    if after is not None and after[0] < end:
        return OVERLAPS
    return None
