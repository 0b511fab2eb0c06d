"""The rows of one split, over all its shards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mslm_data.errors import ShardError
from mslm_data.examples import Examples, concatenate
from mslm_data.kernels.gather import gather
from mslm_data.ragged import Ragged, offsets_of
from mslm_data.shard.manifest import Manifest, SplitRecord
from mslm_data.shard.read import Shard
from mslm_data.shard.remote import RemoteFolder, RemoteShard
from mslm_data.shard.write import ShardRecord


class Split:
    """The rows of one split, over all its shards."""

    def __init__(self, folder: Path | RemoteFolder, name: str, manifest: Manifest) -> None:
        """Remember where the shards are; each is opened when it is first asked for a row.

        Args:
            folder: The built folder.
            name: The split's.
            manifest: The folder's.
        """
        self.record: SplitRecord = manifest.splits[name]
        self.token_ids = manifest.token_ids
        self._shards = [_shard(folder, name, shard, manifest) for shard in self.record.shards]
        self._first = offsets_of(np.array([shard.rows for shard in self.record.shards], np.int64))

    def __len__(self) -> int:
        return int(self._first[-1])

    def __getitem__(self, row: int) -> dict[str, Any]:
        """Return one row, all columns, as plain Python values; negative numbers count from the end."""
        number = row + len(self) if row < 0 else row
        if not 0 <= number < len(self):
            raise IndexError(f"row: expected one of {len(self)}, got {row}")
        shard = int(np.searchsorted(self._first, number, side="right")) - 1
        return self._shards[shard].row(number - int(self._first[shard]))

    def examples(self, start: int = 0, stop: int | None = None) -> Examples:
        """Return rows `[start, stop)`; within one shard they are views of the mapped file, nothing is copied.

        Raises:
            IndexError: Not `0 <= start <= stop <= len(self)`.
            ShardError: A shard is missing or damaged.
        """
        stop = len(self) if stop is None else stop
        if not 0 <= start <= stop <= len(self):
            raise IndexError(f"rows: expected 0 <= start <= stop <= {len(self)}, got [{start}, {stop})")
        parts = [
            shard.examples(max(start - first, 0), min(stop - first, len(shard)))
            for shard, first in zip(self._shards, self._first.tolist(), strict=False)
            if first < stop and start < first + len(shard)
        ]
        if not parts:
            return self.take(np.empty(0, np.int64))
        return parts[0] if len(parts) == 1 else concatenate(parts)

    def take(self, rows: npt.NDArray[np.int64]) -> Examples:
        """Return any rows, in any order, copied together; tokens' characters come along where the shards have them.

        Args:
            rows: int64 `[R]`, each in `[0, len(self))`.
        """
        picks = self._picks(rows)
        keys = np.empty(len(rows), np.uint64)
        for shard, places, local in picks:
            keys[places] = shard.flat("key")[local]
        tokens, spans = _offsets_of(picks, "input_ids", len(rows)), _offsets_of(picks, "span_starts", len(rows))
        characters = bool(picks) and all(shard.has("token_starts") and shard.has("token_ends") for shard, _, _ in picks)
        return Examples(
            keys=keys,
            input_ids=_gathered(picks, "input_ids", tokens, np.int32),
            word_ids=_gathered(picks, "word_ids", tokens, np.int32),
            bio=_gathered(picks, "bio", tokens, np.int8),
            span_starts=_gathered(picks, "span_starts", spans, np.int32),
            span_ends=_gathered(picks, "span_ends", spans, np.int32),
            span_labels=_gathered(picks, "span_labels", spans, np.int16),
            ids=self.token_ids,
            token_starts=_gathered(picks, "token_starts", tokens, np.int32) if characters else None,
            token_ends=_gathered(picks, "token_ends", tokens, np.int32) if characters else None,
        )

    def lengths(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the number of tokens of any rows, in any order, `[R]`; each is in `[0, len(self))`."""
        return np.diff(_offsets_of(self._picks(rows), "input_ids", len(rows)))

    def chunks(self, rows: int = 8192) -> Iterator[Examples]:
        """Give all rows in their stored order, at most this many at a time."""
        for start in range(0, len(self), rows):
            yield self.examples(start, min(start + rows, len(self)))

    def texts(self, rows: int = 8192) -> Iterator[str]:
        """Give the text of each row in their stored order.

        Raises:
            ShardError: The folder was built without `keep_text`, or a shard is missing or damaged.
        """
        for shard in self._shards:
            if "text" not in shard.batch.schema.names:
                raise ShardError(f"{shard.path}: expected texts, got none; build with --set encode.keep_text=true")
            column = shard.batch.column("text")
            for start in range(0, len(column), rows):
                yield from column.slice(start, rows).to_pylist()

    def _picks(self, rows: npt.NDArray[np.int64]) -> Picks:
        shard_of = np.searchsorted(self._first, rows, side="right") - 1
        groups = [(self._shards[s], np.flatnonzero(shard_of == s), self._first[s]) for s in np.unique(shard_of)]
        return [(shard, places, rows[places] - first) for shard, places, first in groups]


def _shard(folder: Path | RemoteFolder, split: str, record: ShardRecord, manifest: Manifest) -> Shard:
    about = record, manifest.token_ids, len(manifest.labels)
    if isinstance(folder, RemoteFolder):
        return RemoteShard(folder, f"{split}/{record.file}", *about)
    return Shard(folder / split / record.file, *about)


Picks: TypeAlias = list[tuple[Shard, npt.NDArray[np.int64], npt.NDArray[np.int64]]]
"""Shards with the places that their rows take, and these rows within the shard."""


def _offsets_of(picks: Picks, column: str, size: int) -> npt.NDArray[np.int64]:
    """Return the offsets `[size + 1]` that picked rows of a ragged column have side by side."""
    lengths = np.zeros(size, np.int64)
    for shard, places, local in picks:
        offsets, _ = shard.lists(column)
        lengths[places] = offsets[local + 1] - offsets[local]
    return offsets_of(lengths)


def _gathered(picks: Picks, column: str, offsets: npt.NDArray[np.int64], dtype: npt.DTypeLike) -> Ragged:
    """Return picked rows of a ragged column side by side."""
    out = np.empty(offsets[-1], dtype)
    for shard, places, local in picks:
        gather(local, *shard.lists(column), offsets[places], out)
    return Ragged(out, offsets)
