"""Arrow and parquet files as rows: counted without reading them, read batch by batch, with what their schema says.

Arrow files may be streams (what `datasets` writes) or random-access files. Positions are rows. Nothing of a file is
believed: lengths and offsets that lead elsewhere would end the process.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from mslm_data.errors import SourceError

_BATCH_ROWS = 64
"""Few, as one long text of a dictionary may stand for each."""
_ROWS_PER_BYTE = 16
"""Rows that a byte of a file may stand for; more is a table that repeats nothing without end."""
_RATIO, _FREE_BYTES = 200, 64 << 20
"""As of `records.RATIO`, for parquet."""
_DAMAGED = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, RecursionError)
"""What reading a damaged file raises; those of Python's own where types are not known to Arrow alone."""
_END = b"\xff\xff\xff\xff\0\0\0\0"
"""What closes an Arrow stream."""


def num_rows(path: Path) -> int:
    """Return how many rows a file has; raises `SourceError` for one that cannot be read or is cut off."""
    with _readable(path):
        if path.suffix == ".parquet":
            metadata = pq.read_metadata(path)
            groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
            count, unpacked = int(metadata.num_rows), sum(group.total_byte_size for group in groups)
            if count != sum(group.num_rows for group in groups) or any(
                group.num_rows < 0 for group in groups
            ):
                raise pa.ArrowInvalid("row groups of other lengths")
        else:
            count, unpacked = sum(batch.num_rows for batch in _arrow_batches(path)), 0
    size = path.stat().st_size
    if not 0 <= count <= size * _ROWS_PER_BYTE or unpacked > max(size * _RATIO, _FREE_BYTES):
        raise SourceError(
            f"{path.name}: expected as many rows as its {size} bytes can hold, got {count}; damaged"
        )
    return count


def schema(path: Path) -> pa.Schema:
    """Return a file's schema with its metadata."""
    with _readable(path):
        if path.suffix == ".parquet":
            return pq.read_schema(path)
        return _open_arrow(pa.memory_map(str(path))).schema


def class_names(of: pa.Schema) -> dict[str, tuple[str, ...]]:
    """Return column -> names of its integers, from what `datasets` writes into the schema as features."""
    text = (of.metadata or {}).get(b"huggingface")
    if text is None:
        return {}
    try:
        features = msgspec.json.decode(text)["info"]["features"]
        found = (
            {column: _names(feature) for column, feature in features.items()}
            if isinstance(features, dict)
            else {}
        )
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError, RecursionError):
        return {}
    return {column: names for column, names in found.items() if names}


def rows(
    path: Path, start: int, stop: int, *, columns: Collection[str]
) -> Iterator[Mapping[str, Any] | None]:
    """Give rows `[start, stop)` with some of their columns; None for a row whose text is not UTF-8.

    Raises:
        SourceError: The file cannot be read, or ends before. `num_rows` sees more: a stream that is cut off between two
            batches.
    """
    done = start
    with _readable(path):
        for position, batch in _batches(path, start, columns):
            first, last = max(done - position, 0), min(stop - position, batch.num_rows)
            if first < last:
                _validate(batch)
                yield from _python_rows(batch.slice(first, last - first))
                done = position + last
            if done >= stop:
                return
    if done < stop:
        raise SourceError(f"{path.name}: expected {stop} rows, got {done}; is the file whole?")


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGED as error:
        kind = "parquet" if path.suffix == ".parquet" else "Arrow"
        message = (
            f"{path.name}: expected {kind}, got what cannot be read as it ({type(error).__name__})"
        )
        raise SourceError(f"{message}; is the file whole?") from None


def _batches(
    path: Path, start: int, columns: Collection[str]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Give batches with the row each begins at, from the one that has row `start` or earlier."""
    if path.suffix == ".parquet":
        yield from _parquet_batches(path, start, columns)
        return
    position = 0
    for batch in _arrow_batches(path):
        if position + batch.num_rows > start:
            yield position, batch.select(_kept(batch.schema.names, columns))
        position += batch.num_rows


def _parquet_batches(
    path: Path, start: int, columns: Collection[str]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """See `_batches`. Each row group is read alone, so that damage in one moves no cell of the next."""
    with pq.ParquetFile(path) as file:
        kept = _kept(file.schema_arrow.names, columns)
        position = 0
        for group in range(file.num_row_groups):
            end = position + file.metadata.row_group(group).num_rows
            if end > start:
                for batch in file.iter_batches(_BATCH_ROWS, row_groups=[group], columns=kept):
                    yield position, batch
                    position += batch.num_rows
                if position != end:
                    raise pa.ArrowInvalid("a row group of another length")
            position = end


def _arrow_batches(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(str(path)) as file:
        reader = _open_arrow(file)
        if isinstance(reader, pa.RecordBatchFileReader):
            for i in range(reader.num_record_batches):
                yield _laid_out(reader.get_batch(i))
        else:
            yield from map(_laid_out, reader)
            file.seek(max(file.size() - len(_END), 0))
            if (
                file.read() != _END
            ):  # cut off between two batches, which the reader takes for the end
                raise pa.ArrowInvalid("no end mark")


def _open_arrow(file: pa.MemoryMappedFile) -> pa.RecordBatchStreamReader | pa.RecordBatchFileReader:
    is_random_access = file.read(6) == b"ARROW1"
    file.seek(0)
    return pa.ipc.open_file(file) if is_random_access else pa.ipc.open_stream(file)


def _laid_out(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch whose columns are as long as it says; little of it is read for that."""
    batch.validate()
    return batch


def _kept(names: Collection[str], columns: Collection[str]) -> list[str]:
    """Return the wanted columns that a file has, each once."""
    kept = [name for name in names if name in columns]
    if len(set(kept)) < len(kept):
        raise pa.ArrowInvalid("columns of one name")
    return kept


def _validate(batch: pa.RecordBatch) -> None:
    """See that nothing in a batch leads out of it; that texts are UTF-8 is a matter of each row."""
    for column in batch.columns:
        column.view(_in_bytes(column.type)).validate(full=True)


def _in_bytes(kind: pa.DataType) -> pa.DataType:
    """Return a type that is laid out the same and has bytes for texts."""
    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_large_string(kind):
        return pa.large_binary()
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_in_bytes(kind.value_type)))
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_in_bytes(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_in_bytes(field.type)) for field in kind])
    return kind


def _python_rows(batch: pa.RecordBatch) -> Iterator[Mapping[str, Any] | None]:
    """Give a batch's rows as Python values; one by one only where the batch as a whole has broken text."""
    for start in range(0, batch.num_rows, _BATCH_ROWS):
        piece = batch.slice(start, _BATCH_ROWS)
        try:
            yield from piece.to_pylist()
        except UnicodeDecodeError:
            yield from (_python_row(piece.slice(i, 1)) for i in range(piece.num_rows))


def _python_row(row: pa.RecordBatch) -> Mapping[str, Any] | None:
    try:
        found: Mapping[str, Any] = row.to_pylist()[0]
    except UnicodeDecodeError:
        return None
    return found


def _names(feature: Any) -> tuple[str, ...]:
    """Return the names of the first ClassLabel at or below a feature: in a list, a sequence, or an object."""
    if isinstance(feature, list):
        return next((names for names in map(_names, feature) if names), ())
    if not isinstance(feature, dict):
        return ()
    names = feature.get("names")
    if feature.get("_type") == "ClassLabel" and isinstance(names, list):
        return tuple(map(str, names))
    return _names(list(feature.values()))
