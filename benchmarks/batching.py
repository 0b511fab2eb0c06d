"""Take batches without end, digest the rows that were read, and measure the memory they took.

Both sides of a comparison of loaders use this, each in its own environment, so it needs only NumPy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

SIZE = 32
"""Rows of a batch."""
_LOOK = 50
"""Batches between two readings of memory."""


class Endless:
    """Batches of one epoch after the other: a turn takes some, the next turn continues."""

    def __init__(self, epoch: Callable[[int], Iterable[Any]]) -> None:
        """Start with epoch 0; `epoch` takes a number and gives that epoch's batches."""
        self._batches = self._all(epoch)

    def take(self, count: int) -> None:
        """Take this many batches and drop them."""
        for _ in range(count):
            next(self._batches)

    @staticmethod
    def _all(epoch: Callable[[int], Iterable[Any]]) -> Iterator[Any]:
        number = 0
        while True:
            yield from epoch(number)
            number += 1


def digest_of(rows: Iterable[Any]) -> str:
    """Return a digest of rows of ids that does not depend on their order."""
    digests = sorted(
        hashlib.blake2b(np.asarray(ids, "<i8").tobytes(), digest_size=16).digest() for ids in rows
    )
    return f"{len(digests)}:{hashlib.blake2b(b''.join(digests)).hexdigest()}"


def rows_of(batches: Iterable[Any], ids: Callable[[Any], Any]) -> Iterator[Any]:
    """Return the rows of batches, without padding.

    Args:
        batches: Dicts of tensors.
        ids: Batch -> ids `[B, L]` as they were before masking.
    """
    for batch in batches:
        lengths = np.asarray(batch["attention_mask"]).sum(1).tolist()
        for row, length in zip(np.asarray(ids(batch)), lengths, strict=True):
            yield row[:length]


def grown(batches: Endless, count: int) -> float:
    """Return by how many MiB this process grows at most while it takes this many batches."""
    first = most = own_memory("self")
    for _ in range(0, count, _LOOK):
        batches.take(_LOOK)
        most = max(most, own_memory("self"))
    return (most - first) / 1024


def own_memory(pid: int | str) -> int:
    """Return the KiB of a process that no file backs; 0 where `/proc` does not say."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("RssAnon:")), 0)
