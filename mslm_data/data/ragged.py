"""Rows of unequal length as an array of values and an array of offsets, like lists in Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mslm_data.kernels.gather import gather

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """Hold N rows of unequal length; row i is `values[offsets[i]:offsets[i + 1]]`.

    The rows `[7, 8]`, `[]` and `[9]`::

        values   7  8  9
        offsets  0  2  2  3

    Row 1 is `values[2:2]`, which is empty.

    Attributes:
        values: `[T]`, concatenated rows. Not printed: token ids in a log could be decoded to text.
        offsets: int64 `[N + 1]`, non-decreasing, from 0 to T.
    """

    values: Array = field(repr=False)
    offsets: npt.NDArray[np.int64]

    @classmethod
    def from_rows(cls, rows: Iterable[Sequence[Any] | Array], dtype: npt.DTypeLike) -> Ragged:
        """Convert lists or arrays, one per row."""
        lists = [np.asarray(row, dtype=dtype) for row in rows]
        values = np.concatenate(lists) if lists else np.empty(0, dtype)
        return cls(values, make_offsets(np.array([len(row) for row in lists], np.int64)))

    @classmethod
    def concatenate(cls, parts: Sequence[Ragged]) -> Ragged:
        """Concatenate the rows of one or more ragged arrays."""
        lengths = np.concatenate([part.lengths for part in parts])
        return cls(np.concatenate([part.values for part in parts]), make_offsets(lengths))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Array:
        """Return a view of a row in `[0, N)`."""
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Length of each row, int64 `[N]`."""
        return np.diff(self.offsets)

    def slice(self, start: int, stop: int) -> Ragged:
        """Return rows `[start, stop)`, with a view of their values and new int64 offsets."""
        offsets = self.offsets[start : stop + 1].astype(np.int64)
        return Ragged(self.values[offsets[0] : offsets[-1]], offsets - offsets[0])

    def take(self, rows: npt.NDArray[np.int64]) -> Ragged:
        """Return a copy of a selection of rows, int64 `[K]` in `[0, N)`, in any order."""
        offsets = make_offsets(self.offsets[rows + 1] - self.offsets[rows])
        out = np.empty(offsets[-1], self.values.dtype)
        gather(rows, self.offsets, self.values, offsets, out)
        return Ragged(out, offsets)

    def tolist(self) -> list[list[Any]]:
        """Convert to a list of lists."""
        return [self[i].tolist() for i in range(len(self))]


def read_only(array: Array) -> Array:
    """Return a read-only view."""
    view = array.view()
    view.flags.writeable = False
    return view


def make_offsets(lengths: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Convert row lengths `[N]` to offsets, int64 `[N + 1]`: `[2, 0, 1]` -> `[0, 2, 2, 3]`."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def count_up(
    starts: npt.NDArray[np.int64] | int, lengths: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Count up from each start: `[5, 0]` with lengths `[2, 3]` -> `[5, 6, 0, 1, 2]`.

    Args:
        starts: int64 `[G]`, or one start for all.
        lengths: int64 `[G]`, how many numbers to count.

    Returns:
        int64 `[lengths.sum()]`.
    """
    offsets = make_offsets(lengths)
    counted: npt.NDArray[np.int64] = np.arange(offsets[-1])
    counted += np.repeat(starts - offsets[:-1], lengths)
    return counted


def number_within(groups: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Number the items of each group from 0: `[2, 2, 5, 7, 7]` -> `[0, 1, 0, 0, 1]`.

    Args:
        groups: int64 `[N]`, group of each item, non-decreasing.
    """
    return np.arange(len(groups)) - np.searchsorted(groups, groups)
