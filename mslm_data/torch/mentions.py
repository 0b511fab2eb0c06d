"""Mentions of rows that users bring: given as spans, or read from tags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mslm_data.data.ragged import Array, Ragged, offsets_of
from mslm_data.kernels.pad import IGNORED
from mslm_data.kernels.rows import find_misplaced

Spans: TypeAlias = tuple[Ragged, Ragged, Ragged]
"""Starts, ends and labels of S mentions in N rows, in tokens of the row, half open: int32, int32, int16."""
_O, _B, _I = range(3)


def no_spans(rows: int) -> Spans:
    """Return rows without mentions."""
    nothing = np.empty(0, np.int64)
    return _ragged(nothing, nothing, nothing, np.zeros(rows + 1, np.int64))


def check_spans(starts: Ragged, ends: Ragged, labels: Ragged, sizes: npt.NDArray[np.int64]) -> None:
    """Refuse mentions that masking cannot take.

    Args:
        starts: N rows.
        ends: Likewise.
        labels: Likewise.
        sizes: `[N]`, tokens of the rows.

    Raises:
        ValueError: Columns of different lengths, mentions out of their rows, or not rising and apart.
    """
    if not (
        np.array_equal(starts.offsets, ends.offsets)
        and np.array_equal(starts.offsets, labels.offsets)
    ):
        raise ValueError(
            "rows: expected as many span_ends and span_labels as span_starts in each row of a batch"
        )
    misplaced = np.empty(1, np.int64)
    find_misplaced(starts.offsets, starts.values, ends.values, sizes, misplaced)
    if misplaced[0] >= 0:
        raise ValueError(
            f"rows: expected mentions within their row, rising and apart, got others in row {misplaced[0]} of a "
            "batch; sort them, and keep one of those that overlap"
        )


def spans_of(tags: Ragged, words: Ragged, names: Sequence[str] | None) -> Spans:
    """Read mentions from tags.

    A mention begins at B, or at I where none of its label is going on. A token without a tag, as a word's further
    tokens have in token classification, goes on with what the token before it is.

    Args:
        tags: One a token, -100 where there is none.
        words: The word of each token, -1 on special ones.
        names: Of the tags (`O`, `B-X`, `I-X`), in any order; labels are then numbered as they first stand there. None
            is the coding of shards: `1 + 2 * label` is B, `2 + 2 * label` is I.

    Raises:
        ValueError: Names that are none of tags, or a tag without a name.
    """
    kinds, labels = _meaning(tags.values, names)
    row = np.repeat(np.arange(len(tags)), tags.lengths)
    special, untagged = words.values < 0, tags.values == IGNORED
    source = (
        np.maximum.accumulate(np.where(untagged & ~special, 0, np.arange(len(row))))
        if len(row)
        else row
    )
    goes_on = untagged & ~special & (row[source] == row)
    inside = kinds[source] != _O
    kinds = np.where(special, _O, np.where(goes_on & inside, _I, np.where(untagged, _O, kinds)))
    labels = np.where(goes_on, labels[source], labels)
    inside = kinds != _O
    new = np.ones(len(row), np.bool_)
    new[1:] = (kinds[1:] == _B) | ~inside[:-1] | (row[1:] != row[:-1]) | (labels[1:] != labels[:-1])
    starts = np.flatnonzero(inside & new)
    last = np.ones(len(row), np.bool_)
    last[:-1] = ~inside[1:] | new[1:]
    ends = np.flatnonzero(inside & last) + 1
    at = tags.offsets[row[starts]]
    counts = np.bincount(row[starts], minlength=len(tags))
    return _ragged(starts - at, ends - at, labels[starts], offsets_of(counts))


def _meaning(tags: Array, names: Sequence[str] | None) -> tuple[Array, Array]:
    """Return what each tag says: O, B or I, and of which label."""
    real = tags[tags != IGNORED]
    size = None if names is None else len(names)
    if len(real) and (real.min() < 0 or (size is not None and real.max() >= size)):
        known = "0 or more" if size is None else f"below {size}, the number of names"
        raise ValueError(
            f"rows: expected tags of {known}, or {IGNORED}, got {real.min()} to {real.max()}"
        )
    codes = np.where(tags == IGNORED, 0, tags)
    if names is None:
        return np.where(codes == 0, _O, 2 - codes % 2), (codes - 1) // 2
    of: dict[str, int] = {}
    table: list[tuple[int, Any]] = []
    for name in names:
        prefix, _, label = name.partition("-")
        if name != "O" and (prefix not in ("B", "I") or not label):
            raise ValueError(f"tags: expected O, B-X and I-X, got '{name}'")
        table.append(
            (_O, -1) if name == "O" else ("OBI".index(prefix), of.setdefault(label, len(of)))
        )
    means = np.array(table, np.int64).reshape(-1, 2)
    return means[codes, 0], means[codes, 1]


def _ragged(starts: Array, ends: Array, labels: Array, offsets: npt.NDArray[np.int64]) -> Spans:
    parts = zip((starts, ends, labels), (np.int32, np.int32, np.int16), strict=True)
    first, second, third = (Ragged(values.astype(of), offsets) for values, of in parts)
    return first, second, third
