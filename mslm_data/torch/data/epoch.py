"""The epoch of the masks, in memory shared with worker processes.

A mask is made for an epoch, so no row is masked before its epoch is known. Trainers differ in whom
they tell of a new epoch: accelerate 1.15 tells a dataset in some passes and not in others, and a
collator never. A row would then have the same mask in every epoch, and nothing would say so. So
`set_epoch`, which accelerate looks for, is what samplers and loaders have, and these send the epoch
along with the rows. Datasets and collators have `epoch`, which only `MaskEpochCallback` and the
user's own loop set.
"""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt
import torch

from mslm_data.mask.rng import check_count

_UNKNOWN = -1
"""The epoch before it is set."""

# Places in the memory that all processes share. The keys of the marked rows come last, then whether
# each was seen again.
_EPOCH = 0
_BATCHES = 1
_WARNED = 2
_MARKS = 3
_MOST = 8
"""Rows that are marked. More of them would only be compared longer."""


class Epoch:
    """An epoch shared by all processes, which also detects a second pass in the same epoch.

    The marks are the keys of a few rows of an epoch's second batch. If all of them come again while
    the epoch stands, the data began anew. (Those of the first batch would not do: samplers that
    fill up a last batch repeat these.)
    """

    def __init__(self, epoch: int | None = None) -> None:
        """Begin with an epoch, or with none.

        Raises:
            ValueError: Not an epoch.
        """
        shared = torch.zeros(_MARKS + 2 * _MOST, dtype=torch.int64)
        shared[_EPOCH] = _UNKNOWN
        self._shared: torch.Tensor = shared.share_memory_()  # type: ignore[no-untyped-call]
        if epoch is not None:
            self.set(epoch)

    @property
    def now(self) -> int | None:
        """The epoch; None if it has not been set."""
        epoch = int(self._shared[_EPOCH])
        return None if epoch == _UNKNOWN else epoch

    def require(self, how: str) -> int:
        """Return the epoch, or raise an error if it has not been set.

        Args:
            how: How to set it, for the message.

        Raises:
            ValueError: It is not set.
        """
        epoch = self.now
        if epoch is None:
            raise ValueError("epoch: not set, so every epoch would have the same masks; " + how)
        return epoch

    def set(self, epoch: int) -> None:
        """Set the epoch. Setting the current epoch again changes nothing.

        Raises:
            ValueError: Not an epoch.
        """
        check_count("epoch", epoch)
        if epoch != self.now:
            self._shared[_BATCHES] = 0
            self._shared[_EPOCH] = epoch

    def watch(self, keys: npt.NDArray[np.uint64], how: str) -> None:
        """Record the keys of a batch; warn once if the data starts over in the same epoch.

        Args:
            keys: uint64 `[B]`.
            how: What to do so that the epoch changes, for the warning.
        """
        shared = self._shared.numpy()
        if shared[_WARNED] or not len(keys):
            return

        marks = shared[_MARKS : _MARKS + _MOST].view(np.uint64)
        seen = shared[_MARKS + _MOST :]
        shared[_BATCHES] += 1

        if shared[_BATCHES] == 2:
            # A batch of fewer rows is repeated, so that every place is a mark.
            marks[:] = np.resize(keys[:_MOST], _MOST)
            seen[:] = 0
        elif shared[_BATCHES] > 2:
            seen[(marks[:, None] == keys).any(axis=1)] = 1
            if seen.all():
                shared[_WARNED] = 1
                warnings.warn(
                    f"epoch: expected another after a pass over the data, got {shared[_EPOCH]} "
                    f"again, so each row has the mask that it had; {how}",
                    stacklevel=3,
                )


class FollowsEpoch:
    """Base class of objects whose masks depend on the epoch: dataset and collator.

    Attributes:
        static: Whether the epoch stays as it is.
    """

    static: bool
    _epoch: Epoch

    @property
    def epoch(self) -> int | None:
        """The epoch of the masks; None if it has not been set.

        Set it before each pass. Worker processes see it at once. It does not change if `static`,
        nor for rows that are masked already.

        Raises:
            ValueError: Set to what is not an epoch.
        """
        return self._epoch.now

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        check_count("epoch", epoch)
        if not self.static:
            self._epoch.set(epoch)
