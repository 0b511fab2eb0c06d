"""Reads rows of built folders: `Rows`, and `Split`, the rows of one folder."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mslm_data.data.examples import (
    Examples,
    TokenIds,
    concatenate,
    gather_examples,
)
from mslm_data.data.ragged import make_offsets
from mslm_data.data.term_share import term_shares
from mslm_data.draw import macros, notebook_html
from mslm_data.errors import ShardError
from mslm_data.io.arrow import IN_MEMORY
from mslm_data.io.files import canonical_json
from mslm_data.registry import did_you_mean
from mslm_data.shard.html import draw_rows
from mslm_data.shard.manifest import Manifest, SplitRecord
from mslm_data.shard.read import Shard
from mslm_data.shard.remote import RemoteFolder, RemoteShard, bring
from mslm_data.shard.row_numbers import (
    RowNumbers,
    check_rows,
    is_integer,
    resolve_row,
    resolve_stop,
)
from mslm_data.shard.subset import begins_document, draw_subset, hash_documents

Picks: TypeAlias = list[tuple[Shard, slice | RowNumbers, RowNumbers]]
"""For each shard: places of its rows in the request, and row numbers within the shard."""

CHUNK = 8192
"""Default number of rows in a chunk."""


class Rows(ABC):
    """Base class of `Split` and `Mix`, the inputs of training and statistics.

    Batches, datasets, statistics and drawings use only these attributes and methods, so each works
    with both.

    Attributes:
        labels: Label names, indexed by `span_labels`.
        tags: Tag names, indexed by `bio`.
        doc_labels: Document label names, indexed by `doc_labels`; empty without document labels.
        token_ids: Special ids of the tokenizer.
        protected: Whether some rows are patients' text, which must not be shown or shared.
        place: Folder with lexicons and score columns in `vocab/`; None for rows of several folders.
    """

    labels: tuple[str, ...]
    tags: tuple[str, ...]
    doc_labels: tuple[str, ...]
    token_ids: TokenIds
    protected: bool
    place: Path | RemoteFolder | None

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows per epoch."""

    @property
    @abstractmethod
    def splits(self) -> tuple[SplitShare, ...]:
        """Splits of the rows, with their shares of an epoch."""

    @property
    @abstractmethod
    def tokens(self) -> int:
        """Number of tokens per epoch, including special tokens; approximate for a mix."""

    @property
    @abstractmethod
    def digest(self) -> str | None:
        """Digest of the rows; None for a mix, whose row order has a digest."""

    @property
    def stored(self) -> int:
        """Number of rows to choose from: row numbers are below it. An epoch may take fewer."""
        return len(self)

    @abstractmethod
    def shards(self, rows: Sequence[int] | RowNumbers) -> list[Shard]:
        """Return the shards of some rows, without downloading them; see `picks`."""

    @abstractmethod
    def picks(self, rows: Sequence[int] | RowNumbers) -> Picks:
        """Group rows by shard, and download the remote shards among these.

        Args:
            rows: `[R]` in `[0, stored)`, in any order.

        Raises:
            IndexError: A row is out of range.
            TypeError: `rows` are not integers.
        """

    @abstractmethod
    def take(self, rows: Sequence[int] | RowNumbers) -> Examples:
        """Return a copy of a selection of rows; see `picks`.

        Raises:
            IndexError: A row is out of range.
            ShardError: A shard is missing or damaged.
            TypeError: `rows` are not integers.
        """

    def lengths(self, rows: Sequence[int] | RowNumbers) -> RowNumbers:
        """Return the number of tokens in each of the rows, int64 `[R]`; see `picks`."""
        return self._count_items("input_ids", rows)

    def _count_items(self, column: str, rows: Sequence[int] | RowNumbers) -> RowNumbers:
        """Return the number of items of a ragged column in each of the rows, int64 `[R]`."""
        counts = np.zeros(len(rows), np.int64)
        for shard, places, local in self.picks(rows):
            offsets = getattr(shard.columns(), column).offsets
            counts[places] = offsets[local + 1] - offsets[local]
        return counts

    def examples(
        self,
        start: int = 0,
        stop: int | None = None,
        *,
        seed: int = 0,  # noqa: ARG002 - unlike a mix, a split has the same rows in every epoch
        epoch: int = 0,  # noqa: ARG002
    ) -> Examples:
        """Return rows `[start, stop)` of an epoch; all epochs of a split have the same rows.

        Args:
            start: First row. Default: 0.
            stop: Row after the last. Default: None, the number of rows.
            seed: Seed in `[0, 2**63)`. Default: 0.
            epoch: Epoch in `[0, 2**63)`. Default: 0.

        Raises:
            IndexError: The range is not within `[0, len(self)]`.
            ShardError: A shard is missing or damaged.
        """
        return self.take(np.arange(start, resolve_stop(start, stop, len(self))))

    def chunks(
        self, rows: int = CHUNK, *, seed: int = 0, epoch: int = 0, part: int | None = None
    ) -> Iterator[Examples]:
        """Yield the rows of an epoch, split by split, in chunks.

        Args:
            rows: Maximum number of rows in a chunk. Default: 8192.
            seed: Seed in `[0, 2**63)`. Default: 0.
            epoch: Epoch in `[0, 2**63)`. Default: 0.
            part: Index into `splits`, to yield the rows of one split only. Default: None, all.

        Raises:
            ValueError: `rows` is not an integer of at least 1.
            ShardError: A shard is missing or damaged.
        """
        if not is_integer(rows) or rows < 1:
            raise ValueError(f"rows: expected a whole number of at least 1, got {rows!r}")
        bounds = make_offsets(np.array([share.rows for share in self.splits], np.int64)).tolist()
        start, stop = (0, len(self)) if part is None else bounds[part : part + 2]

        for share in self.splits:
            share.source.bring()
        for first in range(start, stop, rows):
            yield self.examples(first, min(first + rows, stop), seed=seed, epoch=epoch)


class Split(Rows):
    """The rows of a split of a built folder: all of them, or a selection.

    `md.load(folder)["train"]` returns all rows, `subset` and `select` return some of them. A row
    keeps its key in a selection, and therefore its masks. Shards are opened, and downloaded if
    remote, when one of their rows is first read.

    Attributes:
        folder: Built folder, as passed by the caller.
        place: Absolute path of the folder, or the remote folder.
        name: Name of the split.
        manifest: Manifest of the folder.
        record: Counts and shards of the whole split in the manifest.
        numbers: int64 `[R]`, increasing numbers of the selected rows in the split; None for all.
        shard_rows: Number of rows in each shard, of the selected ones if some are selected.
        labels: Label names, indexed by `span_labels`.
        tags: Tag names, indexed by `bio`.
        doc_labels: Document label names, indexed by `doc_labels`; empty without document labels.
        token_ids: Special ids of the tokenizer.
        protected: Whether the rows are patients' text, which must not be shown or shared.
    """

    def __init__(
        self,
        folder: Path | RemoteFolder,
        name: str,
        manifest: Manifest,
        *,
        shards: Sequence[Shard] | None = None,
        numbers: RowNumbers | None = None,
    ) -> None:
        """Create the split without reading shards.

        Args:
            folder: Built folder.
            name: Name of the split.
            manifest: Manifest of the folder.
            shards: Its shards, to share those of another `Split`. Default: None, new ones.
            numbers: int64 `[R]`, increasing numbers of selected rows. Default: None, all rows.
        """
        self.folder = folder
        self.place: Path | RemoteFolder = (
            folder if isinstance(folder, RemoteFolder) else folder.absolute()
        )
        self.name = name
        self.manifest = manifest
        self.record: SplitRecord = manifest.splits[name]
        self.numbers = numbers
        self.labels = manifest.labels
        self.tags = manifest.tags
        self.doc_labels = manifest.doc_labels or ()
        self.token_ids = manifest.token_ids
        self.protected = manifest.protected
        self._columns = manifest.optional_columns

        self._shards = _make_shards(self.place, name, manifest) if shards is None else shards
        rows = np.array([shard.rows for shard in self.record.shards], np.int64)
        self._firsts = make_offsets(rows)
        """int64 `[S + 1]`, number of the first row of each shard, and of all rows."""
        if numbers is not None:
            rows = np.diff(np.searchsorted(numbers, self._firsts))
        self.shard_rows: tuple[int, ...] = tuple(rows.tolist())

    def __len__(self) -> int:
        return int(self._firsts[-1]) if self.numbers is None else len(self.numbers)

    @property
    def splits(self) -> tuple[SplitShare]:
        """The split itself, each row once per epoch."""
        return (SplitShare(source=self, share=1.0, rows=len(self)),)

    @cached_property
    def tokens(self) -> int:
        """Number of tokens, special tokens included."""
        if self.numbers is None:
            return self.record.tokens
        return int(self.lengths(np.arange(len(self))).sum())

    @cached_property
    def mentions(self) -> int:
        """Number of mentions."""
        if self.numbers is None:
            return self.record.mentions
        return int(self._count_items("span_starts", np.arange(len(self))).sum())

    @cached_property
    def documents(self) -> int:
        """Number of documents with rows."""
        if self.numbers is None:
            return self.record.written
        return sum(int(begins_document(batch).sum()) for batch in self.batches(["doc_id"]))

    @cached_property
    def digest(self) -> str:
        """Digest of corpus name, split name, input files, and the documents and rows selected.

        Together with the number of rows and tokens, it identifies the rows. It does not depend on
        the shard size.
        """
        sources = [dict(source) for source in self.record.sources]
        drawn = [draw["rows"] for draw in self.manifest.draws if draw["split"] == self.name]
        digest = _digest(canonical_json([self.manifest.name, self.name, sources, *drawn]))
        if self.numbers is None:
            return digest
        return _digest(canonical_json([digest, hashlib.sha256(self.numbers.tobytes()).hexdigest()]))

    def __repr__(self) -> str:
        of_all = "" if self.numbers is None else f" of {self.record.sequences:,}"

        return (
            f"Split({self.name!r}: {len(self):,}{of_all} rows, {self.tokens:,} tokens, "
            f"{self.mentions:,} mentions)"
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
        if self.numbers is not None:
            number = int(self.numbers[number])
        shard = int(np.searchsorted(self._firsts, number, side="right")) - 1
        return self._shards[shard].row(number - int(self._firsts[shard]))

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
    ) -> Split:
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
        return self.select(
            draw_subset(self, documents=documents, share=share, shots=shots, seed=seed)
        )

    def term_shares(self, label: str | None = None) -> npt.NDArray[np.float64]:
        """Return the term share of each row's document, float64 `[N]` in `[0, 1]`.

        It is the share of the document's tokens that are in mentions, without special tokens. All
        rows are read. Choose documents by it, for example those of at least 5 %::

            dense = split.select(np.flatnonzero(split.term_shares() >= 0.05))

        Args:
            label: The label whose mentions count. Default: all mentions count.

        Raises:
            ValueError: The label is unknown.
            ShardError: A shard is missing or damaged.
        """
        if label is not None and label not in self.labels:
            raise ValueError(f"label: no '{label}'{did_you_mean(label, self.labels)}")
        number = None if label is None else self.labels.index(label)
        _, documents = hash_documents(self)
        return term_shares(self.chunks(), documents, label=number)[documents]

    def select(self, numbers: Sequence[int] | RowNumbers) -> Split:
        """Return some of the rows, as a view usable like a split, without copying them.

        Args:
            numbers: `[R]` in `[0, len(self))`, increasing.

        Raises:
            IndexError: A number is out of range.
            TypeError: `numbers` are not integers.
            ValueError: The numbers do not increase.
        """
        rows = check_rows(numbers, len(self))
        if np.any(np.diff(rows) <= 0):
            raise ValueError("numbers: expected increasing row numbers, each once")

        selected = rows if self.numbers is None else self.numbers[rows]
        return Split(self.folder, self.name, self.manifest, shards=self._shards, numbers=selected)

    def picks(self, rows: Sequence[int] | RowNumbers) -> Picks:
        """Group rows by shard, and download the remote shards among these; see `Rows.picks`."""
        numbers = check_rows(rows, len(self))
        if not len(numbers):
            return []
        if self.numbers is not None:
            numbers = self.numbers[numbers]
        if len(self._shards) == 1:
            return [(self._shards[0], slice(None), numbers)]  # a slice avoids a copy

        row_shards = np.searchsorted(self._firsts, numbers, side="right") - 1
        picks: Picks = []
        for shard in np.flatnonzero(np.bincount(row_shards)).tolist():
            places = np.flatnonzero(row_shards == shard)
            picks.append((self._shards[shard], places, numbers[places] - self._firsts[shard]))
        bring([shard for shard, _, _ in picks])
        return picks

    def shards(self, rows: Sequence[int] | RowNumbers) -> list[Shard]:
        """Return the shards of some rows; see `Rows.shards`."""
        numbers = check_rows(rows, len(self))
        if self.numbers is not None:
            numbers = self.numbers[numbers]
        row_shards = np.searchsorted(self._firsts, numbers, side="right") - 1
        return [self._shards[shard] for shard in np.unique(row_shards).tolist()]

    def take(self, rows: Sequence[int] | RowNumbers) -> Examples:
        """Return a copy of a selection of rows; see `Rows.take`.

        The result includes `token_starts`, `token_ends`, `sentence_starts` and `doc_labels` if the
        shards have these columns.
        """
        parts = [(shard.columns(), places, local) for shard, places, local in self.picks(rows)]
        return gather_examples(parts, len(rows), self.token_ids, columns=self._columns)

    def examples(
        self, start: int = 0, stop: int | None = None, *, seed: int = 0, epoch: int = 0
    ) -> Examples:
        """Return rows `[start, stop)`, as views if they are consecutive rows of one shard.

        See `Rows.examples`.
        """
        stop = resolve_stop(start, stop, len(self))
        if self.numbers is not None or start == stop:
            return super().examples(start, stop, seed=seed, epoch=epoch)

        first, last = np.searchsorted(self._firsts, (start, stop - 1), side="right") - 1
        shards = self._shards[first : last + 1]
        bring(shards)
        firsts = self._firsts[first : last + 1].tolist()
        parts = [
            shard.columns().slice(max(start - begin, 0), min(stop - begin, len(shard)))
            for shard, begin in zip(shards, firsts, strict=True)
        ]
        return parts[0] if len(parts) == 1 else concatenate(parts)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow record batches, one per shard, without shards of no selected row.

        Args:
            columns: Names of columns. Default: None, all.

        Raises:
            FetchError: A remote shard is missing, unreachable, or differs from the manifest.
            ShardError: A shard is missing or damaged.
        """
        for number, shard in enumerate(self._shards):
            rows = None
            if self.numbers is not None:
                first, past = self._firsts[number : number + 2]
                begin, end = np.searchsorted(self.numbers, [first, past])
                rows = pa.array(self.numbers[begin:end] - first)
                if not len(rows):
                    continue

            batch = shard.batch if columns is None else shard.batch.select(columns)
            yield batch if rows is None else batch.take(rows)

    def texts(self) -> Iterator[str]:
        """Return an iterator over the text of each row in stored order.

        Raises:
            ShardError: The folder was built without `keep_text`, or a shard is missing or damaged.
        """
        if not self.manifest.keeps_text:
            raise ShardError(
                f"{self.folder}: the folder does not keep texts; build it with --set "
                "encode.keep_text=true"
            )
        return self.values("text")

    def values(self, column: str) -> Iterator[Any]:
        """Yield the value of a column in each row, in stored order.

        Raises:
            ShardError: A shard is missing or damaged.
        """
        for batch in self.batches([column]):
            for start in range(0, batch.num_rows, CHUNK):
                yield from batch.column(0).slice(start, CHUNK).to_pylist()

    def bring(self) -> None:
        """Download the remote shards with these rows missing from the cache, in parallel.

        Raises:
            FetchError: A shard is missing, unreachable, or differs from the manifest.
        """
        bring([self._shards[number] for number in np.flatnonzero(self.shard_rows).tolist()])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SplitShare:
    """A split, or a selection of its rows, and its share of an epoch.

    A row::

        name            share   rows  times
        shards/a/train   0.25  2,000    0.5

    The split has 4,000 rows. An epoch takes 2,000 of them, which are a quarter of the epoch.

    Attributes:
        source: The split, or a selection of its rows.
        share: Requested share of the tokens or rows of an epoch, in `(0, 1]`.
        rows: Number of rows per epoch, at least 1 in a mix.
    """

    source: Split
    share: float
    rows: int

    @property
    def name(self) -> str:
        """Folder and name of the split, with the number of documents of a selection."""
        name = f"{self.source.folder}/{self.source.name}"
        return (
            name if self.source.numbers is None else f"{name} ({self.source.documents:,} documents)"
        )

    @property
    def tokens(self) -> int:
        """Approximate number of tokens per epoch: rows times mean length."""
        return self.rows * self.source.tokens // len(self.source)

    @property
    def times(self) -> float:
        """Mean number of times that each row occurs in an epoch."""
        return self.rows / len(self.source)

    @property
    def digest(self) -> str:
        """Digest of the shards of the whole split."""
        return _digest("".join(shard.sha256 for shard in self.source.record.shards).encode())

    @property
    def described(self) -> list[Any]:
        """Corpus, split, digest and rows, for JSON. Without path, since folders may be moved."""
        digest = self.digest if self.source.numbers is None else self.source.digest
        return [self.source.manifest.name, self.source.name, digest, self.rows]


def tokenizer_file(folder: Path | RemoteFolder, manifest: Manifest) -> Path:
    """Return the path of the tokenizer of a folder. A remote file is downloaded and checked.

    Raises:
        ShardError: The file is missing.
        SourceError: The remote file is unreachable, or differs from the manifest.
    """
    if isinstance(folder, RemoteFolder):
        return folder.file("tokenizer.json", sha256=manifest.tokenizer.sha256)

    path = folder / "tokenizer.json"
    if not path.exists():
        raise ShardError(f"{path}: the tokenizer is missing; build the folder again")
    return path


def splits_table(splits: Iterable[Split]) -> str:
    """Render the counts of splits as an HTML table."""
    rows = [
        (
            split.name,
            len(split),
            split.tokens,
            split.mentions,
            split.documents,
            np.count_nonzero(split.shard_rows),
        )
        for split in splits
    ]
    head = ("split", "rows", "tokens", "mentions", "documents", "shards")
    return str(macros("parts.html").table(head, rows))


def _make_shards(folder: Path | RemoteFolder, split: str, manifest: Manifest) -> list[Shard]:
    record = manifest.splits[split]
    in_memory = record.bytes <= IN_MEMORY
    if isinstance(folder, RemoteFolder):
        return [
            RemoteShard(folder, f"{split}/{shard.file}", shard, manifest, in_memory)
            for shard in record.shards
        ]
    return [
        Shard(folder / split / shard.file, shard, manifest, in_memory) for shard in record.shards
    ]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
