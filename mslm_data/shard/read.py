"""Reads shards without copying, and checks them against the manifest.

Splits of at most 16 MiB are read into memory, larger ones are memory-mapped. Bytes of a mapped file
can change while it is open, so each pass over the rows starts and ends with `Shard.check`.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mslm_data.data.bio import MAX_LABELS, count_tags
from mslm_data.data.columns import COLUMNS, Column
from mslm_data.data.examples import Examples, TokenIds
from mslm_data.data.ragged import Array, Ragged
from mslm_data.errors import ShardError
from mslm_data.io import arrow as plain_arrow
from mslm_data.io.cache import file_state, holds
from mslm_data.shard.manifest import read_manifest
from mslm_data.shard.write import ShardRecord

_TYPES = {column.name: column.arrow_type for column in COLUMNS}
_REQUIRED = [column.name for column in COLUMNS if column.when == "always"]
_LIKE = {"token": "input_ids", "span": "span_starts", "sentence": "sentence_starts"}
"""`Column.per` -> the column whose offsets all such columns have."""


class Shard:
    """A shard, opened when a row is first read."""

    def __init__(
        self,
        path: Path,
        record: ShardRecord,
        ids: TokenIds,
        labels: int | None = MAX_LABELS,
        in_memory: bool = False,
    ) -> None:
        """Create the shard without opening its file.

        Args:
            path: File of the shard, in the folder of its split.
            record: Record of the shard in the manifest.
            ids: Special ids of the tokenizer.
            labels: Number of labels in the manifest. None skips the checks of digest, ids and
                labels, for `verify`, which has its own. Default: `MAX_LABELS`.
            in_memory: Whether to read the file into memory. Default: False, memory-map it.
        """
        self.path = path
        self.record = record
        self._ids = ids
        self._labels = labels
        self._in_memory = in_memory
        self._opened: tuple[int, ...] | None = None
        self._batch: pa.RecordBatch | None = None
        self._lists: dict[str, tuple[Array, Array]] = {}

    def __len__(self) -> int:
        return self.record.rows

    def __getstate__(self) -> tuple[Path, ShardRecord, TokenIds, int | None, bool]:
        return self.path, self.record, self._ids, self._labels, self._in_memory

    def __setstate__(self, state: tuple[Path, ShardRecord, TokenIds, int | None, bool]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    @property
    def batch(self) -> pa.RecordBatch:
        """The shard as an Arrow record batch.

        Raises:
            ShardError: The file is missing, its digest differs from the manifest, or it has numbers
                out of range.
        """
        if self._batch is None:
            batch = self._open()
            self._lists = self._checked_lists(batch)
            self._batch = batch
        return self._batch

    @property
    def is_open(self) -> bool:
        """Whether the shard is open."""
        return self._batch is not None

    def close(self) -> None:
        """Close the mapped file; the next read opens it again. Shards in memory stay open.

        Raises:
            ShardError: See `check`.
        """
        if not self._in_memory:
            self.check()
            self._forget()

    def _forget(self) -> None:
        self._batch = None
        self._lists = {}

    def check(self) -> None:
        """Reopen and check the file if it has changed since it was opened.

        Shards in memory and closed shards are skipped.

        Raises:
            ShardError: The file is missing, or its digest differs from the manifest.
        """
        if self._batch is None or self._in_memory or self._is_as_opened():
            return

        self._batch = None
        try:
            self.batch  # noqa: B018 - opens and checks
        except ShardError as error:
            raise ShardError(
                f"{error}; it has changed since it was opened, so rows read since then may be wrong"
            ) from None

    def examples(self, start: int, stop: int) -> Examples:
        """Return rows `[start, stop)` as views of the shard, with new offsets.

        The result includes `token_starts`, `token_ends`, `sentence_starts` and `doc_labels` if the
        shard has these columns, but no texts.
        """
        optional: dict[str, Any] = {
            name: self.ragged(name, start, stop)
            for name in ("token_starts", "token_ends", "sentence_starts")
            if self.has(name)
        }
        if "doc_label" in self.batch.schema.names:
            optional["doc_labels"] = self.flat("doc_label")[start:stop]
        return Examples(
            keys=self.flat("key")[start:stop],
            input_ids=self.ragged("input_ids", start, stop),
            word_ids=self.ragged("word_ids", start, stop),
            bio=self.ragged("bio", start, stop),
            span_starts=self.ragged("span_starts", start, stop),
            span_ends=self.ragged("span_ends", start, stop),
            span_labels=self.ragged("span_labels", start, stop),
            ids=self._ids,
            **optional,
        )

    def has(self, name: str) -> bool:
        """Return whether the shard has a column."""
        return name in self.batch.schema.names

    def flat(self, name: str) -> Array:
        """Return a read-only view of a column with a number per row, `[N]`."""
        return plain_arrow.numbers(self.batch.column(name))

    def ragged(self, name: str, start: int, stop: int) -> Ragged:
        """Return rows `[start, stop)` of a column of lists of numbers."""
        offsets, values = self.lists(name)
        window = offsets[start : stop + 1].astype(np.int64)
        return Ragged(values[window[0] : window[-1]], window - window[0])

    def lists(self, name: str) -> tuple[Array, Array]:
        """Return read-only views of offsets, int32 `[N + 1]`, and values of a column of lists."""
        self.batch  # noqa: B018 - opens and checks
        return self._lists[name]

    def row(self, number: int) -> dict[str, Any]:
        """Return all columns of a row as Python values."""
        return self.batch.slice(number, 1).to_pylist()[0]  # type: ignore[no-any-return]

    def _open(self) -> pa.RecordBatch:
        """Read or map the file, and check it against the manifest."""
        try:
            data = self._read_checked()
        except ShardError:
            self._check_same_build()
            raise

        # Parse the file, without decompression.
        try:
            source = pa.memory_map(str(self.path)) if data is None else pa.BufferReader(data)
            with source as file:
                batches = plain_arrow.batches(file)
            names = batches[0].schema.names if batches else []
            got = {field.name: field.type for field in batches[0].schema} if batches else {}
        except (pa.ArrowException, OSError, ValueError) as error:
            raise ShardError(
                f"{self.path}: expected an Arrow stream ({type(error).__name__}); "
                "the file is damaged"
            ) from None

        rows = sum(batch.num_rows for batch in batches)
        if len(batches) != 1 or rows != self.record.rows:
            raise ShardError(
                f"{self.path}: expected one batch of {self.record.rows} rows, "
                f"got {len(batches)} of {rows}"
            )
        if len(got) < len(names):
            raise ShardError(
                f"{self.path}: expected unique column names, got {len(names)} names for {len(got)} "
                "columns"
            )
        # Columns unknown to this version are ignored.
        for name, expected in _TYPES.items():
            if (name in got or name in _REQUIRED) and got.get(name) != expected:
                raise ShardError(
                    f"{self.path}: column {name}: expected {expected}, got {got.get(name)}"
                )
        return batches[0]

    def _read_checked(self) -> pa.Buffer | None:
        """Check the file against the manifest; return its content if it is read into memory."""
        self._check_file()
        try:
            # Taken before the first byte is read, so that `check` sees any later change.
            self._opened = file_state(self.path)
            data = self._read() if self._in_memory else None
            if self._labels is not None:
                self._check_digest(data)
        except OSError as error:
            raise ShardError(
                f"{self.path}: cannot read the shard: "
                f"{error.strerror or type(error).__name__}; check the disk, or build the folder "
                "again"
            ) from None
        return data

    def _check_file(self) -> None:
        """Check that the file exists, is within the built folder, and has the right size."""
        try:
            size = self.path.stat().st_size
            real = self.path.resolve()
            folder = self.path.parent.parent.resolve()
        except (OSError, RuntimeError):  # RuntimeError: links in a circle
            raise ShardError(f"{self.path}: the shard is missing; build the folder again") from None
        if folder not in real.parents:
            raise ShardError(
                f"{self.path}: the file is a link to a place outside the built folder; copy the "
                "folder with `cp -rL` and open the copy"
            )
        if size != self.record.bytes:
            raise ShardError(
                f"{self.path}: expected {self.record.bytes} bytes, got {size}; the file is damaged"
            )

    def _check_same_build(self) -> None:
        """Raise a clearer error if the folder was rebuilt after it was opened."""
        if self._labels is None:  # `verify` has just read the manifest
            return
        folder = self.path.parent.parent
        try:
            split = read_manifest(folder).splits.get(self.path.parent.name)
        except ShardError:
            return
        if split is None or self.record not in split.shards:
            raise ShardError(
                f"{folder}: the folder was rebuilt after it was opened; load it again"
            ) from None

    def _is_as_opened(self) -> bool:
        try:
            return file_state(self.path) == self._opened
        except OSError:
            return False

    def _read(self) -> pa.Buffer:
        with pa.OSFile(str(self.path)) as file:
            return file.read_buffer()

    def _check_digest(self, data: pa.Buffer | None) -> None:
        """Compare the SHA-256 of the file with the manifest.

        Args:
            data: Content of the file. None for a mapped file, which is hashed once per process
                unless it changes.
        """
        if data is None:
            is_good = holds(self.path, self.record.sha256)
        else:
            is_good = hashlib.sha256(data).hexdigest() == self.record.sha256
        if not is_good:
            raise ShardError(
                f"{self.path}: the checksum differs from the manifest's; the file is damaged"
            )

    def _checked_lists(self, batch: pa.RecordBatch) -> dict[str, tuple[Array, Array]]:
        """Return offsets and values of all columns of lists, after checking them."""
        lists: dict[str, tuple[Array, Array]] = {}
        for column in COLUMNS:
            if column.name not in batch.schema.names:
                continue
            array = batch.column(column.name)
            is_list = column.per != "row"
            if array.null_count or (is_list and array.values.null_count):
                raise ShardError(
                    f"{self.path}: {column.name}: the column has nulls; the file is damaged"
                )
            if is_list and not pa.types.is_string(column.type):
                like = lists.get(_LIKE[column.per])
                lists[column.name] = self._list(column, array, like)

        self._check_spans(lists)
        if "sentence_starts" in lists:
            self._check_sentences(lists)
        if self._labels is not None:
            self._check_ids(lists, self._labels)
        return lists

    def _list(
        self, column: Column, array: pa.Array, like: tuple[Array, Array] | None
    ) -> tuple[Array, Array]:
        """Return offsets and values of a column of lists, after checking the offsets.

        Args:
            column: Declaration of the column.
            array: Arrow array of the column.
            like: Column that must have the same offsets; None for the first of its kind.
        """
        offsets = plain_arrow.numbers(array.offsets)
        values = plain_arrow.numbers(array.values)
        if len(offsets) and (
            offsets[0] < 0 or np.any(offsets[1:] < offsets[:-1]) or offsets[-1] > len(values)
        ):
            raise ShardError(
                f"{self.path}: {column.name}: offsets fall or exceed the column; the file is "
                "damaged"
            )
        if like is not None and not np.array_equal(like[0], offsets):
            raise ShardError(
                f"{self.path}: {column.name}: expected as many items in each row as "
                f"{_LIKE[column.per]}; the file is damaged"
            )
        return offsets, values

    def _check_spans(self, lists: dict[str, tuple[Array, Array]]) -> None:
        """Check that mentions are not empty, and within their row."""
        # Length of the row of each mention.
        sizes = np.repeat(np.diff(lists["input_ids"][0]), np.diff(lists["span_starts"][0]))
        starts = _used(*lists["span_starts"])
        ends = _used(*lists["span_ends"])
        if np.any((starts < 0) | (starts >= ends) | (ends > sizes)):
            raise ShardError(
                f"{self.path}: a mention is empty or exceeds its row; the file is damaged"
            )

    def _check_sentences(self, lists: dict[str, tuple[Array, Array]]) -> None:
        """Check that every row has sentences, and that these start within the row."""
        offsets, values = lists["sentence_starts"]
        counts = np.diff(offsets)
        sizes = np.repeat(np.diff(lists["input_ids"][0]), counts)
        starts = _used(offsets, values)
        if np.any(counts == 0) or np.any((starts < 0) | (starts >= sizes)):
            raise ShardError(
                f"{self.path}: a row has no sentences, or one that begins outside it; the file is "
                "damaged"
            )

    def _check_ids(self, lists: dict[str, tuple[Array, Array]], labels: int) -> None:
        """Check that ids and labels are in range. Only `verify` reports the row."""
        for name, maximum in (
            ("input_ids", self._ids.size - 1),
            ("bio", count_tags(labels) - 1),
            ("span_labels", labels - 1),
        ):
            values = _used(*lists[name])
            # Negative numbers are large when read as unsigned: one comparison checks both ends.
            unsigned = values.view(f"u{values.dtype.itemsize}")
            if len(values) and unsigned.max() > maximum:
                raise ShardError(
                    f"{self.path}: {name}: expected numbers from 0 to {maximum}, got "
                    f"{values[unsigned.argmax()]}; the file is damaged"
                )
        minimum = _used(*lists["word_ids"]).min(initial=0)
        if minimum < -1:
            raise ShardError(
                f"{self.path}: word_ids: expected numbers of at least -1, got {minimum}; "
                "the file is damaged"
            )


def _used(offsets: Array, values: Array) -> Array:
    """Return the values within the offsets; Arrow allows more before and after."""
    return values[offsets[0] : offsets[-1]] if len(offsets) else values[:0]
