"""Random numbers per row: one stream for each pick, and for each purpose in a pick.

A row's stream is a pure function of its key, the seed, the epoch and the stream number. The stream
number is derived from the path to the pick in its strategy, so two picks never share random
numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mslm_data.data.ragged import Array
from mslm_data.kernels.rng import first_uniforms, fold_in, name_streams

SAMPLE, ROUND, GATE, RATE, BRANCH, LENGTH = range(6)
"""Purposes: the choice of units, rounding, the gate, a row's rate, a row's alternative, span
lengths."""

ACTIONS, RANDOM_IDS = 1 << 32, (1 << 32) + 1
"""Stream numbers of the corruption: the action for each token, and random ids."""

MIXTURE = 0xFFFF
"""First number in the path of a mixture's choices. Above any pick number."""

MAX_PICKS = 254
"""Maximum number of picks in a recipe, so that pick numbers stay below `MIXTURE`."""

_HASHED = 1 << 62


@lru_cache(maxsize=1024)
def stream_number(path: tuple[int, ...], purpose: int) -> int:
    """Return the stream number of a path and a purpose, in `[0, 2**63)`.

    The pick at position p of a recipe has the path `(p,)`. A pick nested in a choice has the path
    (position of the choice, alternative, position in the alternative).

    Such short paths are packed into 16 bits, below the purpose. All other paths, and the empty path
    of a strategy without picks, are hashed to numbers of 2**62 and above, so that they differ from
    packed numbers and from those of the corruption.
    """
    # Pack short paths: (p,) is p; (p, way, q) is (p + 1) * 256 + 16 * way + q, above any (p,).
    packed = None
    if len(path) == 1 and path[0] <= MIXTURE:
        packed = path[0]
    elif len(path) == 3 and path[0] < MAX_PICKS and max(path[1:]) < 16:
        packed = (path[0] + 1) * 256 + 16 * path[1] + path[2]

    if packed is not None:
        return packed + (purpose << 16)

    # Hash all other paths.
    number = np.uint64(0)
    for part in (*path, purpose):
        number = np.uint64(fold_in(number, part))
    return int(number) % _HASHED + _HASHED


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowRng:
    """Generates the random numbers of N rows for one pick.

    Attributes:
        keys: uint64 `[N]`, keys of the rows.
        seed: In `[0, 2**63)`.
        epoch: In `[0, 2**63)`.
        step: Training step in `[0, 2**63)`, or None. Only rates depend on it, not streams.
        tokens: Number of tokens seen in training before the step, or None. Only rates depend on it.
        path: Numbers from the recipe down to the pick; see `stream_number`.
        ways: Choices of the enclosing mixtures, outermost first.
    """

    keys: npt.NDArray[np.uint64]
    seed: int
    epoch: int
    step: int | None = None
    tokens: int | None = None
    path: tuple[int, ...] = ()
    ways: tuple[int, ...] = ()

    def for_pick(self, *numbers: int) -> RowRng:
        """Return the random numbers of a pick further down the path."""
        return replace(self, path=(*self.path, *numbers))

    def for_way(self, way: int) -> RowRng:
        """Return the random numbers of a strategy in a mixture.

        The path restarts, so a row gets the same mask as from this strategy alone. Only the choices
        of a nested mixture depend on `ways`.
        """
        return replace(self, path=(), ways=(*self.ways, way))

    def for_mixture(self) -> RowRng:
        """Return the random numbers that choose each row's strategy in a mixture."""
        return replace(self, path=(MIXTURE, *self.ways))

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


def check_count(name: str, value: Any) -> None:
    """Check that a seed, epoch or step is an integer in `[0, 2**63)`.

    Raises:
        ValueError: It is not.
    """
    if not isinstance(value, int | np.integer) or not 0 <= value < 2**63:
        raise ValueError(f"{name}: expected an integer in [0, 2**63), got {value!r}")
