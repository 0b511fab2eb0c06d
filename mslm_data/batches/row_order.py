"""The rows of an epoch one after the other, found at any place without walking there."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mslm_data.batches.shape import RowNumbers
from mslm_data.kernels.draws import fold
from mslm_data.kernels.shuffle import shuffled

_ROW_STREAM = 0x0BDE


class RowOrder(Protocol):
    """Finds the row at each place of an epoch, as a pure function of the seed and the epoch."""

    @property
    def size(self) -> int:
        """Number of places, the same in each epoch."""

    def rows(self, start: int, stop: int, *, seed: int, epoch: int) -> RowNumbers:
        """Return the rows at places `[start, stop)` of an epoch.

        Args:
            start: First place.
            stop: Place after the last; at most `size`.
            seed: In `[0, 2**63)`.
            epoch: In `[0, 2**63)`.
        """

    def described(self) -> dict[str, Any]:
        """Return what two orders must agree on to be the same, as JSON takes it."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Rows as they are stored.

    Attributes:
        size: Their number.
    """

    size: int

    def rows(self, start: int, stop: int, *, seed: int, epoch: int) -> RowNumbers:  # noqa: ARG002
        """Return the rows at places `[start, stop)`, which are these numbers."""
        return np.arange(start, stop)

    def described(self) -> dict[str, Any]:
        """Return what two orders must agree on to be the same."""
        return {"rows": int(self.size), "shuffle": False}


@dataclass(frozen=True, slots=True)
class Shuffled:
    """All rows mixed, in an order that is computed and never held in memory.

    Attributes:
        size: Their number.
    """

    size: int

    def rows(self, start: int, stop: int, *, seed: int, epoch: int) -> RowNumbers:
        """Return the rows at places `[start, stop)` of the permutation of (seed, epoch)."""
        return shuffle_rows(start, stop, size=self.size, seed=seed, epoch=epoch)

    def described(self) -> dict[str, Any]:
        """Return what two orders must agree on to be the same."""
        return {"rows": int(self.size), "shuffle": True}


def row_order(rows: Sized, *, shuffle: bool) -> RowOrder:
    """Return the order of the rows of a split, a dataset, or anything else of some length.

    Args:
        rows: Whose.
        shuffle: Whether rows come in an order of (seed, epoch), or as stored.

    Raises:
        ValueError: `shuffle` is something else.
    """
    if not isinstance(shuffle, bool | np.bool_):
        raise ValueError(f"shuffle: expected True or False, got {shuffle!r}")

    return Shuffled(len(rows)) if shuffle else Stored(len(rows))


def shuffle_rows(start: int, stop: int, *, size: int, seed: int, epoch: int) -> RowNumbers:
    """Return the rows at places `[start, stop)` of the shuffled order of an epoch.

    Args:
        start: First place.
        stop: Place after the last; at most `size`.
        size: Rows of the split.
        seed: In `[0, 2**63)`.
        epoch: In `[0, 2**63)`; each has an order of its own.
    """
    return shuffled_part(start, stop, size=size, stream=stream_of(_ROW_STREAM, seed, epoch))


def shuffled_part(start: int, stop: int, *, size: int, stream: np.uint64) -> RowNumbers:
    """Return what stands at places `[start, stop)` of the order of `size` numbers.

    Args:
        start: First place.
        stop: Place after the last; at most `size`.
        size: How many numbers are in order, from 0.
        stream: Draws the order.
    """
    half_bits = max(1, -(-(size - 1).bit_length() // 2))  # of the numbers' bits, rounded up
    out = np.empty(stop - start, np.int64)
    shuffled(start, stream, size, half_bits, out)
    return out


def stream_of(*names: int) -> np.uint64:
    """Return the stream of draws that these numbers name, each folded into the one before."""
    stream = np.uint64(0)
    for name in names:
        stream = np.uint64(fold(stream, name))

    return stream
