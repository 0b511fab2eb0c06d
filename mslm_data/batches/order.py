"""The order of rows and batches: pure functions of (size, seed, epoch), of any place in it without those before."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mslm_data.kernels.draws import fold
from mslm_data.kernels.order import shuffled

_SHUFFLE, _BATCHES = 0x0BDE, 0xBA7C


def rows_at(start: int, stop: int, *, size: int, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """Return the rows at places `[start, stop)` of the shuffled order of an epoch.

    Args:
        start: First place.
        stop: Place after the last; at most `size`.
        size: Rows of the split.
        seed: Non-negative.
        epoch: Non-negative; each has an order of its own.
    """
    out = np.empty(stop - start, np.int64)
    half = max(1, -(-(size - 1).bit_length() // 2))
    shuffled(start, _stream(_SHUFFLE, seed, epoch), size, half, out)
    return out


def batches_of_window(
    lengths: npt.NDArray[np.int64], batch_size: int, *, seed: int, epoch: int, window: int
) -> list[npt.NDArray[np.int64]]:
    """Put the rows of a window into batches of like length, the batches in shuffled order.

    Args:
        lengths: `[R]`, tokens of the window's rows, in the epoch's order.
        batch_size: Rows of a batch; the last of the shortest rows may have fewer.
        seed: Non-negative.
        epoch: Non-negative.
        window: Number of the window.

    Returns:
        Batches, each as places within the window.
    """
    order = np.argsort(-lengths, kind="stable")
    batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    out = np.empty(len(batches), np.int64)
    half = max(1, -(-(len(batches) - 1).bit_length() // 2))
    shuffled(0, _stream(_BATCHES, seed, epoch, window), len(batches), half, out)
    return [batches[b] for b in out]


def _stream(*names: int) -> np.uint64:
    """Return the stream that these numbers name, one inside the other."""
    stream = np.uint64(0)
    for name in names:
        stream = np.uint64(fold(stream, name))
    return stream
