"""Rows with their mentions and masks, under up to three strategies side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged
from mslm_data.draw.marked_rows import draw_lines
from mslm_data.look.background import Job
from mslm_data.look.corpus import Corpus
from mslm_data.look.counts import count_rows, count_strategies
from mslm_data.look.filters import RowsPage, Scan, active_filters, count_matches, find_page
from mslm_data.look.gold import MISSED, WRONG
from mslm_data.look.reading import read_column, read_flags
from mslm_data.look.seen import find_seen
from mslm_data.look.state import ROWS, State
from mslm_data.look.term_shares import count_term_shares
from mslm_data.mask.plan import MaskPlan

TITLE = "Rows"
TEMPLATE = "rows_view.html"

_COUNTED_ROWS = 50_000
"""Maximum number of rows of a split whose matches are counted."""


def context(corpus: Corpus, state: State, *, count: int = ROWS) -> dict[str, Any]:
    """Return the rows that pass the filters, with their masks and the comparison with gold.

    Args:
        corpus: The folder.
        state: Split, filters, strategies, seed and epoch.
        count: Maximum number of rows.
    """
    split = corpus.shards[state.split]
    strategies = {made.name: made.strategy for made in corpus.strategies(state.strategies)}
    scan = Scan(
        split=split,
        state=state,
        strategies=tuple(strategies.values()),
        seen=find_seen(corpus) if "unseen" in state.only else None,
        terms=None if state.terms is None else count_term_shares(corpus, state).result,
        gold=corpus.align_gold(state.split),
    )
    page = find_page(scan, count=count)
    examples = split.take(page.rows)
    plans = {
        name: strategy.plan(examples, seed=state.seed, epoch=state.epoch)
        for name, strategy in strategies.items()
    }
    seen = {}
    if state.seen:
        seen = {
            name: strategy.seen(examples, plans[name], seed=state.seed, epoch=state.epoch)
            for name, strategy in strategies.items()
        }
    shown = {name: count_rows(examples, plan, split.labels) for name, plan in plans.items()}
    matches, matching = _count_matches(corpus, scan, page)
    return {
        "state": state.change(row=page.start, back=False),
        "page": page,
        "rows": _draw(corpus, scan, page, examples, plans, seen) if corpus.shows_text else [],
        "total": len(split),
        "matches": matches,
        "matching": matching,
        "is_filtered": bool(active_filters(state)),
        "names": list(strategies),
        "waits": _waits(scan),
        "alignment": scan.gold,
        # Last, because counts in the background slow the page down.
        "counted": count_strategies(corpus, state, shown),
    }


def _draw(
    corpus: Corpus,
    scan: Scan,
    page: RowsPage,
    examples: Examples,
    plans: Mapping[str, MaskPlan],
    seen: Mapping[str, Ragged],
) -> list[dict[str, Any]]:
    """Return each row with its lines: under each strategy, and of gold where it differs."""
    split = scan.split
    statuses: list[str] = []
    gold_lines: list[Any] = [None] * len(page.rows)
    is_compared = [True] * len(page.rows)
    if corpus.gold is not None and scan.gold is not None:
        comparison = scan.gold.compare(examples, page.rows)
        statuses, gold_statuses = comparison.statuses()
        is_compared = comparison.is_compared.tolist()

        # Gold needs a line of its own only where the mentions differ.
        drawn = draw_lines(
            comparison.gold, {}, corpus.pieces, corpus.gold.labels, statuses=gold_statuses
        )
        differs = comparison.rows_with(MISSED) | comparison.rows_with(WRONG)
        gold_lines = [
            line[""] if has_line else None for line, has_line in zip(drawn, differs, strict=True)
        ]

    kinds = {name: plan.kinds for name, plan in plans.items()}
    flags = read_flags(split, page.rows)
    lines = draw_lines(examples, kinds, corpus.pieces, split.labels, flags, statuses, seen)
    documents = read_column(split, "doc_id", page.rows)
    lengths = examples.input_ids.lengths.tolist()
    names = ("number", "doc", "tokens", "lines", "gold", "is_compared")
    columns = (page.rows.tolist(), documents, lengths, lines, gold_lines, is_compared)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _count_matches(corpus: Corpus, scan: Scan, page: RowsPage) -> tuple[int | None, Job | None]:
    """Return the number of rows that pass the filters, and the unfinished job that counts them.

    The number is None if it is not known: in a large split, and while it is being counted.
    """
    split = scan.split
    state = scan.state
    if not active_filters(state):
        return len(split), None
    if page.start == 0 and page.stop == len(split):
        return len(page.rows), None

    is_waiting = corpus.gold is not None and scan.gold is None
    if is_waiting or _waits(scan) or len(split) > _COUNTED_ROWS:
        return None, None

    choices = tuple(choice.key for choice in state.strategies)
    filters = (
        state.split,
        state.label,
        state.doc,
        state.least,
        state.most,
        state.terms,
        state.only,
    )
    job = corpus.background.get(
        "matches",
        (filters, choices, state.seed, state.epoch),
        lambda progress: count_matches(scan, progress),
    )
    return job.result, job if job.result is None else None


def _waits(scan: Scan) -> str:
    """Return what filters wait for, in words; "" for nothing."""
    if "unseen" in scan.state.only and scan.seen is None:
        return "reading the terms of training text"
    if scan.state.terms is not None and scan.terms is None:
        return "counting the tokens of documents in mentions"
    return ""
