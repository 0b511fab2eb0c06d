"""Counts beside the rows, for a page whose split was not counted yet when its rows were drawn."""

from __future__ import annotations

from typing import Any

from mslm_data.look.corpus import Corpus
from mslm_data.look.counts import count_strategies
from mslm_data.look.state import State

TITLE = "Counts"
TEMPLATE = "counts.html"


def context(corpus: Corpus, state: State) -> dict[str, Any]:
    """Return the counts of the split, and of the rows on the page if it was drawn last."""
    address, shown = corpus.last_shown
    return {
        "counted": count_strategies(corpus, state, shown if address == state.address() else None)
    }
