"""Writes `Examples` as one shard."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa

from mslm_data.data.columns import COLUMNS
from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged
from mslm_data.errors import ShardError
from mslm_data.io.files import write_whole

_MAGIC = b"ARROW1\0\0"
_FIELDS = {"key": "keys", "doc_id": "doc_ids", "text": "texts"}
"""Column -> field of `Examples`, where their names differ."""
Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
"""A number of things in a manifest: small enough to be added up, and to be an index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRecord:
    """Describe a shard in the manifest."""

    file: str
    rows: Count
    tokens: Count
    mentions: Count
    bytes: Count
    sha256: str


def write_shard(path: Path, examples: Examples, schema: pa.Schema) -> ShardRecord:
    """Write a shard; the same examples and schema give the same bytes.

    Args:
        path: Written whole or not at all.
        examples: With what every column of the schema needs.
        schema: From `columns.schema`.

    Raises:
        ShardError: More tokens than 32-bit offsets can count.
    """
    batch = record_batch(examples, schema)
    pieces = dual_file(batch)
    write_whole(path, pieces)
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return ShardRecord(
        file=path.name,
        rows=len(examples),
        tokens=len(examples.input_ids.values),
        mentions=len(examples.span_starts.values),
        bytes=sum(len(piece) for piece in pieces),
        sha256=digest.hexdigest(),
    )


def record_batch(examples: Examples, schema: pa.Schema) -> pa.RecordBatch:
    """Lay examples out as Arrow columns, without copying tokens."""
    if len(examples.input_ids.values) >= 1 << 31:
        raise ShardError(
            "shard: expected fewer than 2**31 tokens; choose a smaller shard.unit_bytes"
        )
    arrays = []
    for column in COLUMNS:
        if column.name not in schema.names:
            continue
        value: Any = getattr(examples, _FIELDS.get(column.name, column.name))
        if column.rows == "row":
            arrays.append(pa.array(value, column.type))
            continue

        # Concepts and scores are flat, one for each mention.
        if not isinstance(value, Ragged):
            value = Ragged(value, examples.span_starts.offsets)
        offsets = pa.array(value.offsets.astype(np.int32))
        arrays.append(pa.ListArray.from_arrays(offsets, pa.array(value.values, column.type)))

    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def dual_file(batch: pa.RecordBatch) -> list[memoryview]:
    """Return a batch as an Arrow stream that ends with an Arrow file's footer.

    Stream readers (`datasets`) stop at the end of the stream, file readers (polars,
    pyarrow.dataset) begin at the footer: both open the one file. It is a file as pyarrow writes it,
    less its leading magic, and with the footer's offsets less these eight bytes.
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    whole = memoryview(sink.getvalue())

    # A file ends with its footer, the footer's length in 4 bytes, and 6 bytes of magic.
    (length,) = struct.unpack("<i", whole[-10:-6])
    start = len(whole) - 10 - length
    footer = _moved(bytes(whole[start : start + length]), -len(_MAGIC))
    return [whole[len(_MAGIC) : start], memoryview(footer), whole[start + length :]]


def _moved(footer: bytes, by: int) -> bytes:
    """Return a footer, a flatbuffer table, with the offsets of its blocks moved by some bytes."""
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
