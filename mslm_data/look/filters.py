"""Finds the rows that a state's filters let through, a page at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mslm_data.data.context import FLAGS
from mslm_data.data.examples import Examples
from mslm_data.look.corpus import read_column
from mslm_data.look.seen import SeenTerms
from mslm_data.look.state import State
from mslm_data.mask.plan import MaskPlan
from mslm_data.mask.strategy import Strategy
from mslm_data.shard.split import Split

MOST_SCANNED = 1 << 18
"""Rows that one request looks through; the page offers to go on."""
_FIRST_CHUNK = 256
_LARGEST_CHUNK = 8192

Found = npt.NDArray[np.bool_]


class Page(NamedTuple):
    """Rows to show.

    Attributes:
        rows: Their numbers, rising.
        start: First row that was looked at.
        stop: Behind the last row that was looked at.
    """

    rows: npt.NDArray[np.int64]
    start: int
    stop: int


def find_page(
    split: Split,
    state: State,
    strategies: Mapping[str, Strategy],
    *,
    count: int,
    back: bool = False,
    seen: SeenTerms | None = None,
) -> Page:
    """Return the next rows that pass all filters, from `state.row` on.

    Args:
        split: Whose rows.
        state: Has the filters, the first row, the seed and the epoch.
        strategies: Name -> strategy, for filters that look at masks.
        count: Maximum number of rows.
        back: Find the rows before `state.row` instead.
        seen: The terms of training text, for the filter `unseen`.
    """
    start = min(state.row, len(split))
    least, most = (max(start - MOST_SCANNED, 0), start) if back else (start, start + MOST_SCANNED)
    most = min(most, len(split))

    found: list[npt.NDArray[np.int64]] = []
    missing = count
    size = _FIRST_CHUNK if _filters(state) else count
    place = most if back else least
    while missing and least < most:
        low, high = (max(place - size, least), place) if back else (place, min(place + size, most))
        rows = low + np.flatnonzero(passes(split, low, high, state, strategies, seen))
        rows = rows[-missing:] if back else rows[:missing]
        missing -= len(rows)
        found.append(rows)

        if not missing:
            # The page ends at its last row, so that the next one begins behind it.
            place = int(rows[0]) if back else int(rows[-1]) + 1
            break
        place = low if back else high
        if place in (least, most):
            break
        size = min(2 * size, _LARGEST_CHUNK)

    if back:
        found.reverse()
    rows = np.concatenate(found) if found else np.empty(0, np.int64)
    return Page(rows, *((place, start) if back else (start, place)))


def passes(
    split: Split,
    start: int,
    stop: int,
    state: State,
    strategies: Mapping[str, Strategy],
    seen: SeenTerms | None = None,
) -> Found:
    """Return which of the rows `[start, stop)` pass all filters, `[N]`."""
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

    if "unseen" in state.only and seen is not None:
        kept &= seen.rows_with_others(examples)

    if kept.any() and strategies and _MASKS.intersection(state.only):
        plans = [
            strategy.plan(examples, seed=state.seed, epoch=state.epoch)
            for strategy in strategies.values()
        ]
        kept &= _by_masks(plans, state.only)
    return kept


_MASKS = frozenset({"no-mask", "under-budget", "differ"})


def _filters(state: State) -> bool:
    """Return whether any filter is set."""
    lengths = (state.least, state.most)
    return bool(state.label or state.doc or state.only) or lengths != (None, None)


def _has_label(examples: Examples, label: int) -> Found:
    counts = examples.span_labels.lengths
    rows = np.repeat(np.arange(len(examples)), counts)
    return np.bincount(rows[examples.span_labels.values == label], minlength=len(examples)) > 0


def _has_document(split: Split, start: int, stop: int, words: str) -> Found:
    ids = read_column(split, "doc_id", np.arange(start, stop))
    return np.array([words in id_ for id_ in ids], np.bool_)


def _has_flag(split: Split, start: int, stop: int, bit: int) -> Found:
    contexts = read_column(split, "span_contexts", np.arange(start, stop))
    return np.array([any(bits & bit for bits in row or ()) for row in contexts], np.bool_)


def _by_masks(plans: Sequence[MaskPlan], only: Sequence[str]) -> Found:
    """Return which rows pass the filters that look at masks."""
    kept = np.ones(len(plans[0].kinds), np.bool_)
    if "no-mask" in only:
        kept &= np.any([_sums(plan, plan.kinds.values > 0) == 0 for plan in plans], axis=0)
    if "under-budget" in only:
        kept &= np.any([plan.unspent > 0 for plan in plans if plan.unspent is not None], axis=0)
    if "differ" in only:
        first = plans[0].kinds.values
        unlike = np.any([plan.kinds.values != first for plan in plans[1:]], axis=0)
        kept &= _sums(plans[0], np.broadcast_to(unlike, first.shape)) > 0
    return kept


def _sums(plan: MaskPlan, tokens: Found) -> npt.NDArray[np.int64]:
    """Return how many tokens of each row are true, `[N]`."""
    total = np.concatenate([[0], np.cumsum(tokens)])
    offsets = plan.kinds.offsets
    sums: npt.NDArray[np.int64] = total[offsets[1:]] - total[offsets[:-1]]
    return sums
