"""Rows with their mentions and masks, under up to three strategies side by side."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from mslm_data.draw.marked_rows import draw_lines
from mslm_data.look.corpus import Corpus
from mslm_data.look.counts import count_rows, count_strategies
from mslm_data.look.filters import Page, References, count_matches, find_page, has_filters
from mslm_data.look.reading import read_column, read_flags
from mslm_data.look.seen import find_seen
from mslm_data.look.state import ROWS, State
from mslm_data.mask.strategy import Strategy

TITLE = "Rows"
TEMPLATE = "rows_view.html"

_COUNTED_ROWS = 50_000
"""Maximum number of rows of a split whose matches are counted."""
_PATIENCE_S = 0.06


def context(corpus: Corpus, state: State, *, count: int = ROWS) -> dict[str, Any]:
    """Return the rows that pass the filters, with their masks and the comparison with gold.

    Args:
        corpus: The folder.
        state: Split, filters, strategies, seed and epoch.
        count: Maximum number of rows.
    """
    strategies = corpus.strategies(state.strategies)
    references = References(
        seen=find_seen(corpus) if "unseen" in state.only else None,
        gold=corpus.align_gold(state.split),
    )
    split = corpus.shards[state.split]
    page = find_page(
        split,
        state,
        strategies,
        count=count,
        back="rows.back" in state.extra,
        references=references,
    )
    examples = split.take(page.rows)
    flags = read_flags(split, page.rows) if corpus.shows_text else []
    documents = read_column(split, "doc_id", page.rows) if corpus.shows_text else []

    matches = _count_matches(corpus, state, strategies, references, page)
    plans = {
        name: strategy.plan(examples, seed=state.seed, epoch=state.epoch)
        for name, strategy in strategies.items()
    }
    shown = {name: count_rows(examples, plan, split.labels) for name, plan in plans.items()}
    shown_state = _start_at(state, page.start)
    corpus.last_shown = shown_state.address(), shown
    result = {
        "state": shown_state,
        "counted": count_strategies(corpus, state, shown, begin=False),
        "page": page,
        "total": len(split),
        "matches": matches,
        "is_filtered": has_filters(state),
        "names": list(strategies),
        "reads_terms": "unseen" in state.only and references.seen is None,
        "alignment": references.gold,
    }
    if not corpus.shows_text:
        return result | {"rows": []}

    statuses: list[str] = []
    gold_lines: list[Any] = [None] * len(page.rows)
    is_compared = [True] * len(page.rows)
    if corpus.gold is not None and references.gold is not None:
        comparison = references.gold.compare(examples, page.rows)
        statuses, gold_statuses = comparison.statuses()
        is_compared = comparison.is_compared.tolist()

        # Gold needs a line of its own only where the mentions differ.
        drawn = draw_lines(
            comparison.gold, {}, corpus.pieces, corpus.gold.labels, statuses=gold_statuses
        )
        differs = comparison.rows_with("missed") | comparison.rows_with("wrong")
        gold_lines = [
            line[""] if has_line else None for line, has_line in zip(drawn, differs, strict=True)
        ]

    kinds = {name: plan.kinds for name, plan in plans.items()}
    lines = draw_lines(examples, kinds, corpus.pieces, split.labels, flags, statuses)
    lengths = examples.input_ids.lengths.tolist()
    names = ("number", "doc", "tokens", "lines", "gold", "is_compared")
    columns = (page.rows.tolist(), documents, lengths, lines, gold_lines, is_compared)
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return result | {"rows": rows}


def _count_matches(
    corpus: Corpus,
    state: State,
    strategies: Mapping[str, Strategy],
    references: References,
    page: Page,
) -> int | None:
    """Return the number of rows that pass the filters.

    Returns:
        None if it is not known soon: in a large split, and while terms or gold are being read.
    """
    split = corpus.shards[state.split]
    if not has_filters(state):
        return len(split)
    if page.start == 0 and page.stop == len(split):
        return len(page.rows)
    is_waiting = "unseen" in state.only and references.seen is None
    is_waiting |= corpus.gold is not None and references.gold is None
    if len(split) > _COUNTED_ROWS or is_waiting:
        return None

    choices = tuple(choice.key for choice in state.strategies)
    filters = (state.split, state.label, state.doc, state.least, state.most, state.only)
    job = corpus.jobs.get(
        "matches",
        (filters, choices, state.seed, state.epoch),
        partial(count_matches, split, state, strategies, references),
        patience=_PATIENCE_S,
    )
    matches: int | None = job.result
    return matches


def _start_at(state: State, row: int) -> State:
    """Return the state of a page that starts at a row."""
    extra = {name: value for name, value in state.extra.items() if name != "rows.back"}
    return state.change(row=row, extra=extra)
