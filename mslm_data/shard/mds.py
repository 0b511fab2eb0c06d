"""Converts rows to mosaicml-streaming's MDS files, for its `StreamingDataset`.

A split is a folder of files `shard.NNNNN.mds` and an `index.json`. A file is, little-endian:

    number of rows N, uint32
    uint32 [N + 1], the byte of the file at which each row begins, and the file's length
    its description, JSON
    N rows, one after the other

A row is the length of each of its values that has no fixed one, uint32, and then its values, in the
order of the columns' names. A list of numbers is one byte (4, 5 or 6), its length in 1, 2 or 4
bytes, and its items.
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
"""Most bytes of a file, as of the package's own writer; a single row may be larger."""
_ONE_DIMENSION = 1 << 2
"""First byte of an array of one dimension, to which 0, 1 or 2 is added for the length's bytes."""


class _Column(NamedTuple):
    """The values of a column as bytes.

    Attributes:
        encoding: What the format calls them.
        size: Bytes of each value; None where they are as many as the value needs.
        parts: uint8, N rows each; those of a row are side by side in its value.
    """

    encoding: str
    size: int | None
    parts: tuple[Ragged, ...]


class MdsFile(NamedTuple):
    """One MDS file.

    Attributes:
        rows: Number of its rows.
        pieces: Its bytes, in order.
        about: How `index.json` describes its columns.
    """

    rows: int
    pieces: tuple[Any, ...]
    about: dict[str, Any]


def file_name(number: int) -> str:
    """Return the name of a split's file number `number`, from 0."""
    return f"shard.{number:05d}.mds"


def make_index(files: Sequence[tuple[str, int, MdsFile]]) -> bytes:
    """Return the `index.json` of a split.

    Args:
        files: Name, bytes and description of each file, in order; their pieces are not read.
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
        batch: Columns of numbers, strings, and lists of these, without nulls.
        limit: Most bytes of a file, unless a single row has more.
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
    described = json.dumps(about, sort_keys=True).encode()

    # A row is the lengths of its values, and then these.
    lengths = [_together(column.parts) for column in columns]
    unfixed = [of for of, column in zip(lengths, columns, strict=True) if column.size is None]
    heads = np.stack(unfixed, axis=1).astype("<u4")
    head_bytes = heads.shape[1] * heads.itemsize
    parts = (
        Ragged(heads.reshape(-1).view(np.uint8), _evenly(batch.num_rows, head_bytes)),
        *(part for column in columns for part in column.parts),
    )
    sizes = _together(parts)

    # Each row also takes an offset of 4 bytes; the number of rows and the last offset take 8.
    for start, stop in _groups(sizes + 4, limit - 8 - len(described)):
        to = make_offsets(sizes[start:stop])
        offsets = to + 4 * (stop - start) + 8 + len(described)
        if offsets[-1] >= 1 << 32:
            raise ValueError(f"rows: expected less than 4 GiB per file, got {offsets[-1]} bytes")

        count = np.array([stop - start], "<u4")
        pieces = (count.tobytes(), offsets.astype("<u4").tobytes(), described)
        yield MdsFile(stop - start, (*pieces, _rows(parts, start, stop, to)), about)


def _together(parts: Sequence[Ragged]) -> npt.NDArray[np.int64]:
    """Return the total size of the parts of each row, `[N]`."""
    lengths: npt.NDArray[np.int64] = np.sum([part.lengths for part in parts], axis=0)
    return lengths


def _groups(sizes: npt.NDArray[np.int64], limit: int) -> Iterator[tuple[int, int]]:
    """Yield the longest ranges of rows within `limit` bytes, at least one row each."""
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
        parts: uint8, the same rows each.
        start: First row.
        stop: Row after the last.
        to: int64 `[stop - start + 1]`, where each row begins.
    """
    out = np.empty(to[-1], np.uint8)
    rows = np.arange(start, stop)
    places = to[:-1].copy()
    for part in parts:
        gather(rows, part.offsets, part.values, places, out)
        places += part.lengths[start:stop]
    return out


def _column(array: pa.Array) -> _Column:
    """Return the values of a column as bytes."""
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
    """Return the offsets of values of equal size, `[rows + 1]`."""
    return np.arange(rows + 1, dtype=np.int64) * size


def _bytes(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return numbers as little-endian bytes."""
    return values.astype(values.dtype.newbyteorder("<"), copy=False).view(np.uint8)


def _shapes(lengths: npt.NDArray[np.int64]) -> Ragged:
    """Return the header of each list: the format of its length, and the length."""
    power = (lengths >= 1 << 8).astype(np.int64) + (lengths >= 1 << 16)
    written = np.empty((len(lengths), 5), np.uint8)
    written[:, 0] = _ONE_DIMENSION + power
    written[:, 1:] = lengths.astype("<u4").view(np.uint8).reshape(-1, 4)

    sizes = 1 + (1 << power)
    is_written = np.arange(5) < sizes[:, None]
    return Ragged(written[is_written], make_offsets(sizes))


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
