"""Rows that were masked together, and the light row that a dataset hands out: a place among them."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from mslm_data.batches.collate import Batch, collate, collate_sequences
from mslm_data.data.examples import Examples, concatenate
from mslm_data.data.ragged import Ragged
from mslm_data.mask import Strategy


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Masked:
    """N rows with their masks.

    Attributes:
        examples: The rows as they were.
        kinds: uint8 `MaskKind`, one per token.
        hidden: The ids that the model sees.
        targets: The ids that it is to write, where the strategy says; else None.
    """

    examples: Examples
    kinds: Ragged
    hidden: Ragged
    targets: Ragged | None

    @classmethod
    def of(
        cls,
        examples: Examples,
        strategy: Strategy,
        *,
        seed: int,
        epoch: int,
        step: int | None = None,
    ) -> Masked:
        """Mask rows; all of it is a pure function of each row's key and the arguments.

        Raises:
            ValueError: What `Strategy.plan` and `Strategy.corrupt` refuse.
        """
        plan = strategy.plan(examples, seed=seed, epoch=epoch, step=step)
        hidden = strategy.corrupt(examples, plan, seed=seed, epoch=epoch)
        return cls(
            examples=examples,
            kinds=plan.kinds,
            hidden=hidden,
            targets=strategy.targets(examples, plan),
        )

    @classmethod
    def concatenate(cls, parts: Sequence[Masked]) -> Masked:
        """Put several one after the other; at least one is needed, all of one strategy."""
        targets = [part.targets for part in parts if part.targets is not None]
        return cls(
            examples=concatenate([part.examples for part in parts]),
            kinds=Ragged.concatenate([part.kinds for part in parts]),
            hidden=Ragged.concatenate([part.hidden for part in parts]),
            targets=Ragged.concatenate(targets) if targets else None,
        )

    def __len__(self) -> int:
        return len(self.examples)

    def batch(self, places: npt.NDArray[np.int64] | None = None, *, multiple_of: int = 1) -> Batch:
        """Return rows as a batch of arrays; see `collate` and `collate_sequences`."""
        if self.targets is None:
            return collate(self.examples, self.kinds, self.hidden, places, multiple_of=multiple_of)
        return collate_sequences(
            self.examples, self.hidden, self.targets, places, multiple_of=multiple_of
        )


class MaskedRow(UserDict[str, Any]):
    """One masked row: of use as a mapping of arrays without padding, and to `MaskingCollator` as a place in a chunk.

    A `UserDict`, since Hugging Face's Trainer takes columns away from rows that are a `dict`, and from no others.
    """

    def __init__(self, chunk: Masked, place: int) -> None:
        """Remember where the row is; nothing is copied before it is asked for.

        Args:
            chunk: The rows that were masked together.
            place: Which of them.
        """
        self.chunk, self.place = chunk, place

    @cached_property
    def data(self) -> dict[str, Any]:  # type: ignore[override]
        """The row's part of a batch: what a batch of one holds, without its first dimension."""
        batch = self.chunk.batch(np.array([self.place], np.int64))
        return {name: array[0] for name, array in batch.items()}

    def __repr__(self) -> str:
        """Say how long it is; ids could be read back into text."""
        return f"MaskedRow({self.chunk.examples.input_ids.lengths[self.place]} tokens)"


def chunk_of(rows: Sequence[MaskedRow]) -> tuple[Masked, npt.NDArray[np.int64]]:
    """Return one chunk that holds all these rows, and their places in it, `[B]`; copies only if they are of several."""
    chunks = {id(row.chunk): row.chunk for row in rows}
    places = np.array([row.place for row in rows], np.int64)
    if len(chunks) == 1:
        return rows[0].chunk, places
    firsts = dict(zip(chunks, np.cumsum([0, *map(len, chunks.values())]).tolist(), strict=False))
    return Masked.concatenate(list(chunks.values())), places + np.array(
        [firsts[id(row.chunk)] for row in rows]
    )
