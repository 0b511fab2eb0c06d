"""The row that the dataset returns: an index into rows that were masked together."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from mslm_data.batches.masked import Masked, PlacedBatch

_FIXED = (
    "MaskedRow: expected no change, as batches are made of the rows behind it, got one; change the "
    "batch, or a dict of the row"
)


class MaskedRow(UserDict[str, Any]):
    """One masked row: a mapping of arrays, and for `MaskingCollator` an index into a chunk.

    A `UserDict`, since Hugging Face's Trainer takes columns away from rows that are a `dict`, and
    from no others.

    Attributes:
        chunk: The rows that were masked together.
        place: Which of them this is.
        pack: The number of the packed row that it becomes a part of; None where none is packed.
    """

    def __init__(self, chunk: Masked, place: int, pack: int | None = None) -> None:
        """Remember where the row is; nothing is copied before it is asked for."""
        self.chunk = chunk
        self.place = place
        self.pack = pack

    @cached_property
    def data(self) -> dict[str, Any]:  # type: ignore[override]
        """The arrays of a batch of this row alone, without the batch dimension."""
        batch = self.chunk.batch(np.array([self.place], np.int64))

        return {name: array[0] for name, array in batch.items()}

    def __setitem__(self, name: str, value: Any) -> None:
        raise TypeError(_FIXED)

    def __delitem__(self, name: str) -> None:
        raise TypeError(_FIXED)

    def __copy__(self) -> MaskedRow:
        return MaskedRow(self.chunk, self.place, self.pack)

    def __repr__(self) -> str:
        # Not the ids: they could be read back into text.
        return f"MaskedRow({self.chunk.examples.input_ids.lengths[self.place]} tokens)"


def placed(rows: Sequence[MaskedRow]) -> PlacedBatch:
    """Merge rows into one chunk; return it and the index of each row in it.

    Only rows of several chunks are copied.
    """
    places = np.array([row.place for row in rows], np.int64)
    packs = _find_pack_starts(rows)
    chunks = {id(row.chunk): row.chunk for row in rows}
    if len(chunks) == 1:
        return PlacedBatch(rows[0].chunk, places, packs)

    # The chunks are put one after the other: a row's place moves by the rows of the chunks before
    # its own.
    sizes = [len(chunk) for chunk in chunks.values()]
    firsts = dict(zip(chunks, np.cumsum([0, *sizes]).tolist(), strict=False))
    moves = np.array([firsts[id(row.chunk)] for row in rows])

    return PlacedBatch(Masked.concatenate(list(chunks.values())), places + moves, packs)


def _find_pack_starts(rows: Sequence[MaskedRow]) -> npt.NDArray[np.int64] | None:
    """Return where each packed row begins, `[B + 1]`; None if rows are not packed."""
    numbers = [row.pack for row in rows]
    if None in numbers:
        return None
    begins = [
        place for place in range(len(rows)) if place == 0 or numbers[place] != numbers[place - 1]
    ]
    return np.array([*begins, len(rows)], np.int64)
