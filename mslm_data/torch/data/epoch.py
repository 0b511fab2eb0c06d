"""The epoch of a collator's masks, in memory shared with worker processes.

Masks depend on the epoch, so no row is masked before its epoch is set. Trainers do not tell it to
collators, and rows would silently keep the same mask in all epochs. So a collator has the attribute
`epoch`, set by `MaskEpochCallback` or the user's own loop. It has no `set_epoch`, which trainers
call in some passes and not in others. A loader counts its epochs itself.
"""

from __future__ import annotations

import torch

from mslm_data.mask.rng import check_count

_UNKNOWN = -1
"""Stored value while the epoch is not set."""


class Epoch:
    """An epoch shared by all processes."""

    def __init__(self, epoch: int | None = None) -> None:
        """Set the first epoch, if there is one.

        Raises:
            ValueError: The epoch is negative or not an integer.
        """
        unknown = torch.tensor(_UNKNOWN)
        self._shared: torch.Tensor = unknown.share_memory_()  # type: ignore[no-untyped-call]
        if epoch is not None:
            self.set(epoch)

    @property
    def now(self) -> int | None:
        """The epoch; None if it is not set."""
        epoch = int(self._shared)
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
        """Set the epoch.

        Raises:
            ValueError: The epoch is negative or not an integer.
        """
        check_count("epoch", epoch)
        self._shared.fill_(epoch)


class FollowsEpoch:
    """Base class of a collator whose masks depend on the epoch.

    Attributes:
        static: Whether the epoch is fixed.
    """

    static: bool
    _epoch: Epoch

    @property
    def epoch(self) -> int | None:
        """The epoch of the masks; None if it is not set.

        Set it before each pass. Worker processes see the new value at once. Has no effect if
        `static`.

        Raises:
            ValueError: The new value is negative or not an integer.
        """
        return self._epoch.now

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        check_count("epoch", epoch)
        if not self.static:
            self._epoch.set(epoch)
