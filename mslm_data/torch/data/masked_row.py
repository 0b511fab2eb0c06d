"""The rows of a `MaskedDataset`: indices into rows that were masked together."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from mslm_data.batches.collate import Masked
from mslm_data.batches.masked import PlacedBatch

_READ_ONLY = (
    "MaskedRow: rows are read-only, and batches would not show the change; modify the batch, or "
    "dict(row)"
)


class MaskedRow(UserDict[str, Any]):
    """A masked row: a mapping of arrays, and for `MaskingCollator` an index into a chunk.

    It is a `UserDict`, because Hugging Face's Trainer removes columns from a `dict`.

    Attributes:
        chunk: Rows that were masked together.
        place: Index of this row in the chunk.
        pack: Number of the packed row that contains this row; None if rows are not packed.
    """

    def __init__(self, chunk: Masked, place: int, pack: int | None = None) -> None:
        """Store the index; arrays are copied on first access."""
        self.chunk = chunk
        self.place = place
        self.pack = pack

    @cached_property
    def data(self) -> dict[str, Any]:  # type: ignore[override]
        """The arrays of a batch with only this row, without the batch dimension."""
        batch = self.chunk.batch(np.array([self.place], np.int64))

        return {name: array[0] for name, array in batch.items()}

    def __setitem__(self, name: str, value: Any) -> None:
        raise TypeError(_READ_ONLY)

    def __delitem__(self, name: str) -> None:
        raise TypeError(_READ_ONLY)

    def __copy__(self) -> MaskedRow:
        return MaskedRow(self.chunk, self.place, self.pack)

    def __repr__(self) -> str:
        # No ids: they can be decoded to text.
        return f"MaskedRow({self.chunk.examples.input_ids.lengths[self.place]} tokens)"


def merge_chunks(rows: Sequence[MaskedRow]) -> PlacedBatch:
    """Merge rows into one chunk; return it with the index of each row, and their packing.

    Rows of a single chunk are not copied.
    """
    places = np.array([row.place for row in rows], np.int64)
    packs = _find_pack_starts(rows)
    chunks = {id(row.chunk): row.chunk for row in rows}
    if len(chunks) == 1:
        return PlacedBatch(rows[0].chunk, places, packs)

    # Chunks are concatenated: shift each row's index by the number of rows in the chunks before.
    sizes = [len(chunk) for chunk in chunks.values()]
    chunk_starts = dict(zip(chunks, np.cumsum([0, *sizes]).tolist(), strict=False))
    shifts = np.array([chunk_starts[id(row.chunk)] for row in rows])

    return PlacedBatch(Masked.concatenate(list(chunks.values())), places + shifts, packs)


def _find_pack_starts(rows: Sequence[MaskedRow]) -> npt.NDArray[np.int64] | None:
    """Return the first row of each packed row, `[B + 1]`; None if rows are not packed."""
    numbers = [row.pack for row in rows]
    if None in numbers:
        return None
    begins = [
        place for place in range(len(rows)) if place == 0 or numbers[place] != numbers[place - 1]
    ]
    return np.array([*begins, len(rows)], np.int64)
