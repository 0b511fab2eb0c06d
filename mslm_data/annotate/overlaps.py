"""Makes overlapping mentions flat, by one stated rule."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence

from mslm_data.data.document import Span


def flatten(spans: Sequence[Span]) -> tuple[list[Span], dict[str, int]]:
    """Keep mentions that do not overlap: the longest first, of equally long ones the leftmost.

    Of several mentions of the same characters the first given stays.

    Args:
        spans: Mentions in any order.

    Returns:
        The mentions kept, sorted by their start, and reason -> number of those not kept
        (`same place`, `inside another`, `overlaps another`).
    """
    kept: list[Span] = []
    left_out: Counter[str] = Counter()
    for span in sorted(spans, key=lambda span: (span.start - span.end, span.start)):
        # Mentions kept so far are sorted and flat, so only the two neighbours can overlap this one.
        at = bisect_right(kept, span.start, key=lambda other: other.start)
        before = kept[at - 1] if at else None
        after = kept[at] if at < len(kept) else None

        reason = _clash(span, before, after)
        if reason:
            left_out[reason] += 1
        else:
            kept.insert(at, span)
    return kept, dict(left_out)


def _clash(span: Span, before: Span | None, after: Span | None) -> str:
    """Return how a mention overlaps one of its neighbours, or "".

    Args:
        span: A mention, not longer than its neighbours.
        before: The kept mention that begins last at or before it.
        after: The kept mention that begins first after it. It is never around this one.
    """
    if before is not None and before.end > span.start:
        if (before.start, before.end) == (span.start, span.end):
            return "same place"
        return "inside another" if before.end >= span.end else "overlaps another"
    if after is not None and after.start < span.end:
        return "overlaps another"
    return ""
