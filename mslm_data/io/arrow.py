"""Reads uncompressed Arrow files, and refuses others before they can take memory.

A damaged length or offset would end the process, and a compressed buffer can unpack to anything.
What was read becomes NumPy arrays by `numbers`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

IN_MEMORY = 16 << 20
"""Most bytes of a split, or of its scores, that are read into memory; larger ones are mapped. What
is in memory no longer changes with its files. BLURB's NER corpora are smaller."""
_MAGIC = b"ARROW1\0\0"
_HEADER = 2
"""Field of Arrow's flatbuffer table Message."""
_COMPRESSION = 3
"""Field of Arrow's flatbuffer table RecordBatch."""


def schema(file: pa.NativeFile) -> pa.Schema:
    """Return the schema of a stream, or of a file.

    Raises:
        pa.ArrowInvalid: Not one, or cut off; so for other exceptions of Arrow's, and ValueError for
            names that are not text.
    """
    _begin(file)
    with pa.ipc.open_stream(file) as reader:
        return reader.schema


def batches(file: pa.NativeFile) -> list[pa.RecordBatch]:
    """Return the batches of a stream or a file, with offsets and texts that are sound.

    Raises:
        pa.ArrowInvalid: Not Arrow, cut off, or compressed; other exceptions of Arrow as in
            `schema`.
    """
    begin = _begin(file)
    if any(_is_compressed(message) for message in _messages(file)):
        raise pa.ArrowInvalid("compressed")
    file.seek(begin)
    with pa.ipc.open_stream(file) as reader:
        found = list(reader)
    for batch in found:
        batch.validate(full=True)
    return found


def numbers(array: pa.Array) -> npt.NDArray[Any]:
    """Return an array of numbers without nulls as a NumPy array, read-only, in the same memory.

    `to_numpy` does the same, but first imports pandas wherever that is installed, which takes a
    quarter of a second.
    """
    return np.from_dlpack(array)


def _begin(file: pa.NativeFile) -> int:
    """Go to the start of the stream and return it, behind the magic of a file, if it is one."""
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
    """Return whether a message is anything but a schema or an uncompressed batch."""
    if message.type != "record batch":
        return str(message.type) != "schema"
    data = message.metadata.to_pybytes()
    header = _field(data, struct.unpack_from("<I", data)[0], _HEADER)
    batch = header + struct.unpack_from("<I", data, header)[0]
    return _field(data, batch, _COMPRESSION) > 0


def _field(data: bytes, table: int, number: int) -> int:
    """Return the place of a field of a flatbuffer's table, 0 where the table lacks it.

    Arrow has checked that the bytes are a flatbuffer.
    """
    vtable = table - struct.unpack_from("<i", data, table)[0]
    slot = 4 + 2 * number
    if slot >= struct.unpack_from("<H", data, vtable)[0]:
        return 0
    offset: int = struct.unpack_from("<H", data, vtable + slot)[0]
    return table + offset if offset else 0
