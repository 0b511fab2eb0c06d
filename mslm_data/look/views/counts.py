"""What each strategy masks, beside the rows: of the rows shown, and of the split."""

from __future__ import annotations

from typing import Any

from mslm_data.look.corpus import Corpus
from mslm_data.look.counts import count_strategies
from mslm_data.look.state import State

TITLE = "Counts"
TEMPLATE = "counts.html"


def context(corpus: Corpus, state: State) -> dict[str, Any]:
    """Return the counts of the split alone."""
    return {"counted": count_strategies(corpus, state)}
