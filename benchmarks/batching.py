"""Helpers to compare loaders: endless batches, digests of their rows, and memory.

Our loader and its peers use this module in separate environments, so it imports only NumPy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

SIZE = 32
"""Batch size."""
_LOOK = 50
"""Number of batches between two readings of memory."""


class Endless:
    """Batches of consecutive epochs. Each call of `take` continues after the last one."""

    def __init__(self, epoch: Callable[[int], Iterable[Any]]) -> None:
        """Start at epoch 0.

        Args:
            epoch: Epoch number -> its batches.
        """
        self._batches = self._all(epoch)

    def take(self, count: int) -> None:
        """Consume `count` batches."""
        for _ in range(count):
            next(self._batches)

    @staticmethod
    def _all(epoch: Callable[[int], Iterable[Any]]) -> Iterator[Any]:
        number = 0
        while True:
            yield from epoch(number)
            number += 1


def digest_rows(rows: Iterable[Any]) -> str:
    """Return an order-independent digest of rows of ids."""
    digests = sorted(
        hashlib.blake2b(np.asarray(ids, "<i8").tobytes(), digest_size=16).digest() for ids in rows
    )
    return f"{len(digests)}:{hashlib.blake2b(b''.join(digests)).hexdigest()}"


def unpadded_rows(batches: Iterable[Any], ids: Callable[[Any], Any]) -> Iterator[Any]:
    """Yield the rows of batches without padding.

    Args:
        batches: Dicts of tensors with `attention_mask`, `[B, L]`.
        ids: Batch -> unmasked ids, `[B, L]`.
    """
    for batch in batches:
        lengths = np.asarray(batch["attention_mask"]).sum(1).tolist()
        for row, length in zip(np.asarray(ids(batch)), lengths, strict=True):
            yield row[:length]


def memory_growth(batches: Endless, count: int) -> float:
    """Return the peak growth of this process in MiB while it consumes `count` batches."""
    start = peak = anonymous_kib("self")
    for _ in range(0, count, _LOOK):
        batches.take(_LOOK)
        peak = max(peak, anonymous_kib("self"))
    return (peak - start) / 1024


def anonymous_kib(pid: int | str) -> int:
    """Return the anonymous memory of a process in KiB, or 0 without `/proc`."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("RssAnon:")), 0)
