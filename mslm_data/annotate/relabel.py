"""Turns the source's labels into ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mslm_data.data.document import Span


def relabel(
    spans: Iterable[Span], *, rename: Mapping[str, str], labels: Sequence[str]
) -> tuple[list[Span], dict[str, int]]:
    """Rename labels, and leave out mentions of labels that are not wanted.

    Args:
        spans: Mentions.
        rename: The source's label -> ours; a label that is not here stays.
        labels: Wanted labels, after renaming; empty for all.

    Returns:
        The mentions kept, in order, and reason -> number of those not kept.
    """
    renamed = [span._replace(label=rename.get(span.label, span.label)) for span in spans]
    if not labels:
        return renamed, {}

    kept = [span for span in renamed if span.label in labels]
    num_left_out = len(renamed) - len(kept)
    return kept, {"label not wanted": num_left_out} if num_left_out else {}
