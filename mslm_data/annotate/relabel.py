"""The source's labels to ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mslm_data.data.document import Span


def relabel(
    spans: Iterable[Span], *, rename: Mapping[str, str], labels: Sequence[str]
) -> tuple[list[Span], dict[str, int]]:
    """Rename labels and leave out mentions of labels that are not wanted.

    Args:
        spans: Mentions.
        rename: The source's label -> ours; others stay.
        labels: Wanted labels; empty for all.

    Returns:
        The mentions kept, in order, and reason -> number of those not kept.
    """
    renamed = [span._replace(label=rename.get(span.label, span.label)) for span in spans]
    if not labels:
        return renamed, {}
    kept = [span for span in renamed if span.label in labels]
    return kept, {"label not wanted": len(renamed) - len(kept)} if len(kept) < len(renamed) else {}
