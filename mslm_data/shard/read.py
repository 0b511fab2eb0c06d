"""Reads shards without copying, and checks them against the manifest.

Splits of at most 16 MiB are read into memory, larger ones are memory-mapped.

These stay mapped, because processes share mapped pages.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mslm_data.data.columns import COLUMNS
from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged
from mslm_data.errors import ShardError
from mslm_data.io import arrow as plain_arrow
from mslm_data.io.cache import holds
from mslm_data.shard.laws import broken, range_laws
from mslm_data.shard.manifest import Manifest
from mslm_data.shard.write import ShardRecord

_LIKE = {"token": "input_ids", "span": "span_starts", "sentence": "sentence_starts"}
"""`Column.per` -> the column whose offsets all such columns have."""


class Shard:
    """A shard, opened when a row is first read.

    Attributes:
        record: Record of the shard in the manifest.
        manifest: Manifest of the folder.
    """

    def __init__(
        self, path: Path, record: ShardRecord, manifest: Manifest, in_memory: bool = False
    ) -> None:
        """Create the shard without opening its file.

        Args:
            path: File of the shard.
            record: Record of the shard in the manifest.
            manifest: Manifest of the folder.
            in_memory: Whether to read the file into memory. Default: False, memory-map it.
        """
        self._path = path
        self.record = record
        self.manifest = manifest
        self._in_memory = in_memory
        self._batch: pa.RecordBatch | None = None
        self._columns: Examples | None = None

    @property
    def path(self) -> Path:
        """The file of the shard."""
        return self._path

    def __len__(self) -> int:
        return self.record.rows

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the shard without its rows."""
        return self.__dict__ | {"_batch": None, "_columns": None}

    @property
    def is_open(self) -> bool:
        """Whether the shard is open."""
        return self._batch is not None

    @property
    def batch(self) -> pa.RecordBatch:
        """All columns of the shard as an Arrow record batch; see `columns`."""
        self.columns()
        return self._batch

    def columns(self) -> Examples:
        """Return the columns needed for masking, as views; their offsets are int32 as stored.

        Raises:
            ShardError: The file is missing, its digest differs from the manifest, or it has numbers
                out of range.
        """
        if self._columns is None:
            batch = self._parse(self._read())
            columns = self._view(batch)
            labels, doc_labels = self.manifest.labels, self.manifest.doc_labels or ()
            laws = range_laws(columns.slice(0, len(self)), len(labels), len(doc_labels))
            for what in broken(laws):
                raise self._damaged(what)

            self._batch = batch
            self._columns = columns
        return self._columns

    def row(self, number: int) -> dict[str, Any]:
        """Return all columns of a row as Python values."""
        return self.batch.slice(number, 1).to_pylist()[0]  # type: ignore[no-any-return]

    def _read(self) -> pa.Buffer | None:
        """Check size and digest of the file; return its content if it is read into memory."""
        try:
            size = self.path.stat().st_size
        except OSError:
            raise ShardError(f"{self.path}: the shard is missing; build the folder again") from None
        if size != self.record.bytes:
            raise self._damaged(f"expected {self.record.bytes} bytes, got {size}")

        data = None
        try:
            if self._in_memory:
                with pa.OSFile(str(self.path)) as file:
                    data = file.read_buffer()
                is_good = hashlib.sha256(data).hexdigest() == self.record.sha256
            else:
                is_good = holds(self.path, self.record.sha256)
        except OSError as error:
            raise ShardError(
                f"{self.path}: cannot read the shard: "
                f"{error.strerror or type(error).__name__}; check the disk, or build the folder "
                "again"
            ) from None
        if not is_good:
            raise self._damaged("the checksum differs from the manifest's")
        return data

    def _parse(self, data: pa.Buffer | None) -> pa.RecordBatch:
        """Return the batch of the file, with the columns of the manifest, without nulls.

        Args:
            data: Content of the file; None to memory-map it.
        """
        try:
            source = pa.memory_map(str(self.path)) if data is None else pa.BufferReader(data)
            with source as file:
                batches = plain_arrow.batches(file)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._damaged(f"expected an Arrow stream ({type(error).__name__})") from None

        rows = sum(batch.num_rows for batch in batches)
        if len(batches) != 1 or rows != self.record.rows:
            raise self._damaged(
                f"expected one batch of {self.record.rows} rows, got {len(batches)} of {rows}"
            )

        # Columns unknown to this version are ignored.
        (batch,) = batches
        for field in self.manifest.schema:
            places = batch.schema.get_all_field_indices(field.name)
            types = [batch.schema.field(place).type for place in places]
            if types != [field.type]:
                got = ", ".join(map(str, types)) or "none"
                raise self._damaged(f"column {field.name}: expected {field.type}, got {got}")
        return batch

    def _view(self, batch: pa.RecordBatch) -> Examples:
        """Return the columns needed for masking, after checking nulls and offsets."""
        fields: dict[str, Any] = {}
        names = self.manifest.schema.names
        for column in COLUMNS:
            if column.name not in names:
                continue
            array = batch.column(column.name)
            is_list = column.per != "row"
            if array.null_count or (is_list and array.values.null_count):
                raise self._damaged(f"{column.name}: the column has nulls")
            if pa.types.is_string(column.type):
                continue
            if not is_list:
                fields[column.field] = plain_arrow.numbers(array)
                continue

            values, offsets = map(plain_arrow.numbers, (array.values, array.offsets))
            falls = np.any(offsets[1:] < offsets[:-1])
            if len(offsets) and (offsets[0] < 0 or falls or offsets[-1] > len(values)):
                raise self._damaged(f"{column.name}: offsets fall or exceed the column")
            like = fields.get(_LIKE[column.per])
            if like is not None and not np.array_equal(like.offsets, offsets):
                raise self._damaged(
                    f"{column.name}: expected as many items in each row as {_LIKE[column.per]}"
                )
            fields[column.field] = Ragged(values, offsets)

        # Masking needs neither scores nor contexts.
        for name in ("span_scores", "span_contexts"):
            fields.pop(name, None)
        return Examples(ids=self.manifest.token_ids, **fields)

    def _damaged(self, what: str) -> ShardError:
        return ShardError(f"{self.path}: {what}; the file is damaged")
