"""Reads uncompressed Arrow files safely.

Arrow trusts lengths and offsets of a file: damaged ones crash the process. A small compressed
buffer can fill memory. So offsets are validated, and compressed files raise an error before they
are read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

IN_MEMORY = 16 << 20
"""Maximum size in bytes of a split, or of its scores, that is read into memory. Larger ones are
memory-mapped. Data in memory does not change if its file does. All NER corpora of BLURB fit."""
_MAGIC = b"ARROW1\0\0"
_HEADER = 2
"""Field number of the header in Arrow's flatbuffer table Message."""
_COMPRESSION = 3
"""Field number of the compression in Arrow's flatbuffer table RecordBatch."""


def schema(file: pa.NativeFile) -> pa.Schema:
    """Return the schema of an Arrow stream or file.

    Raises:
        pa.ArrowInvalid: The file is not Arrow or is truncated. Other exceptions of Arrow are
            possible, and ValueError if a name is not UTF-8.
    """
    _begin(file)
    with pa.ipc.open_stream(file) as reader:
        return reader.schema


def batches(file: pa.NativeFile) -> list[pa.RecordBatch]:
    """Return the record batches of an Arrow stream or file, with valid offsets and UTF-8.

    Raises:
        pa.ArrowInvalid: The file is not Arrow, truncated or compressed. Other exceptions of Arrow
            are possible, as in `schema`.
    """
    # Look for compression in the messages first: reading a batch decompresses it.
    begin = _begin(file)
    if any(_is_compressed(message) for message in _messages(file)):
        raise pa.ArrowInvalid("compressed")
    file.seek(begin)
    with pa.ipc.open_stream(file) as reader:
        record_batches = list(reader)
    for batch in record_batches:
        batch.validate(full=True)
    return record_batches


def numbers(array: pa.Array) -> npt.NDArray[Any]:
    """Return a read-only NumPy view of an Arrow array of numbers without nulls."""
    # `to_numpy` would first import pandas if it is installed, which takes 0.25 s.
    return np.from_dlpack(array)


def _begin(file: pa.NativeFile) -> int:
    """Seek to the start of the stream, after the magic bytes of a file, and return the position."""
    file.seek(0)
    if file.read(len(_MAGIC)) != _MAGIC:
        file.seek(0)
        return 0
    end = len(_MAGIC.rstrip(b"\0"))
    file.seek(max(file.size() - end, 0))
    if file.read() != _MAGIC[:end]:
        raise pa.ArrowInvalid("cut off")
    file.seek(len(_MAGIC))
    return len(_MAGIC)


def _messages(file: pa.NativeFile) -> Iterator[pa.Message]:
    yield from pa.ipc.MessageReader.open_stream(file)


def _is_compressed(message: pa.Message) -> bool:
    """Return whether a message is neither a schema nor an uncompressed batch."""
    # Dictionary batches count as compressed: shards have none.
    if message.type != "record batch":
        return str(message.type) != "schema"
    data = message.metadata.to_pybytes()
    header = _field(data, struct.unpack_from("<I", data)[0], _HEADER)
    batch = header + struct.unpack_from("<I", data, header)[0]
    return _field(data, batch, _COMPRESSION) > 0


def _field(data: bytes, table: int, number: int) -> int:
    """Return the position of a field in a flatbuffer table, or 0 if the table lacks the field.

    pyarrow has no public access to compression. Arrow has already validated the flatbuffer. A table
    starts with the signed distance back to its vtable. The vtable has its own size, the table's
    size, and a 2-byte offset per field.
    """
    vtable = table - struct.unpack_from("<i", data, table)[0]
    slot = 4 + 2 * number
    if slot >= struct.unpack_from("<H", data, vtable)[0]:
        return 0
    offset: int = struct.unpack_from("<H", data, vtable + slot)[0]
    return table + offset if offset else 0
