"""The streams of one plan: each stage, and each purpose within it, draws from a stream of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mslm_data.data.ragged import Array
from mslm_data.kernels.draws import first_uniforms, name_streams

SAMPLE, ROUND, GATE, RATE, BRANCH, LENGTH = range(6)
"""What a stage may draw for: which units, a rounding, whether it runs, its rate, its branch, lengths of spans."""
ACTIONS, RANDOM_IDS = 1 << 32, (1 << 32) + 1
"""Sub-streams of corruption, far from any stage."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Draws:
    """Where the draws of a stage come from.

    Attributes:
        keys: uint64 `[N]`, of the rows.
        seed: In `[0, 2**63)`.
        epoch: Likewise.
        step: Likewise; None where nobody counts steps. It names no stream: the same row draws the same at any step.
        stage: Number of the stage, in `[0, 2**16)`.
    """

    keys: npt.NDArray[np.uint64]
    seed: int
    epoch: int
    step: int | None = None
    stage: int = 0

    def of_stage(self, stage: int) -> Draws:
        """Return those of another stage."""
        return Draws(keys=self.keys, seed=self.seed, epoch=self.epoch, step=self.step, stage=stage)

    def streams(self, purpose: int = SAMPLE) -> Array:
        """Return the rows' streams for a purpose: uint64 `[N]`."""
        out = np.empty(len(self.keys), np.uint64)
        name_streams(self.keys, self.seed, self.epoch, self.stage + (purpose << 16), out)
        return out

    def uniforms(self, purpose: int) -> npt.NDArray[np.float64]:
        """Return one number in `[0, 1)` for each row, `[N]`."""
        out = np.empty(len(self.keys), np.float64)
        first_uniforms(self.streams(purpose), out)
        return out


def check_count(name: str, value: Any) -> None:
    """Refuse what cannot name a stream.

    Raises:
        ValueError: Not an integer in `[0, 2**63)`.
    """
    if not isinstance(value, int | np.integer) or not 0 <= value < 2**63:
        raise ValueError(f"{name}: expected an integer in [0, 2**63), got {value!r}")
