"""Rows of which only the lengths exist, for tests of plans and orders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


class RowLengths:
    """Rows of some lengths, in shards.

    Attributes:
        tokens: Number of tokens.
        shard_rows: Number of rows of each shard.
        asked: Row numbers of each call of `lengths`.
    """

    def __init__(self, lengths: Sequence[int], shard_rows: Sequence[int] = ()) -> None:
        """Create rows; one shard by default."""
        self._lengths = np.array(lengths, np.int64)
        self.tokens = int(self._lengths.sum())
        self.shard_rows = tuple(shard_rows) or (len(lengths),)
        self.asked: list[npt.NDArray[Any]] = []

    @classmethod
    def made(cls, count: int, shard_rows: Sequence[int] = ()) -> RowLengths:
        """Return rows of 1 to 50 tokens."""
        return cls((np.arange(count) * 7 % 50 + 1).tolist(), shard_rows)

    def __len__(self) -> int:
        return len(self._lengths)

    def lengths(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return the number of tokens of each row."""
        self.asked.append(rows)
        lengths: npt.NDArray[np.int64] = self._lengths[rows]
        return lengths
