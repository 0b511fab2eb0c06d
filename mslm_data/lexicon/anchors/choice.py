"""Options of `mslm-data vocab anchors`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from mslm_data.registry import Options


class AnchorOptions(Options, frozen=True, kw_only=True):
    """Limits for anchors. Few stop words have a high score anyway."""

    count: Annotated[
        int, Meta(ge=1, description="Maximum number of anchors.", extra={"metavar": "N"})
    ] = 20
    min_count: Annotated[
        int,
        Meta(
            ge=1,
            description="Minimum number of occurrences of an anchor. With 1, words that occur once "
            "come first.",
            extra={"metavar": "N"},
        ),
    ] = 20
    smoothing: Annotated[
        float,
        Meta(
            gt=0,
            le=1e12,
            description="Number added to each count of the general text, which may lack a word.",
            extra={"metavar": "NUMBER"},
        ),
    ] = 1.0
    stop_words: Annotated[
        frozenset[str], Meta(description="Lower-case words that are no anchors.")
    ] = frozenset()
