"""Streams of random draws: each pick, and each purpose within it, has its own.

A row's stream is a pure function of its key, the seed, the epoch, and a number that names what is
drawn. That number comes from the path to the pick within its strategy, so two picks never share
draws.
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
"""Purposes: which units, how to round, whether a row takes part, its rate, its way, lengths of
spans."""

ACTIONS, RANDOM_IDS = 1 << 32, (1 << 32) + 1
"""Streams of the corruption: what replaces a token, and which random id."""

MIXTURE = 0xFFFF
"""First number of the path that a mixture draws its choices by; no recipe has so many picks."""

MAX_PICKS = 254
"""Number of picks that one recipe may have, so that their numbers stay apart from `MIXTURE`."""

_HASHED = 1 << 62


@lru_cache(maxsize=1024)
def stream_number(path: tuple[int, ...], purpose: int) -> int:
    """Return the number of the stream that a path and a purpose name, in `[0, 2**63)`.

    The pick at place p of a recipe has the path `(p,)`. A pick within a choice has three numbers:
    the choice's place, the way, and the place within the way. Paths this short are packed into 16
    bits, with the purpose above them. All others, and the empty path of a strategy without picks,
    are hashed into numbers from 2**62 on, so that they meet neither packed ones nor those of the
    corruption.
    """
    packed = None
    if len(path) == 1 and path[0] <= MIXTURE:
        packed = path[0]
    elif len(path) == 3 and path[0] < MAX_PICKS and max(path[1:]) < 16:
        packed = (path[0] + 1) * 256 + 16 * path[1] + path[2]

    if packed is not None:
        return packed + (purpose << 16)

    number = np.uint64(0)
    for part in (*path, purpose):
        number = np.uint64(fold_in(number, part))
    return int(number) % _HASHED + _HASHED


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowRng:
    """Where a pick's draws come from.

    Attributes:
        keys: uint64 `[N]`, of the rows.
        seed: In `[0, 2**63)`.
        epoch: In `[0, 2**63)`.
        step: In `[0, 2**63)`, or None where steps are not counted. It names no stream: a row draws
            the same at any step.
        tokens: Tokens given before the step, 0 or more, or None where they are not counted. Names
            no stream either.
        path: Numbers from the recipe down to the pick; see `stream_number`.
        ways: Ways taken through mixtures of strategies, outermost first.
    """

    keys: npt.NDArray[np.uint64]
    seed: int
    epoch: int
    step: int | None = None
    tokens: int | None = None
    path: tuple[int, ...] = ()
    ways: tuple[int, ...] = ()

    def for_pick(self, *numbers: int) -> RowRng:
        """Return the draws of a pick further down the path."""
        return replace(self, path=(*self.path, *numbers))

    def for_way(self, way: int) -> RowRng:
        """Return the draws of a strategy within a mixture.

        Its picks begin a path of their own, so a row's mask is the one that this strategy alone
        would give it. Only a further mixture draws its choices elsewhere, by the ways taken so far.
        """
        return replace(self, path=(), ways=(*self.ways, way))

    def for_mixture(self) -> RowRng:
        """Return the draws that say which way each row goes in a mixture."""
        return replace(self, path=(MIXTURE, *self.ways))

    def streams(self, purpose: int = SAMPLE) -> Array:
        """Return the rows' streams for a purpose: uint64 `[N]`."""
        out = np.empty(len(self.keys), np.uint64)
        name_streams(self.keys, self.seed, self.epoch, stream_number(self.path, purpose), out)
        return out

    def uniforms(self, purpose: int) -> npt.NDArray[np.float64]:
        """Return one number in `[0, 1)` for each row, `[N]`."""
        out = np.empty(len(self.keys), np.float64)
        first_uniforms(self.streams(purpose), out)
        return out


def check_count(name: str, value: Any) -> None:
    """Refuse a seed, an epoch or a step that cannot name a stream.

    Raises:
        ValueError: Not an integer in `[0, 2**63)`.
    """
    if not isinstance(value, int | np.integer) or not 0 <= value < 2**63:
        raise ValueError(f"{name}: expected an integer in [0, 2**63), got {value!r}")
