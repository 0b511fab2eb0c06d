"""Overlapping mentions to flat ones, by one stated rule."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from mslm_data.data.document import Span


def flatten(spans: Sequence[Span]) -> tuple[list[Span], dict[str, int]]:
    """Keep mentions that do not overlap: the longest first, of equally long ones the leftmost.

    Of several mentions of the same characters the first given stays.

    Args:
        spans: In any order.

    Returns:
        The mentions kept, by their start, and reason -> number of those not kept
        (`same place`, `inside another`, `overlaps another`).
    """
    kept: list[Span] = []
    left_out: dict[str, int] = {}
    for span in sorted(spans, key=lambda span: (span.start - span.end, span.start)):
        at = bisect_right(kept, span.start, key=lambda other: other.start)
        before = kept[at - 1] if at else None
        after = kept[at] if at < len(kept) else None
        reason = None
        if before and before.end > span.start:
            if (before.start, before.end) == (span.start, span.end):
                reason = "same place"
            else:
                reason = "inside another" if before.end >= span.end else "overlaps another"
        elif after and after.start < span.end:
            reason = "overlaps another"
        if reason:
            left_out[reason] = left_out.get(reason, 0) + 1
        else:
            kept.insert(at, span)
    return kept, left_out
