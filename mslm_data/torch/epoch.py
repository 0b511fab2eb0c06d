"""The epoch, where worker processes that run already see it change, and where a frozen one is noticed.

Trainers differ in whom they tell of a new epoch, and when: a plain attribute never reaches persistent workers.
"""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt
import torch

from mslm_data.mask.draws import check_count

_EPOCH, _BATCHES, _WARNED, _MARKS = 0, 1, 2, 3
_MOST = 8


class Epoch:
    """A number that all processes share, with the keys of a few rows that should not come again while it stands.

    These are of the second batch of an epoch; that all of them come again says that the data began anew. (Of the
    second, since samplers that fill up a last batch do it with rows of the first.)
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
        """Go to an epoch; to the one that is, is nothing.

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
            how: What to do so that the epoch changes.
        """
        shared = self._shared.numpy()
        if shared[_WARNED] or not len(keys):
            return
        marks, seen = shared[_MARKS : _MARKS + _MOST].view(np.uint64), shared[_MARKS + _MOST :]
        shared[_BATCHES] += 1
        if shared[_BATCHES] == 2:
            marks[:] = np.resize(keys[:_MOST], _MOST)
            seen[:] = 0
        elif shared[_BATCHES] > 2:
            seen[(marks[:, None] == keys).any(axis=1)] = 1
            if seen.all():
                shared[_WARNED] = 1
                warnings.warn(
                    f"epoch: expected another after a pass over the data, got {shared[_EPOCH]} again, so each row has "
                    f"the mask that it had; {how}",
                    stacklevel=3,
                )


class FollowsEpoch:
    """What has masks of an epoch: the dataset, and the collator.

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
        """Go to an epoch, in worker processes too; nothing where it is static, and for rows masked already.

        Raises:
            ValueError: Not an epoch.
        """
        check_count("epoch", epoch)
        if not self.static:
            self._epoch.set(epoch)
