"""The epoch of the masks, in memory shared with worker processes.

Masks depend on the epoch, so no row is masked before its epoch is set. Trainers differ in the
objects they notify: accelerate 1.15 calls `set_epoch` of a dataset in some passes and not in
others, and never that of a collator. Rows would then silently keep the same mask in all epochs.
Therefore only samplers and loaders have `set_epoch`, and pass the epoch along with the rows.
Datasets and collators have the attribute `epoch`, set by `MaskEpochCallback` or the user's own
loop.
"""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt
import torch

from mslm_data.mask.rng import check_count

_UNKNOWN = -1
"""Stored value while the epoch is not set."""

# Layout of the shared memory: epoch, number of batches, whether the warning was issued, then the
# marked keys, and for each a flag "seen again".
_EPOCH = 0
_BATCHES = 1
_WARNED = 2
_MARKS = 3
_MARKED_ROWS = 8
"""Number of marked rows. Few suffice to recognise a batch."""


class Epoch:
    """An epoch shared by all processes. Detects a second pass in the same epoch.

    It marks the keys of a few rows in the epoch's second batch. Once all of them have been seen
    again, the data has started over. (The first batch cannot be used: samplers that fill the last
    batch repeat its rows.)
    """

    def __init__(self, epoch: int | None = None) -> None:
        """Set the first epoch, if there is one.

        Raises:
            ValueError: The epoch is negative or not an integer.
        """
        shared = torch.zeros(_MARKS + 2 * _MARKED_ROWS, dtype=torch.int64)
        shared[_EPOCH] = _UNKNOWN
        self._shared: torch.Tensor = shared.share_memory_()  # type: ignore[no-untyped-call]
        if epoch is not None:
            self.set(epoch)

    @property
    def now(self) -> int | None:
        """The epoch; None if it is not set."""
        epoch = int(self._shared[_EPOCH])
        return None if epoch == _UNKNOWN else epoch

    def require(self, how: str) -> int:
        """Return the epoch.

        Args:
            how: Advice on setting it, for the error message.

        Raises:
            ValueError: The epoch is not set.
        """
        epoch = self.now
        if epoch is None:
            raise ValueError("epoch: not set, so every epoch would have the same masks; " + how)
        return epoch

    def set(self, epoch: int) -> None:
        """Set the epoch. Setting the current epoch again has no effect.

        Raises:
            ValueError: The epoch is negative or not an integer.
        """
        check_count("epoch", epoch)
        if epoch != self.now:
            self._shared[_BATCHES] = 0
            self._shared[_EPOCH] = epoch

    def watch(self, keys: npt.NDArray[np.uint64], how: str) -> None:
        """Record the keys of a batch; warn once if the data starts over in the same epoch.

        Args:
            keys: uint64 `[B]`.
            how: Advice on changing the epoch, for the warning.
        """
        shared = self._shared.numpy()
        if shared[_WARNED] or not len(keys):
            return

        marks = shared[_MARKS : _MARKS + _MARKED_ROWS].view(np.uint64)
        seen = shared[_MARKS + _MARKED_ROWS :]
        shared[_BATCHES] += 1

        if shared[_BATCHES] == 2:
            # A batch with fewer rows is repeated to fill all marks.
            marks[:] = np.resize(keys[:_MARKED_ROWS], _MARKED_ROWS)
            seen[:] = 0
        elif shared[_BATCHES] > 2:
            seen[(marks[:, None] == keys).any(axis=1)] = 1
            if seen.all():
                shared[_WARNED] = 1
                warnings.warn(
                    f"epoch: a second pass over the data in epoch {shared[_EPOCH]}, so each row "
                    f"has the same mask again; {how}",
                    stacklevel=3,
                )


class FollowsEpoch:
    """Base class of objects whose masks depend on the epoch: dataset and collator.

    Attributes:
        static: Whether the epoch is fixed.
    """

    static: bool
    _epoch: Epoch

    @property
    def epoch(self) -> int | None:
        """The epoch of the masks; None if it is not set.

        Set it before each pass. Worker processes see the new value at once. Has no effect if
        `static`, or for rows that are already masked.

        Raises:
            ValueError: The new value is negative or not an integer.
        """
        return self._epoch.now

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        check_count("epoch", epoch)
        if not self.static:
            self._epoch.set(epoch)
