"""The light row that a dataset hands out: a place among rows that were masked together."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from mslm_data.batches.masked import Masked


class MaskedRow(UserDict[str, Any]):
    """One masked row: a mapping of arrays, and to `MaskingCollator` a place in a chunk.

    A `UserDict`, since Hugging Face's Trainer takes columns away from rows that are a `dict`, and
    from no others.

    Attributes:
        chunk: The rows that were masked together.
        place: Which of them this is.
    """

    def __init__(self, chunk: Masked, place: int) -> None:
        """Remember where the row is; nothing is copied before it is asked for."""
        self.chunk = chunk
        self.place = place

    @cached_property
    def data(self) -> dict[str, Any]:  # type: ignore[override]
        """The arrays of a batch of this row alone, without their first dimension."""
        batch = self.chunk.batch(np.array([self.place], np.int64))

        return {name: array[0] for name, array in batch.items()}

    def __repr__(self) -> str:
        # Not the ids: they could be read back into text.
        return f"MaskedRow({self.chunk.examples.input_ids.lengths[self.place]} tokens)"


def chunk_of(rows: Sequence[MaskedRow]) -> tuple[Masked, npt.NDArray[np.int64]]:
    """Return one chunk that holds all these rows, and their places in it, `[B]`.

    Only rows of several chunks are copied.
    """
    chunks = {id(row.chunk): row.chunk for row in rows}
    places = np.array([row.place for row in rows], np.int64)
    if len(chunks) == 1:
        return rows[0].chunk, places

    # The chunks are put one after the other: a row's place moves by the rows of the chunks before
    # its own.
    sizes = [len(chunk) for chunk in chunks.values()]
    firsts = dict(zip(chunks, np.cumsum([0, *sizes]).tolist(), strict=False))
    moves = np.array([firsts[id(row.chunk)] for row in rows])

    return Masked.concatenate(list(chunks.values())), places + moves
