"""Reads the rows of one split across its shards."""

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
    """The rows of one split of a built folder.

    Attributes:
        folder: The built folder, as it was named.
        place: The same, not relative to a working directory that may change.
        name: The split's.
        manifest: The folder's.
        record: What the manifest says of the split.
        labels: The label of each index of `span_labels`.
        tags: The tag of each index of `bio`.
        doc_labels: The label of each index of `doc_labels`; empty where documents have none.
        token_ids: The tokenizer's special ids.
        protected: Whether the manifest says that these are patients' notes, not to be shown or
            shared.
        cache_bytes: Bytes that shards of a remote folder may take in the cache; None for any.
    """

    def __init__(self, folder: Path | RemoteFolder, name: str, manifest: Manifest) -> None:
        """Remember where the shards are; each is opened when a row of it is first wanted.

        Args:
            folder: The built folder.
            name: The split's.
            manifest: The folder's.
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
        self._is_remote = isinstance(folder, RemoteFolder)
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
        """Digest of the source of the rows: corpus, split and input files.

        Together with the numbers of rows and tokens it tells the rows from others. It does not
        depend on how they are divided into shards.
        """
        sources = [dict(source) for source in self.record.sources]
        origin = canonical_json([self.manifest.name, self.name, sources])
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
            IndexError: No such row.
            TypeError: Not a row's number, such as a slice.
        """
        number = resolve_row(row, len(self))
        shard = int(np.searchsorted(self._first, number, side="right")) - 1
        self._bring([self._shards[shard]])
        return self._shards[shard].row(number - int(self._first[shard]))

    @property
    def tokenizer(self) -> Path:
        """Path of the tokenizer; for a remote folder it is downloaded and checked first.

        Raises:
            ShardError: There is none.
            SourceError: The file is out of reach, or not the one that the manifest names.
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
        """Return the rows of some documents, as a view that replaces a split anywhere.

        Subsets of one seed are nested: the first ten documents are among the first fifty, and the
        documents of 5 shots among those of 10. They depend on the seed, the ids of the documents
        and their labels alone. Rows keep their keys, and so their masks.

        Args:
            documents: Number of documents, at least 1 and at most those of the split. The first
                document of each label comes before all others, so that small subsets have every
                label where possible.
            share: Share of the documents in (0, 1], rounded up, in place of their number.
            shots: Number of mentions of each label, at least 1: for each label, documents are taken
                until they hold that many. The subset may hold more mentions of a label, as
                documents stay whole; it holds fewer where the split does.
            seed: Draws the documents, in `[0, 2**63)`.

        Raises:
            TypeError: Not exactly one of `documents`, `share` and `shots`.
            ValueError: A number out of range.
            ShardError: A shard is missing or damaged.
        """
        return draw_subset(self, documents=documents, share=share, shots=shots, seed=seed)

    def check(self) -> None:
        """Reopen and check shards whose files changed since they were opened.

        It costs a look at each file's size and times; shards in memory need none. Each pass of
        `md.Batches` and of a loader begins and ends with it.

        Raises:
            ShardError: A file is missing by now, or holds other bytes than the manifest says.
        """
        for shard in self._shards:
            shard.check()

    def examples(self, start: int = 0, stop: int | None = None) -> Examples:
        """Return rows `[start, stop)`; views if they are in one shard.

        Raises:
            IndexError: Not `0 <= start <= stop <= len(self)`.
            ShardError: A shard is missing or damaged.
        """
        stop = resolve_stop(start, stop, len(self))
        picks = [
            (shard, first)
            for shard, first in zip(self._shards, self._first.tolist(), strict=False)
            if first < stop and start < first + len(shard)
        ]
        self._bring([shard for shard, _ in picks])
        parts = [
            shard.examples(max(start - first, 0), min(stop - first, len(shard)))
            for shard, first in picks
        ]
        if not parts:
            return self.take(np.empty(0, np.int64))
        return parts[0] if len(parts) == 1 else concatenate(parts)

    def take(self, rows: Sequence[int] | npt.NDArray[np.int64]) -> Examples:
        """Copy rows in any order.

        Tokens' characters, sentences and labels of documents come along where the shards have them.

        Args:
            rows: `[R]`, each in `[0, len(self))`.

        Raises:
            IndexError: A row that is not there.
            ShardError: A shard is missing or damaged.
            TypeError: Something else than whole numbers.
        """
        picks = self.picks(whole_numbers(rows))
        shards = [shard for shard, _, _ in picks]
        columns = {name for name in _OPTIONAL if picks and all(shard.has(name) for shard in shards)}

        return gather_rows(picks, len(rows), self.token_ids, columns=columns)

    def lengths(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the number of tokens of each given row, `[R]`; see `take`."""
        return gather_lengths(self.picks(rows), len(rows))

    def chunks(
        self,
        rows: int = CHUNK,
        *,
        seed: int = 0,  # noqa: ARG002
        epoch: int = 0,  # noqa: ARG002
    ) -> Iterator[Examples]:
        """Yield all rows in stored order, in chunks of at most `rows` rows.

        Args:
            rows: Maximum number of rows in a chunk.
            seed: Ignored, as every epoch has the same rows; a mix has others in each.
            epoch: Ignored too.

        Raises:
            ValueError: `rows` is below 1, or not a whole number.
            ShardError: A shard is missing or damaged, or has changed meanwhile; see `check`.
        """
        check_chunk(rows)
        self.check()
        if self._fits:
            self.bring()
        for start in range(0, len(self), rows):
            yield self.examples(start, min(start + rows, len(self)))
        self.check()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield each shard as one record batch with all columns.

        Shards of a remote folder are fetched one at a time.

        Raises:
            ShardError: A shard is missing or damaged, or has changed meanwhile; see `check`.
        """
        self.check()
        for shard in self._shards:
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
            self._bring([shard])
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
        """Download all shards of a remote folder that are not cached, in parallel.

        For readers of all rows: they wait for the network once, not once a shard.

        Raises:
            FetchError: A shard is missing, out of reach, or not what the manifest says.
            ShardError: The folder there is another by now.
            ValueError: They take more than `cache_bytes`.
        """
        if not self._fits:
            raise ValueError(
                f"cache_bytes: expected at least the {self.record.bytes} bytes of split "
                f"'{self.name}' to read its rows in any order, got {self.cache_bytes}; pass more, "
                "or shuffle='shards'"
            )
        self._bring(self._shards)

    @property
    def _fits(self) -> bool:
        return self.cache_bytes is None or self.record.bytes <= self.cache_bytes

    @property
    def shard_bytes(self) -> tuple[int, ...]:
        """Size of each shard's file in bytes."""
        return tuple(shard.bytes for shard in self.record.shards)

    def keep(self, shards: Collection[int]) -> None:
        """Close all other shards, which frees their memory and cache.

        Rows of a closed shard can be asked for as before. Shards in memory stay.

        Raises:
            ShardError: A file is missing by now, or holds other bytes than the manifest says.
        """
        for number, shard in enumerate(self._shards):
            if number not in shards:
                shard.close()

    def fetches_ahead(
        self, shards: Iterable[int], wanted: Callable[[], bool]
    ) -> list[Callable[[], object]]:
        """Return functions that download shards that are remote and not open.

        Args:
            shards: Their numbers.
            wanted: Whether they are still to be read; it is asked when each is about to be fetched.
        """
        return fetches_ahead((self._shards[number] for number in shards), wanted)

    def _bring(self, shards: Sequence[Shard]) -> None:
        if self._is_remote:
            bring(shards)

    def picks(self, rows: npt.NDArray[np.int64]) -> Picks:
        """Group rows by shard; remote shards are downloaded first.

        Raises:
            IndexError: A row that is not there.
        """
        if not len(rows):
            return []
        if rows.min() < 0 or rows.max() >= len(self):
            raise IndexError(
                f"rows: expected numbers from 0 to {len(self) - 1}, got {rows.min()} to "
                f"{rows.max()}"
            )
        if len(self._shards) == 1:
            return [(self._shards[0], slice(None), rows)]

        row_shards = np.searchsorted(self._first, rows, side="right") - 1
        picks: Picks = []
        for shard in np.flatnonzero(np.bincount(row_shards)).tolist():
            places = np.flatnonzero(row_shards == shard)
            picks.append((self._shards[shard], places, rows[places] - self._first[shard]))
        self._bring([shard for shard, _, _ in picks])
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
"""Shards with the places that their rows take, and these rows within the shard."""
_TOKENS = ("input_ids", "word_ids", "bio")
_SPANS = ("span_starts", "span_ends", "span_labels")
_CHARACTERS = ("token_starts", "token_ends")
_OPTIONAL = (*_CHARACTERS, "sentence_starts", "doc_label")
_TYPES = {"bio": np.int16, "span_labels": np.int16}
"""Types of the columns that are not int32."""


def gather_rows(picks: Picks, size: int, ids: TokenIds, *, columns: Collection[str]) -> Examples:
    """Copy rows of one or more splits together.

    Args:
        picks: Of one or more splits of one tokenizer.
        size: Number of rows.
        ids: The tokenizer's special ids.
        columns: Which of `token_starts`, `token_ends`, `sentence_starts` and `doc_label` come
            along. Where a shard lacks the third, a row is one sentence; where it lacks the fourth,
            labels of documents are -1.
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
    """Return the path of a folder's tokenizer, downloaded and checked if the folder is remote.

    Raises:
        ShardError: There is none.
        SourceError: The file is out of reach, or not the one that the manifest names.
    """
    if isinstance(folder, RemoteFolder):
        return folder.file("tokenizer.json", sha256=manifest.tokenizer["sha256"])

    path = folder / "tokenizer.json"
    if not path.exists():
        raise ShardError(f"{path}: the tokenizer is missing; build the folder again")
    return path


def gather_lengths(picks: Picks, size: int) -> npt.NDArray[np.int64]:
    """Return the number of tokens of the given rows, `[size]`."""
    return np.diff(_make_offsets(picks, "input_ids", size))


def _make_offsets(picks: Picks, column: str, size: int) -> npt.NDArray[np.int64]:
    """Return the offsets `[size + 1]` of a ragged column for the given rows."""
    lengths = np.zeros(size, np.int64)
    for shard, places, local in picks:
        offsets, _ = shard.lists(column)
        lengths[places] = offsets[local + 1] - offsets[local]
    return make_offsets(lengths)


def _gathered(picks: Picks, columns: tuple[str, str, str], size: int) -> Three:
    """Copy the given rows of three columns that share offsets."""
    to = _make_offsets(picks, columns[0], size)
    first, second, third = (np.empty(to[-1], _TYPES.get(name, np.int32)) for name in columns)

    for shard, places, local in picks:
        offsets, values = shard.lists(columns[0])
        others = shard.lists(columns[1])[1], shard.lists(columns[2])[1]
        gather_alike(local, offsets, (values, *others), to[:-1][places], (first, second, third))

    return Ragged(first, to), Ragged(second, to), Ragged(third, to)


def _gathered_alone(picks: Picks, column: str, to: npt.NDArray[np.int64]) -> Ragged:
    """Copy the given rows of an int32 column."""
    out = np.empty(to[-1], np.int32)
    for shard, places, local in picks:
        gather(local, *shard.lists(column), to[:-1][places], out)
    return Ragged(out, to)


def _sentences(picks: Picks, words: Ragged) -> Ragged:
    """Return the sentence starts of the given rows; without the column a row is one sentence."""
    column = "sentence_starts"
    known = [pick for pick in picks if pick[0].has(column)]
    lengths = np.ones(len(words), np.int64)
    is_known = np.zeros(len(words), np.bool_)
    for shard, places, local in known:
        offsets, _ = shard.lists(column)
        lengths[places] = offsets[local + 1] - offsets[local]
        is_known[places] = True

    # A sentence begins at its first token that is not special.
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
