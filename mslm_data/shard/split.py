"""Reads the rows of a split from all of its shards."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mslm_data.data.examples import Examples, TokenIds, concatenate
from mslm_data.data.ragged import Ragged, Three, make_offsets
from mslm_data.draw import macros, notebook_html
from mslm_data.errors import ShardError
from mslm_data.io.arrow import IN_MEMORY
from mslm_data.io.files import canonical_json
from mslm_data.kernels.gather import gather, gather_alike
from mslm_data.shard.html import draw_rows
from mslm_data.shard.manifest import Manifest, SplitRecord
from mslm_data.shard.read import Shard
from mslm_data.shard.remote import RemoteFolder, RemoteShard, bring, fetches_ahead
from mslm_data.shard.row_protocol import (
    CHUNK,
    Rows,
    SplitShare,
    check_chunk,
    resolve_row,
    resolve_stop,
    whole_numbers,
)
from mslm_data.shard.subset import Subset, draw_subset
from mslm_data.shard.write import ShardRecord


class Split(Rows):
    """The rows of a split of a built folder.

    `md.load(folder)["train"]` returns one. Shards are opened, and downloaded if remote, when one of
    their rows is first read.

    Attributes:
        folder: Built folder, as passed by the caller.
        place: Absolute path of the folder, or the remote folder.
        name: Name of the split.
        manifest: Manifest of the folder.
        record: Counts and shards of the split in the manifest.
        labels: Label names, indexed by `span_labels`.
        tags: Tag names, indexed by `bio`.
        doc_labels: Document label names, indexed by `doc_labels`; empty without document labels.
        token_ids: Special ids of the tokenizer.
        protected: Whether the rows are patients' text, which must not be shown or shared.
        cache_bytes: Maximum size of a remote folder's shards in the cache, in bytes; None for no
            limit.
    """

    def __init__(self, folder: Path | RemoteFolder, name: str, manifest: Manifest) -> None:
        """Create the split without reading shards.

        Args:
            folder: Built folder.
            name: Name of the split.
            manifest: Manifest of the folder.
        """
        self.folder = folder
        self.place: Path | RemoteFolder = (
            folder if isinstance(folder, RemoteFolder) else folder.absolute()
        )
        self.name = name
        self.manifest = manifest
        self.record: SplitRecord = manifest.splits[name]
        self.labels = manifest.labels
        self.tags = manifest.tags
        self.doc_labels = manifest.doc_labels or ()
        self.token_ids = manifest.token_ids
        self.protected = manifest.protected
        self._shards = [_shard(self.place, name, shard, manifest) for shard in self.record.shards]
        self._first = make_offsets(np.array([shard.rows for shard in self.record.shards], np.int64))
        self.cache_bytes = folder.cache_bytes if isinstance(folder, RemoteFolder) else None

    def __len__(self) -> int:
        return int(self._first[-1])

    @property
    def splits(self) -> tuple[SplitShare]:
        """The split itself, each row once per epoch."""
        return (SplitShare(split=self, share=1.0, rows=len(self)),)

    @property
    def shard_rows(self) -> tuple[int, ...]:
        """Number of rows of each shard."""
        return tuple(shard.rows for shard in self.record.shards)

    @property
    def tokens(self) -> int:
        """Number of tokens, special tokens included."""
        return self.record.tokens

    @property
    def digest(self) -> str:
        """Digest of corpus name, split name, input files and the documents that were drawn.

        Together with the number of rows and tokens, it identifies the rows. It does not depend on
        the shard size.
        """
        sources = [dict(source) for source in self.record.sources]
        drawn = [draw["rows"] for draw in self.manifest.draws if draw["split"] == self.name]
        origin = canonical_json([self.manifest.name, self.name, sources, *drawn])
        return hashlib.sha256(origin).hexdigest()[:16]

    def __repr__(self) -> str:
        record = self.record

        return (
            f"Split({self.name!r}: {len(self):,} rows, {record.tokens:,} tokens, "
            f"{record.mentions:,} mentions)"
        )

    def _repr_html_(self) -> str:
        """Render the counts and a few rows for notebooks; see `shard.html`."""
        rows = draw_rows(self)

        return notebook_html(splits_table([self]), rows)

    def __getitem__(self, row: int) -> dict[str, Any]:
        """Return all columns of a row as Python values; negative indices count from the end.

        Raises:
            IndexError: The row is out of range.
            TypeError: `row` is not an integer, but for example a slice.
        """
        number = resolve_row(row, len(self))
        shard = int(np.searchsorted(self._first, number, side="right")) - 1
        bring([self._shards[shard]])
        return self._shards[shard].row(number - int(self._first[shard]))

    @property
    def tokenizer(self) -> Path:
        """Path of the tokenizer. A remote file is downloaded and checked.

        Raises:
            ShardError: The file is missing.
            SourceError: The remote file is unreachable, or differs from the manifest.
        """
        return tokenizer_file(self.place, self.manifest)

    def subset(
        self,
        *,
        documents: int | None = None,
        share: float | None = None,
        shots: int | None = None,
        seed: int = 0,
    ) -> Subset:
        """Return the rows of randomly chosen documents, as a view usable like a split.

        Exactly one of `documents`, `share` and `shots` is required.

        Subsets with the same seed are nested: 50 documents include the 10 documents of a smaller
        subset, and 10 shots include 5 shots. The choice depends only on the seed, the document ids
        and the labels of their mentions. Rows keep their keys, and therefore their masks.

        Args:
            documents: Number of documents, from 1 to the number in the split. The first document
                with each label is chosen before all others, so that a subset with at least as many
                documents as labels has every label.
            share: Share of the documents, in (0, 1]. The number of documents is rounded up.
            shots: Minimum number of mentions per label, at least 1. For each label, documents are
                added until they have this number of mentions. Documents are not divided, so the
                subset may have more mentions. It has fewer if the split does.
            seed: Seed for the choice, in `[0, 2**63)`. Default: 0.

        Raises:
            TypeError: None or several of `documents`, `share` and `shots` are given.
            ValueError: A number is out of range.
            ShardError: A shard is missing or damaged.
        """
        return draw_subset(self, documents=documents, share=share, shots=shots, seed=seed)

    def check(self) -> None:
        """Reopen and check shards whose files have changed since they were opened.

        Only size and times of each file are read; shards in memory are skipped. `md.Batches` and
        loaders call this at the start and at the end of an epoch.

        Raises:
            ShardError: A file is missing, or its digest differs from the manifest.
        """
        for shard in self._shards:
            shard.check()

    def examples(self, start: int = 0, stop: int | None = None) -> Examples:
        """Return rows `[start, stop)`, as views if all are in the same shard.

        Args:
            start: First row. Default: 0.
            stop: Row after the last. Default: None, the number of rows.

        Raises:
            IndexError: The range is not within `[0, len(self)]`.
            ShardError: A shard is missing or damaged.
        """
        stop = resolve_stop(start, stop, len(self))
        picks = [
            (shard, first)
            for shard, first in zip(self._shards, self._first.tolist(), strict=False)
            if first < stop and start < first + len(shard)
        ]
        bring([shard for shard, _ in picks])
        parts = [
            shard.examples(max(start - first, 0), min(stop - first, len(shard)))
            for shard, first in picks
        ]
        if not parts:
            return self.take(np.empty(0, np.int64))
        return parts[0] if len(parts) == 1 else concatenate(parts)

    def take(self, rows: Sequence[int] | npt.NDArray[np.int64]) -> Examples:
        """Return a copy of a selection of rows.

        The result includes `token_starts`, `token_ends`, `sentence_starts` and `doc_labels` if the
        shards have these columns.

        Args:
            rows: `[R]` in `[0, len(self))`, in any order.

        Raises:
            IndexError: A row is out of range.
            ShardError: A shard is missing or damaged.
            TypeError: `rows` are not integers.
        """
        picks = self.picks(whole_numbers(rows))
        shards = [shard for shard, _, _ in picks]
        columns = {name for name in _OPTIONAL if picks and all(shard.has(name) for shard in shards)}

        return gather_rows(picks, len(rows), self.token_ids, columns=columns)

    def lengths(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the number of tokens in each of the rows, int64 `[R]`; see `take`."""
        return gather_lengths(self.picks(rows), len(rows))

    def chunks(
        self,
        rows: int = CHUNK,
        *,
        seed: int = 0,  # noqa: ARG002
        epoch: int = 0,  # noqa: ARG002
    ) -> Iterator[Examples]:
        """Yield all rows in stored order, in chunks.

        Args:
            rows: Maximum number of rows in a chunk. Default: 8192.
            seed: Ignored: unlike a mix, a split has the same rows in every epoch.
            epoch: Ignored.

        Raises:
            ValueError: `rows` is not an integer of at least 1.
            ShardError: A shard is missing or damaged, or has changed, see `check`.
        """
        check_chunk(rows)
        self.check()
        if self._fits:
            self.bring()
        for start in range(0, len(self), rows):
            yield self.examples(start, min(start + rows, len(self)))
        self.check()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield each shard as an Arrow record batch with all columns.

        Remote shards are downloaded one at a time.

        Raises:
            ShardError: A shard is missing or damaged, or has changed, see `check`.
        """
        self.check()
        for shard in self._shards:
            bring([shard])
            yield shard.batch
        self.check()

    def texts(self, rows: int = 8192) -> Iterator[str]:
        """Yield the text of each row in stored order.

        Raises:
            ShardError: The folder was built without `keep_text`, or a shard is missing or damaged.
        """
        self.check()
        if self._fits:
            self.bring()
        for shard in self._shards:
            bring([shard])
            if "text" not in shard.batch.schema.names:
                raise ShardError(
                    f"{shard.path}: the folder does not keep texts; build it with --set "
                    "encode.keep_text=true"
                )
            column = shard.batch.column("text")
            for start in range(0, len(column), rows):
                yield from column.slice(start, rows).to_pylist()
        self.check()

    def bring(self) -> None:
        """Download all remote shards missing from the cache, in parallel.

        Raises:
            FetchError: A shard is missing, unreachable, or differs from the manifest.
            ShardError: The remote folder has been rebuilt.
            ValueError: The shards do not fit into `cache_bytes`.
        """
        self.bring_shards(range(len(self._shards)))

    def bring_shards(self, numbers: Iterable[int]) -> None:
        """Download some remote shards, to read their rows in any order; see `bring`.

        Args:
            numbers: Indices of the shards.
        """
        shards = [self._shards[number] for number in numbers]
        needed = sum(shard.record.bytes for shard in shards)
        if self.cache_bytes is not None and needed > self.cache_bytes:
            raise ValueError(
                f"cache_bytes: expected at least {needed}, the bytes of the shards that are read "
                f"in any order, got {self.cache_bytes} for {self.folder}/{self.name}; pass more, "
                "or shuffle='shards' in training"
            )
        bring(shards)

    @property
    def _fits(self) -> bool:
        return self.cache_bytes is None or self.record.bytes <= self.cache_bytes

    @property
    def shard_bytes(self) -> tuple[int, ...]:
        """Size of each shard in bytes."""
        return tuple(shard.bytes for shard in self.record.shards)

    def keep(self, shards: Collection[int]) -> None:
        """Close all other shards, to free memory and cache.

        A closed shard is opened again when one of its rows is read. Shards in memory stay open.

        Args:
            shards: Indices of the shards to keep open.

        Raises:
            ShardError: A file is missing, or its digest differs from the manifest.
        """
        for number, shard in enumerate(self._shards):
            if number not in shards:
                shard.close()

    def fetches_ahead(
        self, shards: Iterable[int], wanted: Callable[[], bool]
    ) -> list[Callable[[], object]]:
        """Return download jobs for remote shards that are not open yet.

        Args:
            shards: Indices of shards.
            wanted: Returns whether the shards are still needed. Each job calls this before it
                starts its download.
        """
        return fetches_ahead((self._shards[number] for number in shards), wanted)

    def picks(self, rows: npt.NDArray[np.int64]) -> Picks:
        """Group rows by shard, and download the remote shards among these.

        Args:
            rows: int64 `[R]`, in any order.

        Raises:
            IndexError: A row is out of range.
        """
        if not len(rows):
            return []
        if rows.min() < 0 or rows.max() >= len(self):
            raise IndexError(
                f"rows: expected numbers from 0 to {len(self) - 1}, got {rows.min()} to "
                f"{rows.max()}"
            )
        if len(self._shards) == 1:
            return [(self._shards[0], slice(None), rows)]  # a slice avoids a copy

        row_shards = np.searchsorted(self._first, rows, side="right") - 1
        picks: Picks = []
        for shard in np.flatnonzero(np.bincount(row_shards)).tolist():
            places = np.flatnonzero(row_shards == shard)
            picks.append((self._shards[shard], places, rows[places] - self._first[shard]))
        bring([shard for shard, _, _ in picks])
        return picks


def splits_table(splits: Iterable[Split]) -> str:
    """Render the counts of splits as an HTML table."""
    rows = [
        (
            split.name,
            len(split),
            split.record.tokens,
            split.record.mentions,
            split.record.written,
            len(split.record.shards),
        )
        for split in splits
    ]
    head = ("split", "rows", "tokens", "mentions", "documents", "shards")
    return str(macros("parts.html").table(head, rows))


def _shard(
    folder: Path | RemoteFolder, split: str, record: ShardRecord, manifest: Manifest
) -> Shard:
    in_memory = manifest.splits[split].bytes <= IN_MEMORY
    about = record, manifest.token_ids, len(manifest.labels), in_memory
    if isinstance(folder, RemoteFolder):
        return RemoteShard(folder, f"{split}/{record.file}", *about)
    return Shard(folder / split / record.file, *about)


Picks: TypeAlias = list[tuple[Shard, slice | npt.NDArray[np.int64], npt.NDArray[np.int64]]]
"""For each shard: positions of its rows in the result, and row numbers within the shard."""
_TOKENS = ("input_ids", "word_ids", "bio")
_SPANS = ("span_starts", "span_ends", "span_labels")
_CHARACTERS = ("token_starts", "token_ends")
_OPTIONAL = (*_CHARACTERS, "sentence_starts", "doc_label")
_TYPES = {"bio": np.int16, "span_labels": np.int16}
"""Column -> dtype, default int32."""


def gather_rows(picks: Picks, size: int, ids: TokenIds, *, columns: Collection[str]) -> Examples:
    """Copy rows from shards of one or more splits.

    Args:
        picks: Rows by shard. All splits have the same tokenizer.
        size: Total number of rows.
        ids: Special ids of the tokenizer.
        columns: Optional columns to include: `token_starts`, `token_ends`, `sentence_starts`,
            `doc_label`. In a shard without `sentence_starts`, each row counts as one sentence; in a
            shard without `doc_label`, labels are -1.
    """
    keys = np.empty(size, np.uint64)
    for shard, places, local in picks:
        keys[places] = shard.flat("key")[local]

    tokens, words, bio = _gathered(picks, _TOKENS, size)
    starts, ends, labels = _gathered(picks, _SPANS, size)
    optional: dict[str, Any] = {
        name: _gathered_alone(picks, name, tokens.offsets)
        for name in _CHARACTERS
        if name in columns
    }
    if "sentence_starts" in columns:
        optional["sentence_starts"] = _sentences(picks, words)
    if "doc_label" in columns:
        optional["doc_labels"] = np.full(size, -1, np.int16)
        for shard, places, local in picks:
            if shard.has("doc_label"):
                optional["doc_labels"][places] = shard.flat("doc_label")[local]

    return Examples(
        keys=keys,
        input_ids=tokens,
        word_ids=words,
        bio=bio,
        span_starts=starts,
        span_ends=ends,
        span_labels=labels,
        ids=ids,
        **optional,
    )


def tokenizer_file(folder: Path | RemoteFolder, manifest: Manifest) -> Path:
    """Return the path of the tokenizer of a folder. A remote file is downloaded and checked.

    Raises:
        ShardError: The file is missing.
        SourceError: The remote file is unreachable, or differs from the manifest.
    """
    if isinstance(folder, RemoteFolder):
        return folder.file("tokenizer.json", sha256=manifest.tokenizer["sha256"])

    path = folder / "tokenizer.json"
    if not path.exists():
        raise ShardError(f"{path}: the tokenizer is missing; build the folder again")
    return path


def gather_lengths(picks: Picks, size: int) -> npt.NDArray[np.int64]:
    """Return the number of tokens in each row, int64 `[size]`."""
    return np.diff(_make_offsets(picks, "input_ids", size))


def _make_offsets(picks: Picks, column: str, size: int) -> npt.NDArray[np.int64]:
    """Return the offsets of a ragged column for a selection of rows, int64 `[size + 1]`."""
    lengths = np.zeros(size, np.int64)
    for shard, places, local in picks:
        offsets, _ = shard.lists(column)
        lengths[places] = offsets[local + 1] - offsets[local]
    return make_offsets(lengths)


def _gathered(picks: Picks, columns: tuple[str, str, str], size: int) -> Three:
    """Copy rows of three columns with the same offsets."""
    to = _make_offsets(picks, columns[0], size)
    first, second, third = (np.empty(to[-1], _TYPES.get(name, np.int32)) for name in columns)

    for shard, places, local in picks:
        offsets, values = shard.lists(columns[0])
        others = shard.lists(columns[1])[1], shard.lists(columns[2])[1]
        gather_alike(local, offsets, (values, *others), to[:-1][places], (first, second, third))

    return Ragged(first, to), Ragged(second, to), Ragged(third, to)


def _gathered_alone(picks: Picks, column: str, to: npt.NDArray[np.int64]) -> Ragged:
    """Copy rows of an int32 column; `to` are the offsets of the result."""
    out = np.empty(to[-1], np.int32)
    for shard, places, local in picks:
        gather(local, *shard.lists(column), to[:-1][places], out)
    return Ragged(out, to)


def _sentences(picks: Picks, words: Ragged) -> Ragged:
    """Return the sentence starts of a selection of rows; without the column, a row is a sentence.

    Args:
        picks: Rows by shard.
        words: `word_ids` of the selected rows.
    """
    column = "sentence_starts"
    known = [pick for pick in picks if pick[0].has(column)]
    lengths = np.ones(len(words), np.int64)
    is_known = np.zeros(len(words), np.bool_)
    for shard, places, local in known:
        offsets, _ = shard.lists(column)
        lengths[places] = offsets[local + 1] - offsets[local]
        is_known[places] = True

    # For shards without the column, find the first token of each row that is not special. A row has
    # one or two leading special tokens, so the loop is short.
    unknown = np.flatnonzero(~is_known)
    firsts = words.offsets[:-1][unknown]
    while np.any(words.values[firsts] < 0):
        firsts += words.values[firsts] < 0

    to = make_offsets(lengths)
    out = np.empty(to[-1], np.int32)
    out[to[:-1][unknown]] = firsts - words.offsets[:-1][unknown]
    for shard, places, local in known:
        gather(local, *shard.lists(column), to[:-1][places], out)
    return Ragged(out, to)
