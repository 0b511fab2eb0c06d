"""Converts rows to MDS, the format of mosaicml-streaming's `StreamingDataset`.

A split is a folder of files `shard.NNNNN.mds` with an `index.json`. Layout of a file, in
little-endian order::

    uint32           number of rows N
    uint32 [N + 1]   byte offset of each row, and size of the file
    JSON             description of the columns
    N rows

Layout of a row, with columns sorted by name::

    uint32           size of each value of variable size
    bytes            values

A list of numbers is stored as one byte (4, 5 or 6), the number of items in 1, 2 or 4 bytes, and the
items. For example, the int32 list `[7, 9]` is the bytes `4`, `2`, `7 0 0 0`, `9 0 0 0`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mslm_data.data.ragged import Ragged, make_offsets
from mslm_data.io.arrow import numbers
from mslm_data.kernels.gather import gather

SIZE_LIMIT = 1 << 26
"""Maximum size of a file in bytes, the default of `MDSWriter`. A single row may be larger."""
_ONE_DIMENSION = 1 << 2
"""First byte of an array of one dimension with a 1-byte length; plus 1 or 2 for 2 or 4 bytes."""


class _Column(NamedTuple):
    """The values of a column as bytes.

    Attributes:
        encoding: MDS encoding, such as `int32` or `ndarray:int16`.
        size: Size of a value in bytes; None for variable size.
        parts: uint8, N rows each. A value is the concatenation of its parts.
    """

    encoding: str
    size: int | None
    parts: tuple[Ragged, ...]


class MdsFile(NamedTuple):
    """An MDS file.

    Attributes:
        rows: Number of rows.
        pieces: Content of the file, in order.
        about: Description of the columns for `index.json`.
    """

    rows: int
    pieces: tuple[Any, ...]
    about: dict[str, Any]


def file_name(number: int) -> str:
    """Return the name of file `number` of a split, counted from 0."""
    return f"shard.{number:05d}.mds"


def make_index(files: Sequence[tuple[str, int, MdsFile]]) -> bytes:
    """Return the `index.json` of a split.

    Args:
        files: Name, size in bytes and description of each file, in order. Pieces are not used.
    """
    shards = [
        {
            **file.about,
            "raw_data": {"basename": name, "bytes": size, "hashes": {}},
            "samples": file.rows,
            "zip_data": None,
        }
        for name, size, file in files
    ]
    return json.dumps({"version": 2, "shards": shards}, sort_keys=True).encode()


def make_files(batch: pa.RecordBatch, limit: int = SIZE_LIMIT) -> Iterator[MdsFile]:
    """Convert the rows of a shard to MDS files.

    Args:
        batch: Record batch of numbers, strings, and lists of these, without nulls.
        limit: Maximum size of a file in bytes, except for a single larger row. Default: 64 MiB.

    Raises:
        ValueError: A file would have 4 GiB or more.
    """
    names = sorted(batch.schema.names)
    columns = [_column(batch.column(name)) for name in names]
    about = {
        "column_encodings": [column.encoding for column in columns],
        "column_names": names,
        "column_sizes": [column.size for column in columns],
        "compression": None,
        "format": "mds",
        "hashes": [],
        "size_limit": limit,
        "version": 2,
    }
    description = json.dumps(about, sort_keys=True).encode()

    # A row starts with the sizes of its values of variable size, `heads`.
    lengths = [_total_sizes(column.parts) for column in columns]
    variable = [
        sizes for sizes, column in zip(lengths, columns, strict=True) if column.size is None
    ]
    heads = np.stack(variable, axis=1).astype("<u4")
    head_bytes = heads.shape[1] * heads.itemsize
    parts = (
        Ragged(heads.reshape(-1).view(np.uint8), _evenly(batch.num_rows, head_bytes)),
        *(part for column in columns for part in column.parts),
    )
    sizes = _total_sizes(parts)

    # A row needs 4 more bytes for its offset. The number of rows and the last offset need 8.
    for start, stop in _groups(sizes + 4, limit - 8 - len(description)):
        to = make_offsets(sizes[start:stop])
        offsets = to + 4 * (stop - start) + 8 + len(description)
        if offsets[-1] >= 1 << 32:
            raise ValueError(f"rows: expected less than 4 GiB per file, got {offsets[-1]} bytes")

        count = np.array([stop - start], "<u4")
        pieces = (count.tobytes(), offsets.astype("<u4").tobytes(), description)
        yield MdsFile(stop - start, (*pieces, _rows(parts, start, stop, to)), about)


def _total_sizes(parts: Sequence[Ragged]) -> npt.NDArray[np.int64]:
    """Return the total size of the parts of each row, int64 `[N]`."""
    lengths: npt.NDArray[np.int64] = np.sum([part.lengths for part in parts], axis=0)
    return lengths


def _groups(sizes: npt.NDArray[np.int64], limit: int) -> Iterator[tuple[int, int]]:
    """Divide rows into ranges of at most `limit` bytes, and at least one row."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        before = ends[start - 1] if start else 0
        stop = int(np.searchsorted(ends, before + limit, side="right"))
        stop = max(stop, start + 1)
        yield start, stop
        start = stop


def _rows(
    parts: Sequence[Ragged], start: int, stop: int, to: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint8]:
    """Concatenate the parts of each row `[start, stop)`.

    Args:
        parts: uint8, N rows each.
        start: First row.
        stop: Row after the last.
        to: int64 `[stop - start + 1]`, offsets of the rows in the result.
    """
    out = np.empty(to[-1], np.uint8)
    rows = np.arange(start, stop)
    places = to[:-1].copy()
    for part in parts:
        gather(rows, part.offsets, part.values, places, out)
        places += part.lengths[start:stop]
    return out


def _column(array: pa.Array) -> _Column:
    """Convert a column to bytes."""
    if pa.types.is_string(array.type):
        return _Column("str", None, (_texts(array),))
    if not pa.types.is_list(array.type):
        values = numbers(array)
        evenly = _evenly(len(values), values.itemsize)
        return _Column(str(values.dtype), values.itemsize, (Ragged(_bytes(values), evenly),))
    if pa.types.is_string(array.type.value_type):
        return _Column("json", None, (_json(array),))

    values = numbers(array.values)
    offsets = numbers(array.offsets).astype(np.int64)
    items = Ragged(_bytes(values), offsets * values.itemsize)
    return _Column(f"ndarray:{values.dtype}", None, (_shapes(np.diff(offsets)), items))


def _evenly(rows: int, size: int) -> npt.NDArray[np.int64]:
    """Return the offsets of values of equal size, int64 `[rows + 1]`."""
    return np.arange(rows + 1, dtype=np.int64) * size


def _bytes(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return numbers as little-endian bytes."""
    return values.astype(values.dtype.newbyteorder("<"), copy=False).view(np.uint8)


def _shapes(lengths: npt.NDArray[np.int64]) -> Ragged:
    """Return the header of each list: a byte with the width of the length, and the length."""
    # Lengths need `2 ** power` bytes. Write all in 4 bytes, then keep the first, lower bytes.
    power = (lengths >= 1 << 8).astype(np.int64) + (lengths >= 1 << 16)
    headers = np.empty((len(lengths), 5), np.uint8)
    headers[:, 0] = _ONE_DIMENSION + power
    headers[:, 1:] = lengths.astype("<u4").view(np.uint8).reshape(-1, 4)

    sizes = 1 + (1 << power)
    is_kept = np.arange(5) < sizes[:, None]
    return Ragged(headers[is_kept], make_offsets(sizes))


def _texts(array: pa.Array) -> Ragged:
    """Encode strings as UTF-8."""
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    values = np.frombuffer(data or b"", np.uint8)
    return Ragged(values, bounds.astype(np.int64))


def _json(array: pa.Array) -> Ragged:
    """Encode lists of strings as JSON."""
    texts = [msgspec.json.encode(strings) for strings in array.to_pylist()]
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    return Ragged(np.frombuffer(b"".join(texts), np.uint8), make_offsets(lengths))
