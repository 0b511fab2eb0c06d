"""Random numbers per row: one stream for each pick, and for each purpose in a pick.

A row's stream is a pure function of its key, the seed, the epoch, the number of the pick in its
strategy and the purpose, so two picks never share random numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mslm_data.data.ragged import Array
from mslm_data.kernels.rng import first_uniforms, fold_in, name_streams

SAMPLE, ROUND, GATE, RATE, BRANCH, LENGTH, REPEAT, KEEP = range(8)
"""Purposes within a pick: the choice of units, rounding, the gate, a row's rate, a row's
alternative, span lengths, repeated draws, and the taken units to keep."""

WAY, ACTIONS, RANDOM_IDS = range(8, 11)
"""Purposes outside of picks: a row's part of a mixture, and of the corruption the action for each
token, and random ids."""


@lru_cache(maxsize=1024)
def stream_number(path: tuple[int, ...], purpose: int) -> int:
    """Return the stream number of a path and a purpose, in `[0, 2**63)`."""
    return int(make_stream(*path, purpose)) % 2**63


def make_stream(*names: int) -> np.uint64:
    """Return a random stream for a sequence of numbers, by folding in one after the other."""
    stream = np.uint64(0)
    for name in names:
        stream = np.uint64(fold_in(stream, name))

    return stream


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowRng:
    """Generates the random numbers of N rows for one pick.

    Attributes:
        keys: uint64 `[N]`, keys of the rows.
        seed: In `[0, 2**63)`.
        epoch: In `[0, 2**63)`.
        step: Training step in `[0, 2**63)`, or None. Only rates and curricula depend on it, not
            streams.
        tokens: Number of tokens seen in training before the step, or None. As `step`.
        path: The number of the pick in its recipe. Empty outside of picks.
        ways: Choices of the enclosing mixtures, outermost first.
    """

    keys: npt.NDArray[np.uint64]
    seed: int
    epoch: int
    step: int | None = None
    tokens: int | None = None
    path: tuple[int, ...] = ()
    ways: tuple[int, ...] = ()

    def for_pick(self, number: int) -> RowRng:
        """Return the random numbers of a pick of the recipe."""
        return replace(self, path=(number,))

    def for_way(self, way: int) -> RowRng:
        """Return the random numbers of a strategy in a mixture.

        A row gets the same mask as from this strategy alone. Only the choices of a nested mixture
        depend on `ways`.
        """
        return replace(self, ways=(*self.ways, way))

    def for_mixture(self) -> RowRng:
        """Return the random numbers that choose each row's strategy in a mixture."""
        return replace(self, path=self.ways)

    def streams(self, purpose: int = SAMPLE) -> Array:
        """Return one stream per row, uint64 `[N]`."""
        out = np.empty(len(self.keys), np.uint64)
        name_streams(self.keys, self.seed, self.epoch, stream_number(self.path, purpose), out)
        return out

    def uniforms(self, purpose: int) -> npt.NDArray[np.float64]:
        """Return one uniform number in `[0, 1)` per row, float64 `[N]`."""
        out = np.empty(len(self.keys), np.float64)
        first_uniforms(self.streams(purpose), out)
        return out

    def at(self, unit: str) -> int:
        """Return the `epoch`, the training `step`, or the number of `tokens` seen.

        Raises:
            ValueError: It was not passed to `Strategy.plan`.
        """
        now = {"epoch": self.epoch, "step": self.step, "tokens": self.tokens}[unit]
        if now is None:
            raise ValueError(f"{unit}: the masks depend on it; pass plan(…, {unit}=…)")
        return now


def check_count(name: str, value: Any) -> None:
    """Check that a seed, epoch or step is an integer in `[0, 2**63)`.

    Raises:
        ValueError: It is not.
    """
    if not isinstance(value, int | np.integer) or not 0 <= value < 2**63:
        raise ValueError(f"{name}: expected an integer in [0, 2**63), got {value!r}")
