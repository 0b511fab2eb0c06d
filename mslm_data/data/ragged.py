"""Rows of unequal length in two flat arrays, as Arrow's lists have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mslm_data.kernels.gather import gather, gather_alike

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """Hold N rows, of which row i is `values[offsets[i]:offsets[i + 1]]`.

    Attributes:
        values: `[T]`, all rows one after the other.
        offsets: int64 `[N + 1]`, never falling, `offsets[0] == 0`, `offsets[N] == T`.
    """

    values: Array
    offsets: npt.NDArray[np.int64]

    @classmethod
    def from_rows(cls, rows: Iterable[Sequence[Any] | Array], dtype: npt.DTypeLike) -> Ragged:
        """Make a ragged array from lists of equal or unequal length."""
        lists = [np.asarray(row, dtype=dtype) for row in rows]
        values = np.concatenate(lists) if lists else np.empty(0, dtype)
        return cls(values, make_offsets(np.array([len(row) for row in lists], np.int64)))

    @classmethod
    def concatenate(cls, parts: Sequence[Ragged]) -> Ragged:
        """Put the rows of one or more ragged arrays one after the other."""
        lengths = np.concatenate([part.lengths for part in parts])
        return cls(np.concatenate([part.values for part in parts]), make_offsets(lengths))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Array:
        """Return row `row` as a view; `row` is in `[0, N)`."""
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Length of each row, `[N]`."""
        return np.diff(self.offsets)

    def slice(self, start: int, stop: int) -> Ragged:
        """Return rows `[start, stop)`, their values as a view, their offsets from 0 again."""
        offsets = self.offsets[start : stop + 1]
        return Ragged(self.values[offsets[0] : offsets[-1]], offsets - offsets[0])

    def take(self, rows: npt.NDArray[np.int64]) -> Ragged:
        """Copy any rows together, in any order; each is in `[0, N)`."""
        offsets = make_offsets(self.offsets[rows + 1] - self.offsets[rows])
        out = np.empty(offsets[-1], self.values.dtype)
        gather(rows, self.offsets, self.values, offsets, out)
        return Ragged(out, offsets)

    def tolist(self) -> list[list[Any]]:
        """Return the rows as lists."""
        return [self[i].tolist() for i in range(len(self))]


Three: TypeAlias = tuple[Ragged, Ragged, Ragged]


def take_alike(columns: Three, rows: npt.NDArray[np.int64]) -> Three:
    """Copy any rows, in any order, of three columns of the same offsets; each is in `[0, N)`."""
    first, second, third = columns
    offsets = make_offsets(first.offsets[rows + 1] - first.offsets[rows])

    # One pass fills all three, as most of its time is waiting for memory.
    values = first.values, second.values, third.values
    size = int(offsets[-1])
    out = (
        np.empty(size, values[0].dtype),
        np.empty(size, values[1].dtype),
        np.empty(size, values[2].dtype),
    )
    gather_alike(rows, first.offsets, values, offsets, out)
    return Ragged(out[0], offsets), Ragged(out[1], offsets), Ragged(out[2], offsets)


def make_offsets(lengths: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return the offsets, int64 `[N + 1]`, of rows of these lengths, `[N]`."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
