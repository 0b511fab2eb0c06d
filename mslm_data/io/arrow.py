"""Reads Arrow streams and files safely.

Arrow trusts lengths and offsets of a file: damaged ones crash the process. So they are validated.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

IN_MEMORY = 16 << 20
"""Maximum size in bytes of a split, or of its scores, that is read into memory. Larger ones are
memory-mapped. Data in memory does not change if its file does. All NER corpora of BLURB fit."""
MAGIC = b"ARROW1\0\0"
"""The beginning of an Arrow file, before its stream. The end is the same without the zeros."""


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
        pa.ArrowInvalid: The file is not Arrow or is truncated. Other exceptions of Arrow are
            possible, as in `schema`.
    """
    _begin(file)
    with pa.ipc.open_stream(file) as reader:
        record_batches = list(reader)
    for batch in record_batches:
        batch.validate(full=True)
    return record_batches


def numbers(array: pa.Array) -> npt.NDArray[Any]:
    """Return a read-only NumPy view of an Arrow array of numbers without nulls."""
    # `to_numpy` would first import pandas if it is installed, which takes 0.25 s.
    return np.from_dlpack(array)


def _begin(file: pa.NativeFile) -> None:
    """Seek to the start of the stream, after the magic bytes of a file."""
    file.seek(0)
    if file.read(len(MAGIC)) != MAGIC:
        file.seek(0)
        return
    end = len(MAGIC.rstrip(b"\0"))
    file.seek(max(file.size() - end, 0))
    if file.read() != MAGIC[:end]:
        raise pa.ArrowInvalid("cut off")
    file.seek(len(MAGIC))
