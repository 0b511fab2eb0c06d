"""The epoch that masks are of, where worker processes that already run see it change.

Trainers differ in whom they tell of a new epoch, and when: a plain attribute never reaches
persistent workers. An epoch that is never changed is noticed and warned of.
"""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt
import torch

from mslm_data.mask.draws import check_count

# Places in the memory that all processes share. The keys of the marked rows come last, then whether
# each was seen again.
_EPOCH = 0
_BATCHES = 1
_WARNED = 2
_MARKS = 3
_MOST = 8
"""Rows that are marked. More of them would only be compared longer."""


class Epoch:
    """The number of an epoch, which all processes share, with marks that tell a pass begun anew.

    The marks are the keys of a few rows of an epoch's second batch. If all of them come again while
    the epoch stands, the data began anew. (Those of the first batch would not do: samplers that
    fill up a last batch repeat these.)
    """

    def __init__(self, epoch: int = 0) -> None:
        """Begin with an epoch.

        Raises:
            ValueError: Not an epoch.
        """
        check_count("epoch", epoch)
        shared = torch.zeros(_MARKS + 2 * _MOST, dtype=torch.int64)
        shared[_EPOCH] = epoch
        self._shared: torch.Tensor = shared.share_memory_()  # type: ignore[no-untyped-call]

    @property
    def now(self) -> int:
        """The epoch."""
        return int(self._shared[_EPOCH])

    def set(self, epoch: int) -> None:
        """Go to an epoch. Does nothing if it is the current one.

        Raises:
            ValueError: Not an epoch.
        """
        check_count("epoch", epoch)
        if epoch != self.now:
            self._shared[_BATCHES] = 0
            self._shared[_EPOCH] = epoch

    def watch(self, keys: npt.NDArray[np.uint64], how: str) -> None:
        """Look at the keys of a batch, and warn once where the data began anew in the same epoch.

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
    """Base of what has masks of an epoch: the dataset, and the collator.

    Attributes:
        static: Whether the epoch stays as it is.
    """

    static: bool
    _epoch: Epoch

    @property
    def epoch(self) -> int:
        """The epoch that masks are of."""
        return self._epoch.now

    def set_epoch(self, epoch: int) -> None:
        """Go to an epoch, in worker processes too.

        Does nothing if `static`, nor to rows that are masked already.

        Raises:
            ValueError: Not an epoch.
        """
        check_count("epoch", epoch)
        if not self.static:
            self._epoch.set(epoch)
