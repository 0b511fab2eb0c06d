"""Rows with their mentions and masks, under up to three strategies side by side."""

from __future__ import annotations

from typing import Any

from mslm_data.draw.marked_rows import draw_lines
from mslm_data.look.corpus import Corpus, read_column, read_flags
from mslm_data.look.counts import count_rows, count_strategies
from mslm_data.look.filters import find_page
from mslm_data.look.seen import find_seen
from mslm_data.look.state import ROWS, State

TITLE = "Rows"
TEMPLATE = "rows_view.html"


def context(corpus: Corpus, state: State, *, count: int = ROWS) -> dict[str, Any]:
    """Return the rows that pass the filters, with their masks.

    Args:
        corpus: The folder.
        state: The split, the filters, the strategies, the seed and the epoch.
        count: Maximum number of rows.
    """
    split = corpus.shards[state.split]
    strategies = corpus.strategies(state.strategies)
    seen = find_seen(corpus) if "unseen" in state.only else None
    page = find_page(
        split, state, strategies, count=count, back="rows.back" in state.extra, seen=seen
    )
    examples = split.take(page.rows)
    plans = {
        name: strategy.plan(examples, seed=state.seed, epoch=state.epoch)
        for name, strategy in strategies.items()
    }
    shown = {name: count_rows(examples, plan, split.labels) for name, plan in plans.items()}
    found = {
        "state": _at(state, page.start),
        "counted": count_strategies(corpus, state, shown, begin=False),
        "page": page,
        "total": len(split),
        "names": list(strategies),
        "reads_terms": "unseen" in state.only and seen is None,
    }
    if not corpus.shows_text:
        return found | {"rows": []}

    kinds = {name: plan.kinds for name, plan in plans.items()}
    flags = read_flags(split, page.rows)
    lines = draw_lines(examples, kinds, corpus.pieces, split.labels, flags)
    documents = read_column(split, "doc_id", page.rows)
    rows = [
        {"number": number, "doc": doc, "tokens": tokens, "lines": line}
        for number, doc, tokens, line in zip(
            page.rows.tolist(), documents, examples.input_ids.lengths.tolist(), lines, strict=True
        )
    ]
    return found | {"rows": rows}


def _at(state: State, row: int) -> State:
    """Return the state whose page begins with a row."""
    extra = {name: value for name, value in state.extra.items() if name != "rows.back"}
    return state.change(row=row, extra=extra)
