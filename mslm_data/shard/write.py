"""Writes `Examples` to shards.

A shard is an Arrow stream followed by the footer of an Arrow file, so that stream readers and file
readers open it; see `write_stream_with_footer`.

A shard is one record batch, so that each column is one array over the mapped file, and a range of
rows is a view of it.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec
import numpy as np
import pyarrow as pa

from mslm_data.data.accounts import Count
from mslm_data.data.columns import COLUMNS
from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged, make_offsets
from mslm_data.errors import ShardError
from mslm_data.io.arrow import MAGIC as _MAGIC
from mslm_data.io.files import writing_whole

_PIECE = 256 << 10
"""Number of bytes hashed and written at once."""


FILE_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*\Z"
"""Pattern of the names of splits and shards, which cannot point outside the built folder."""
FileName = Annotated[str, msgspec.Meta(pattern=FILE_NAME)]
Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRecord:
    """Describe a shard in the manifest.

    A row::

        file                       rows  tokens  mentions
        data-00000-of-00001.arrow     1      13         2

    The shard is the only one of its split, and has one row with 13 tokens and two mentions.

    Attributes:
        file: File name, in the folder of the split.
        rows: Number of rows.
        tokens: Number of tokens, including special tokens.
        mentions: Number of mentions.
        bytes: Size of the file.
        sha256: Digest of the file.
    """

    file: FileName
    rows: Count
    tokens: Count
    mentions: Count
    bytes: Count
    sha256: Sha256


def record_batch(examples: Examples, schema: pa.Schema) -> pa.RecordBatch:
    """Convert examples to an Arrow record batch that shares the memory of the tokens.

    Raises:
        ShardError: The examples have 2**31 tokens or more.
    """
    check_token_count(len(examples.input_ids.values))
    arrays = []
    for column in COLUMNS:
        if column.name not in schema.names:
            continue
        value: Any = getattr(examples, column.field)
        if column.per == "row":
            arrays.append(to_arrow(value, column.type))
            continue

        # Concepts, scores and contexts are flat `[S]`.
        if not isinstance(value, Ragged):
            value = Ragged(value, examples.span_starts.offsets)
        offsets = to_arrow(value.offsets.astype(np.int32), pa.int32())
        arrays.append(pa.ListArray.from_arrays(offsets, to_arrow(value.values, column.type)))

    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def check_token_count(tokens: int) -> None:
    """Check that the number of tokens fits into the 32-bit offsets of Arrow lists."""
    if tokens >= 1 << 31:
        raise ShardError(
            "shard: expected fewer than 2**31 tokens; choose a smaller shard.input_bytes"
        )


def write_batch(path: Path, batch: pa.RecordBatch, *, durable: bool = True) -> ShardRecord:
    """Write a record batch as a shard.

    Args:
        path: File, written atomically.
        batch: All columns of the schema, without nulls.
        durable: Whether to sync the file to disk, see `files.writing_whole`. Default: True.
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

    Stream readers (`datasets`) stop at the end of the stream. File readers (polars,
    `pyarrow.dataset`) start at the footer. The result is the Arrow file of pyarrow without the 8
    magic bytes at its start; the offsets in the footer are 8 smaller.

    Returns:
        Number of bytes written, and their SHA-256.
    """
    sink = _Sink(file)
    with pa.ipc.new_file(pa.PythonFile(sink, mode="w"), batch.schema) as writer:
        writer.write_batch(batch)
        # The footer follows when the writer is closed.
        sink.holds_back = True
    sink.write_end()
    return sink.size, sink.sha256


class _Sink:
    """File object for pyarrow that drops the 8 magic bytes at the start, and buffers the footer.

    Attributes:
        holds_back: Whether to buffer bytes until `write_end`, which corrects the footer.
        size: Number of bytes written.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.holds_back = False
        self.size = 0
        self.closed = False
        self._file = file
        self._digest = hashlib.sha256()
        self._dropped = 0
        self._end = b""

    @property
    def sha256(self) -> str:
        """SHA-256 of the bytes written."""
        return self._digest.hexdigest()

    def write(self, data: bytes) -> int:
        """Receive bytes from pyarrow."""
        if self.holds_back:
            self._end += data
        else:
            begin = min(len(_MAGIC) - self._dropped, len(data))
            self._dropped += begin
            self._put(memoryview(data)[begin:])
        return len(data)

    def close(self) -> None:
        """Mark as closed, without closing the file: `write_end` follows."""
        self.closed = True

    def write_end(self) -> None:
        """Write the buffered bytes, with corrected offsets in the footer."""
        # The end of an Arrow file: footer, length of the footer in 4 bytes, 6 magic bytes.
        (length,) = struct.unpack("<i", self._end[-10:-6])
        start = len(self._end) - 10 - length
        footer = _moved(self._end[start : start + length], -len(_MAGIC))
        self._put(self._end[:start] + footer + self._end[start + length :])

    def _put(self, data: bytes | memoryview) -> None:
        # Small pieces stay in the CPU cache between hashing and writing.
        for start in range(0, len(data), _PIECE):
            piece = data[start : start + _PIECE]
            self._digest.update(piece)
            self._file.write(piece)
        self.size += len(data)


def to_arrow(values: Any, kind: pa.DataType) -> pa.Array:
    """Convert to an Arrow array without nulls. Numbers share memory with `values`.

    Args:
        values: NumPy array of numbers, or a sequence of strings.
        kind: Type of the result.

    Raises:
        ShardError: The strings have 2 GiB or more.
    """
    # `pa.array` would first import pandas if it is installed, to recognise its arrays.
    if not pa.types.is_string(kind):
        numbers = np.ascontiguousarray(values, kind.to_pandas_dtype())
        return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])

    texts = [value.encode() for value in values]
    offsets = make_offsets(np.fromiter(map(len, texts), np.int64, len(texts)))
    if offsets[-1] >= 1 << 31:
        raise ShardError(
            "shard: expected less than 2 GiB of text; choose a smaller shard.input_bytes"
        )
    buffers = [
        None,
        pa.py_buffer(offsets.astype(np.int32)),
        pa.py_buffer(b"".join(texts)),
    ]
    return pa.Array.from_buffers(kind, len(texts), buffers)


def _moved(footer: bytes, by: int) -> bytes:
    """Add `by` to the block offsets in a footer.

    The footer is a flatbuffer table: its first 4 bytes locate the table, the table starts with the
    signed distance back to its vtable, and the vtable has a 2-byte offset per field, 0 if absent.
    """
    moved = bytearray(footer)
    (table,) = struct.unpack_from("<I", footer)
    vtable = table - struct.unpack_from("<i", footer, table)[0]

    # Fields 2 (dictionaries) and 3 (record batches) are vectors of 24-byte blocks. A block starts
    # with its offset in the file, int64.
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
