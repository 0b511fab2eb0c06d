"""Writes `Examples` as a shard."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec
import numpy as np
import pyarrow as pa

from mslm_data.data.columns import COLUMNS
from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged, make_offsets
from mslm_data.errors import ShardError
from mslm_data.io.files import writing_whole

_MAGIC = b"ARROW1\0\0"
_PIECE = 256 << 10
"""Bytes that are digested and written at once."""
_FIELDS = {"key": "keys", "doc_id": "doc_ids", "doc_label": "doc_labels", "text": "texts"}
"""Column -> field of `Examples`, where their names differ."""
Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
"""A number of things in a manifest: small enough to be added up, and to be an index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRecord:
    """A shard, as listed in the manifest."""

    file: str
    rows: Count
    tokens: Count
    mentions: Count
    bytes: Count
    sha256: str


def write_shard(
    path: Path, examples: Examples, schema: pa.Schema, *, durable: bool = True
) -> ShardRecord:
    """Write a shard. Equal examples and schema give equal bytes.

    Args:
        path: Written whole or not at all.
        examples: With what every column of the schema needs.
        schema: From `columns.schema`.
        durable: As of `files.writing_whole`.

    Raises:
        ShardError: More tokens than 32-bit offsets can count.
    """
    return write_batch(path, record_batch(examples, schema), durable=durable)


def record_batch(examples: Examples, schema: pa.Schema) -> pa.RecordBatch:
    """Convert examples to Arrow columns without copying tokens.

    Raises:
        ShardError: More tokens than 32-bit offsets can count.
    """
    check_token_count(len(examples.input_ids.values))
    arrays = []
    for column in COLUMNS:
        if column.name not in schema.names:
            continue
        value: Any = getattr(examples, _FIELDS.get(column.name, column.name))
        if column.rows == "row":
            arrays.append(to_arrow(value, column.type))
            continue

        # Concepts and scores are flat, one for each mention.
        if not isinstance(value, Ragged):
            value = Ragged(value, examples.span_starts.offsets)
        offsets = to_arrow(value.offsets.astype(np.int32), pa.int32())
        arrays.append(pa.ListArray.from_arrays(offsets, to_arrow(value.values, column.type)))

    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def check_token_count(tokens: int) -> None:
    """Check that 32-bit offsets can count the tokens."""
    if tokens >= 1 << 31:
        raise ShardError(
            "shard: expected fewer than 2**31 tokens; choose a smaller shard.unit_bytes"
        )


def write_batch(path: Path, batch: pa.RecordBatch, *, durable: bool = True) -> ShardRecord:
    """Write the columns of a shard.

    Args:
        path: Written whole or not at all.
        batch: All columns of `columns.schema`, without nulls.
        durable: As of `files.writing_whole`.
    """
    with writing_whole(path, durable=durable) as file:
        size, digest = write_stream_with_footer(batch, file)
    return ShardRecord(
        file=path.name,
        rows=batch.num_rows,
        tokens=len(batch.column("input_ids").values),
        mentions=len(batch.column("span_starts").values),
        bytes=size,
        sha256=digest,
    )


def write_stream_with_footer(batch: pa.RecordBatch, file: BinaryIO) -> tuple[int, str]:
    """Write an Arrow stream that ends with the footer of an Arrow file.

    Stream readers (`datasets`) stop at the end of the stream, file readers (polars,
    pyarrow.dataset) begin at the footer: both open the one file. It is a file as pyarrow writes it,
    less its leading magic, and with the footer's offsets less these eight bytes.

    Returns:
        The number of bytes written, and their SHA-256.
    """
    sink = _Sink(file)
    with pa.ipc.new_file(pa.PythonFile(sink, mode="w"), batch.schema) as writer:
        writer.write_batch(batch)
        sink.holds_back = True
    sink.write_end()
    return sink.size, sink.sha256


class _Sink:
    """A file object that drops the first eight bytes of the Arrow file that pyarrow writes.

    Attributes:
        holds_back: Whether the bytes that come are the file's end, which is changed before it is
            written.
        size: Bytes written.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.holds_back = False
        self.size = 0
        self.closed = False
        self._file = file
        self._digest = hashlib.sha256()
        self._taken = 0
        self._end = b""

    @property
    def sha256(self) -> str:
        """SHA-256 of the bytes written."""
        return self._digest.hexdigest()

    def write(self, data: bytes) -> int:
        """Receive bytes from pyarrow."""
        begin = max(len(_MAGIC) - self._taken, 0)
        self._taken += len(data)
        if self.holds_back:
            self._end += data
        else:
            self._put(memoryview(data)[begin:])
        return len(data)

    def tell(self) -> int:
        """Return the number of bytes received, including dropped ones."""
        return self._taken

    def flush(self) -> None:
        """Do nothing: the file is flushed once it is complete."""

    def close(self) -> None:
        """Do nothing: the end is written later."""
        self.closed = True

    def write_end(self) -> None:
        """Write the bytes held back, with corrected footer offsets."""
        # They end with the footer, the footer's length in 4 bytes, and 6 bytes of magic.
        (length,) = struct.unpack("<i", self._end[-10:-6])
        start = len(self._end) - 10 - length
        footer = _moved(self._end[start : start + length], -len(_MAGIC))
        self._put(self._end[:start] + footer + self._end[start + length :])

    def _put(self, data: bytes | memoryview) -> None:
        # In pieces that stay in the processor's cache, as each is read twice.
        for start in range(0, len(data), _PIECE):
            piece = data[start : start + _PIECE]
            self._digest.update(piece)
            self._file.write(piece)
        self.size += len(data)


def to_arrow(values: Any, kind: pa.DataType) -> pa.Array:
    """Return an Arrow array without nulls; numbers share memory with `values`.

    `pa.array` would import pandas first, wherever that is installed, to ask if they are its.

    Args:
        values: A NumPy array of numbers, or a sequence of strings.
        kind: The type of the result.
    """
    if not pa.types.is_string(kind):
        numbers = np.ascontiguousarray(values, kind.to_pandas_dtype())
        return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])

    texts = [value.encode() for value in values]
    offsets = make_offsets(np.fromiter(map(len, texts), np.int64, len(texts)))
    if offsets[-1] >= 1 << 31:
        raise ShardError(
            "shard: expected less than 2 GiB of text; choose a smaller shard.unit_bytes"
        )
    buffers = [
        None,
        pa.py_buffer(offsets.astype(np.int32)),
        pa.py_buffer(b"".join(texts)),
    ]
    return pa.Array.from_buffers(kind, len(texts), buffers)


def _moved(footer: bytes, by: int) -> bytes:
    """Shift the block offsets of a footer, a flatbuffer table."""
    moved = bytearray(footer)
    (table,) = struct.unpack_from("<I", footer)
    vtable = table - struct.unpack_from("<i", footer, table)[0]

    # Fields 2 (dictionaries) and 3 (record batches) are vectors of 24-byte blocks, each of which
    # begins with its offset.
    for field in (2, 3):
        (slot,) = struct.unpack_from("<H", footer, vtable + 4 + 2 * field)
        if not slot:
            continue
        at = table + slot
        vector = at + struct.unpack_from("<I", footer, at)[0]
        (count,) = struct.unpack_from("<I", footer, vector)
        for block in range(count):
            place = vector + 4 + 24 * block
            (offset,) = struct.unpack_from("<q", footer, place)
            struct.pack_into("<q", moved, place, offset + by)

    return bytes(moved)
