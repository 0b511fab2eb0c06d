"""Finds the rows that pass all filters, one page at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from mslm_data.data.context import FLAGS
from mslm_data.data.examples import Examples
from mslm_data.look.gold import FOUND, MISSED, WRONG, Alignment
from mslm_data.look.reading import read_column, rows_with
from mslm_data.mask.plan import MaskPlan
from mslm_data.mask.strategy import Strategy
from mslm_data.shard.split import Split

if TYPE_CHECKING:
    from mslm_data.look.corpus import Corpus
    from mslm_data.look.seen import SeenTerms
    from mslm_data.look.state import State
    from mslm_data.look.term_shares import TermShares

MAX_SCANNED = 1 << 18
"""Maximum number of rows that one request scans. The next page continues behind them."""
_FIRST_CHUNK = 256
_LARGEST_CHUNK = 8192

Bools = npt.NDArray[np.bool_]


class RowsPage(NamedTuple):
    """Rows to show.

    Attributes:
        rows: `[R]`, row numbers, rising.
        start: First row scanned.
        stop: End of the rows scanned, half open.
    """

    rows: npt.NDArray[np.int64]
    start: int
    stop: int


@dataclass(frozen=True, kw_only=True)
class Scan:
    """The rows of a split, and what filters compare them with.

    Attributes:
        split: The split.
        state: Values of filters, seed and epoch.
        strategies: For filters on masks.
        seen: Terms of the training split; None while they are being read.
        terms: Term shares of the documents; None while they are being counted.
        gold: Places of the split's rows in the gold folder; None without one, and while it is being
            read.
    """

    split: Split
    state: State
    strategies: Sequence[Strategy] = ()
    seen: SeenTerms | None = None
    terms: TermShares | None = None
    gold: Alignment | None = None


@dataclass(frozen=True)
class Chunk:
    """Rows `[start, stop)` of a scan: N rows."""

    scan: Scan
    start: int
    stop: int

    @cached_property
    def examples(self) -> Examples:
        """The rows."""
        return self.scan.split.examples(self.start, self.stop)

    @cached_property
    def plans(self) -> list[MaskPlan]:
        """Their masks under each strategy."""
        state = self.scan.state
        return [
            strategy.plan(self.examples, seed=state.seed, epoch=state.epoch)
            for strategy in self.scan.strategies
        ]

    def read(self, column: str) -> list[Any]:
        """Read a column as Python values."""
        return read_column(self.scan.split, column, np.arange(self.start, self.stop))

    def all_rows(self) -> Bools:
        """Pass every row, `[N]`."""
        return np.ones(self.stop - self.start, np.bool_)


def _has_label(chunk: Chunk) -> Bools:
    labels = chunk.examples.span_labels
    return rows_with(labels, labels.values == chunk.scan.split.labels.index(chunk.scan.state.label))


def _has_document(chunk: Chunk) -> Bools:
    part = chunk.scan.state.doc
    return np.array([part in doc_id for doc_id in chunk.read("doc_id")], np.bool_)


def _has_terms(chunk: Chunk) -> Bools:
    terms = chunk.scan.terms
    if terms is None:
        return chunk.all_rows()
    shares = terms.shares[terms.documents[chunk.start : chunk.stop]]
    return shares * 100 >= (chunk.scan.state.terms or 0)


def _has_flag(chunk: Chunk, flag: str) -> Bools:
    bit = 1 << FLAGS.index(flag)
    contexts = chunk.read("span_contexts")
    return np.array([any(bits & bit for bits in row or ()) for row in contexts], np.bool_)


def _has_unseen_term(chunk: Chunk) -> Bools:
    seen = chunk.scan.seen
    return chunk.all_rows() if seen is None else seen.rows_with_others(chunk.examples)


def _has_status(chunk: Chunk, status: str) -> Bools:
    gold = chunk.scan.gold
    if gold is None:
        return chunk.all_rows()
    return gold.compare(chunk.examples, slice(chunk.start, chunk.stop)).rows_with(status)


def _has_no_mask(chunk: Chunk) -> Bools:
    return _any(chunk, [~rows_with(plan.kinds, plan.kinds.values > 0) for plan in chunk.plans])


def _is_under_budget(chunk: Chunk) -> Bools:
    return _any(chunk, [plan.unspent > 0 for plan in chunk.plans if plan.unspent is not None])


def _differs(chunk: Chunk) -> Bools:
    kinds = [plan.kinds for plan in chunk.plans]
    return _any(chunk, [rows_with(other, other.values != kinds[0].values) for other in kinds[1:]])


def _any(chunk: Chunk, conditions: Sequence[Bools]) -> Bools:
    """Return which rows one of the conditions holds for, `[N]`; none without conditions."""
    rows = ~chunk.all_rows()
    for condition in conditions:
        rows |= condition
    return rows


class Filter(NamedTuple):
    """A filter with a box in the form.

    Attributes:
        words: Its label in the form.
        passes: Returns which rows of a chunk pass, `[N]`.
        needs: What a folder must have: "", mentions with `context`, or a `gold` folder beside it.
    """

    words: str
    passes: Callable[[Chunk], Bools]
    needs: Literal["", "context", "gold"] = ""


FILTERS: dict[str, Filter] = {
    "no-mention": Filter(
        "rows without a mention", lambda chunk: chunk.examples.span_starts.lengths == 0
    ),
    **{
        flag: Filter(
            f"rows with a mention flagged {flag}", partial(_has_flag, flag=flag), "context"
        )
        for flag in FLAGS
    },
    "unseen": Filter("rows with a mention never seen in training text", _has_unseen_term),
    **{
        status: Filter(words, partial(_has_status, status=status), "gold")
        for status, words in (
            (FOUND, "rows with a gold mention that was found"),
            (MISSED, "rows with a gold mention that was missed"),
            (WRONG, "rows with a mention that gold lacks"),
        )
    },
    # Masks cost most to compute, so their filters are last.
    "no-mask": Filter("rows without a mask", _has_no_mask),
    "under-budget": Filter("rows under budget", _is_under_budget),
    "differ": Filter("rows in which the strategies differ", _differs),
}
"""Values of `only` in the address."""
_BY_VALUE: dict[str, Callable[[Chunk], Bools]] = {
    "least": lambda chunk: chunk.examples.input_ids.lengths >= (chunk.scan.state.least or 0),
    "most": lambda chunk: chunk.examples.input_ids.lengths <= (chunk.scan.state.most or 0),
    "label": _has_label,
    "terms": _has_terms,
    "doc": _has_document,
}
"""Parameter of the address with a value -> the filter."""


def known_filters(corpus: Corpus) -> dict[str, str]:
    """Return the filters that a folder has data for, and their labels."""
    has = {
        "": True,
        "context": corpus.shards.manifest.context,
        "gold": corpus.gold is not None,
    }
    return {name: entry.words for name, entry in FILTERS.items() if has[entry.needs]}


def active_filters(state: State) -> list[Callable[[Chunk], Bools]]:
    """Return the filters that are set."""
    by_value = [
        passes for name, passes in _BY_VALUE.items() if getattr(state, name) not in ("", None)
    ]
    return by_value + [entry.passes for name, entry in FILTERS.items() if name in state.only]


def passing_rows(scan: Scan, start: int, stop: int) -> Bools:
    """Return which of the rows `[start, stop)` pass all filters, `[N]`."""
    chunk = Chunk(scan, start, stop)
    kept = chunk.all_rows()
    for passes in active_filters(scan.state):
        if not kept.any():
            break
        kept &= passes(chunk)
    return kept


def find_page(scan: Scan, *, count: int) -> RowsPage:
    """Return the next rows that pass all filters, from `state.row` on; or with `back`, before it.

    Args:
        scan: The split, and the filters.
        count: Maximum number of rows.
    """
    back = scan.state.back
    start = place = scan.state.row
    if back:
        end = max(start - MAX_SCANNED, 0)
    else:
        end = min(start + MAX_SCANNED, len(scan.split))

    parts = [np.empty(0, np.int64)]
    missing = count
    size = _FIRST_CHUNK if active_filters(scan.state) else count
    while missing and place != end:
        step = min(size, abs(end - place))
        low = place - step if back else place
        rows = low + np.flatnonzero(passing_rows(scan, low, low + step))
        rows = rows[-missing:] if back else rows[:missing]
        parts.append(rows)

        missing -= len(rows)
        if missing:
            place = low if back else low + step
        else:
            # A full page ends at its last row, so that the next one begins right behind it.
            place = int(rows[0]) if back else int(rows[-1]) + 1
        # Rare rows take many chunks; larger ones cost less per row.
        size = min(2 * size, _LARGEST_CHUNK)

    rows = np.sort(np.concatenate(parts))
    return RowsPage(rows, place, start) if back else RowsPage(rows, start, place)


def count_matches(scan: Scan, progress: Callable[[int, int], None]) -> int:
    """Return the number of rows of a split that pass all filters.

    Args:
        scan: The split, and the filters.
        progress: Called with the number of rows done and of all rows.
    """
    total = len(scan.split)
    matches = 0
    for start in range(0, total, _LARGEST_CHUNK):
        progress(start, total)
        stop = min(start + _LARGEST_CHUNK, total)
        matches += int(passing_rows(scan, start, stop).sum())
    return matches
