"""Finds the rows that pass all filters, one page at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mslm_data.data.context import FLAGS
from mslm_data.data.examples import Examples
from mslm_data.look.gold import Alignment
from mslm_data.look.reading import read_column
from mslm_data.look.seen import SeenTerms
from mslm_data.look.state import GOLD_FILTERS, State
from mslm_data.mask.plan import MaskPlan
from mslm_data.mask.strategy import Strategy
from mslm_data.shard.split import Split
from mslm_data.stats.corpus_counts import TRAINING

MAX_SCANNED = 1 << 18
"""Maximum number of rows that one request scans. The next page continues behind them."""
_FIRST_CHUNK = 256
_LARGEST_CHUNK = 8192
_MASK_FILTERS = frozenset({"no-mask", "under-budget", "differ"})

Bools = npt.NDArray[np.bool_]


class Page(NamedTuple):
    """Rows to show.

    Attributes:
        rows: `[R]`, row numbers, rising.
        start: First row scanned.
        stop: End of the rows scanned, half open.
    """

    rows: npt.NDArray[np.int64]
    start: int
    stop: int


class References(NamedTuple):
    """Data of the whole corpus that filters compare rows with; None while it is being read.

    Attributes:
        seen: Terms of the training split, for the filter `unseen`.
        gold: Places of the split's rows in the gold folder, for `GOLD_FILTERS`.
    """

    seen: SeenTerms | None = None
    gold: Alignment | None = None


def find_page(
    split: Split,
    state: State,
    strategies: Mapping[str, Strategy],
    *,
    count: int,
    back: bool = False,
    references: References = References(),  # noqa: B008 - immutable
) -> Page:
    """Return the next rows that pass all filters, from `state.row` on.

    Args:
        split: The split.
        state: Filters, first row, seed and epoch.
        strategies: Name -> strategy, for filters on masks.
        count: Maximum number of rows.
        back: Find the last rows before `state.row` instead.
        references: For filters on terms and gold; without them these filters pass every row.
    """
    start = min(state.row, len(split))
    if back:
        lowest, highest = max(start - MAX_SCANNED, 0), start
    else:
        lowest, highest = start, min(start + MAX_SCANNED, len(split))

    parts: list[npt.NDArray[np.int64]] = []
    missing = count
    size = _FIRST_CHUNK if has_filters(state) else count
    place = highest if back else lowest
    while missing and lowest < highest:
        low = max(place - size, lowest) if back else place
        high = place if back else min(place + size, highest)
        rows = low + np.flatnonzero(passes(split, low, high, state, strategies, references))
        rows = rows[-missing:] if back else rows[:missing]
        missing -= len(rows)
        parts.append(rows)

        if not missing:
            # A full page ends at its last row, so that the next one begins right behind it.
            place = int(rows[0]) if back else int(rows[-1]) + 1
            break
        place = low if back else high
        if place in (lowest, highest):
            break
        # Rare rows take many chunks; larger ones cost less per row.
        size = min(2 * size, _LARGEST_CHUNK)

    if back:
        parts.reverse()
    rows = np.concatenate(parts) if parts else np.empty(0, np.int64)
    return Page(rows, place, start) if back else Page(rows, start, place)


def count_matches(
    split: Split,
    state: State,
    strategies: Mapping[str, Strategy],
    references: References,
    progress: Callable[[int, int], None],
) -> int:
    """Return the number of rows of a split that pass all filters; see `find_page`.

    Args:
        split: The split.
        state: Filters, seed and epoch.
        strategies: Name -> strategy, for filters on masks.
        references: For filters on terms and gold.
        progress: Called with the number of rows done and of all rows.
    """
    matches = 0
    for start in range(0, len(split), _LARGEST_CHUNK):
        progress(start, len(split))
        stop = min(start + _LARGEST_CHUNK, len(split))
        matches += int(passes(split, start, stop, state, strategies, references).sum())
    return matches


def impossible_filters(state: State) -> dict[str, str]:
    """Return the filters that no row can pass, each with the reason."""
    impossible = {}
    if len(state.choices) < 2:
        impossible["differ"] = "needs two strategies"
    if state.split == TRAINING:
        impossible["unseen"] = f"not of {TRAINING} itself"
    return impossible


def passes(
    split: Split,
    start: int,
    stop: int,
    state: State,
    strategies: Mapping[str, Strategy],
    references: References,
) -> Bools:
    """Return which of the rows `[start, stop)` pass all filters, `[N]`; see `find_page`."""
    examples = split.examples(start, stop)
    kept = np.ones(len(examples), np.bool_)

    lengths = examples.input_ids.lengths
    if state.least is not None:
        kept &= lengths >= state.least
    if state.most is not None:
        kept &= lengths <= state.most
    if state.label in split.labels:
        kept &= _has_label(examples, split.labels.index(state.label))
    if "no-mention" in state.only:
        kept &= examples.span_starts.lengths == 0
    if state.doc:
        kept &= _has_document(split, start, stop, state.doc)
    for flag in set(state.only).intersection(FLAGS):
        kept &= _has_flag(split, start, stop, 1 << FLAGS.index(flag))

    if "unseen" in state.only and references.seen is not None:
        kept &= references.seen.rows_with_others(examples)
    statuses = GOLD_FILTERS.keys() & state.only
    if statuses and references.gold is not None:
        comparison = references.gold.compare(examples, slice(start, stop))
        for status in statuses:
            kept &= comparison.rows_with(status)

    # Plans cost most, so they come last.
    if kept.any() and strategies and _MASK_FILTERS.intersection(state.only):
        plans = [
            strategy.plan(examples, seed=state.seed, epoch=state.epoch)
            for strategy in strategies.values()
        ]
        kept &= _pass_by_masks(plans, state.only)
    return kept


def has_filters(state: State) -> bool:
    """Return whether any filter is set."""
    lengths = (state.least, state.most)
    return bool(state.label or state.doc or state.only) or lengths != (None, None)


def _has_label(examples: Examples, label: int) -> Bools:
    counts = examples.span_labels.lengths
    rows = np.repeat(np.arange(len(examples)), counts)
    return np.bincount(rows[examples.span_labels.values == label], minlength=len(examples)) > 0


def _has_document(split: Split, start: int, stop: int, part: str) -> Bools:
    ids = read_column(split, "doc_id", np.arange(start, stop))
    return np.array([part in doc_id for doc_id in ids], np.bool_)


def _has_flag(split: Split, start: int, stop: int, bit: int) -> Bools:
    contexts = read_column(split, "span_contexts", np.arange(start, stop))
    return np.array([any(bits & bit for bits in row or ()) for row in contexts], np.bool_)


def _pass_by_masks(plans: Sequence[MaskPlan], only: Sequence[str]) -> Bools:
    """Return which rows pass the filters on masks, `[N]`."""
    kept = np.ones(len(plans[0].kinds), np.bool_)
    if "no-mask" in only:
        kept &= np.any([_count(plan, plan.kinds.values > 0) == 0 for plan in plans], axis=0)
    if "under-budget" in only:
        kept &= np.any([plan.unspent > 0 for plan in plans if plan.unspent is not None], axis=0)
    if "differ" in only:
        first = plans[0].kinds.values
        differs = np.any([plan.kinds.values != first for plan in plans[1:]], axis=0)
        kept &= _count(plans[0], np.broadcast_to(differs, first.shape)) > 0
    return kept


def _count(plan: MaskPlan, chosen: Bools) -> npt.NDArray[np.int64]:
    """Return the number of chosen tokens in each row, `[N]`."""
    chosen_before = np.concatenate([[0], np.cumsum(chosen)])
    offsets = plan.kinds.offsets
    counts: npt.NDArray[np.int64] = chosen_before[offsets[1:]] - chosen_before[offsets[:-1]]
    return counts
