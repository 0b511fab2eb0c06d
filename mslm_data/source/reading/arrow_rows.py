"""Reads rows of Arrow and parquet files in batches.

Arrow files may be streams (as written by `datasets`) or random-access files. Positions count rows.
Lengths and offsets in a file are validated before use, because wrong ones would crash the process.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from mslm_data.data.document import Part
from mslm_data.errors import SourceError
from mslm_data.source.reading import cells
from mslm_data.source.reading.cells import Cells, Row
from mslm_data.source.reading.files import stem

_BATCH_ROWS = 64
"""Number of rows converted to Python at once. Small, because each may expand to a long text of a
dictionary."""
_ROWS_PER_BYTE = 16
"""Maximum number of rows per byte of a file. A damaged file may claim any number of empty rows."""
_LISTS = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)
"""Tests for lists of any layout."""
_DAMAGED = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, RecursionError)
"""Errors from damaged files. Python's own errors come only from types unknown to Arrow."""
_END = b"\xff\xff\xff\xff\0\0\0\0"
"""End mark of an Arrow stream."""


def num_rows(path: Path) -> int:
    """Return the number of rows of a file, without reading their values.

    Raises:
        SourceError: The file cannot be read, is truncated, or has more rows than its size allows.
    """
    with _readable(path):
        if path.suffix == ".parquet":
            metadata = pq.read_metadata(path)
            # A damaged footer may disagree with its row groups.
            groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
            count = int(metadata.num_rows)
            lengths = [group.num_rows for group in groups]
            if count != sum(lengths) or min(lengths, default=0) < 0:
                raise pa.ArrowInvalid("row groups of other lengths")
        else:
            count = sum(batch.num_rows for batch in _arrow_batches(path))

    size = path.stat().st_size
    if not 0 <= count <= size * _ROWS_PER_BYTE:
        raise SourceError(
            f"{path.name}: expected as many rows as its {size} bytes can hold, got {count}; is "
            "the file damaged?"
        )
    return count


def cut(part: Part, *, target_bytes: int) -> Iterator[Part]:
    """Cut a file into ranges of rows of about `target_bytes`; see `Source.cut`.

    `start` and `stop` of a part count rows. Its `line` is the number of its first row, from 1.
    """
    path = Path(part.path)
    total = num_rows(path)
    # Assume rows of equal size.
    step = max(1, total * target_bytes // max(path.stat().st_size, 1))
    past = total if part.stop < 0 else part.stop
    # A file without rows is one empty part.
    for start in range(part.start, max(past, part.start + 1), step):
        yield Part(part.path, start, min(start + step, past), first=start, line=start + 1)


def schema(path: Path) -> pa.Schema:
    """Return a file's schema with its metadata."""
    with _readable(path):
        if path.suffix == ".parquet":
            return pq.read_schema(path)
        return _open_arrow(pa.memory_map(str(path))).schema


def nested(table: pa.Schema) -> list[str]:
    """Return the columns with objects, lists of texts, or nested lists of texts.

    Besides the columns known by name, only these can hold mentions or their annotators. Columns of
    numbers, such as embeddings, are not read: they may be far larger than all others.
    """
    return [field.name for field in table if _is_nested(field.type, depth=0)]


def texts(path: Path) -> list[str]:
    """Return the text columns of a file.

    Raises:
        SourceError: The file cannot be read.
    """
    with _readable(path):
        return [field.name for field in schema(path) if _is_text(field.type)]


def _is_nested(kind: pa.DataType, *, depth: int) -> bool:
    if any(is_list(kind) for is_list in _LISTS):
        return _is_nested(kind.value_type, depth=depth + 1)
    if pa.types.is_struct(kind):
        # An object with bytes is an image or audio.
        return not any(pa.types.is_binary(field.type) for field in kind)
    return depth > 0 and _is_text(kind)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def class_names(table: pa.Schema) -> dict[str, tuple[str, ...]]:
    """Return column -> names of its integers, from the features stored by `datasets`."""
    text = (table.metadata or {}).get(b"huggingface")
    if text is None:
        return {}
    try:
        features = msgspec.json.decode(text)["info"]["features"]
        if not isinstance(features, dict):
            return {}
        names_by_column = {column: _names(feature) for column, feature in features.items()}
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError, RecursionError):
        return {}
    return {column: names for column, names in names_by_column.items() if names}


def rows(part: Part, *, columns: Collection[str]) -> Iterator[Row]:
    """Read each row of a part, with some of its columns.

    Raises:
        SourceError: As for `read_range`.
    """
    path = Path(part.path)
    file_stem = stem(path)
    stop = num_rows(path) if part.stop < 0 else part.stop
    values = read_range(path, part.start, stop, columns=columns)
    for number, value in enumerate(values, start=part.start):
        yield Row(value, f"{file_stem}:{number}", f"{path.name}:{number + 1}")


def read_range(path: Path, start: int, stop: int, *, columns: Collection[str]) -> Iterator[Cells]:
    """Read rows `[start, stop)` with some of their columns.

    Raises:
        SourceError: The file cannot be read, has a text that is not valid UTF-8, or ends before
            `stop`. A stream truncated between two batches is only detected by `num_rows`.
    """
    done = start
    with _readable(path):
        for position, batch in _batches(path, start, columns):
            # A batch may begin before `start` or end after `stop`.
            first = max(done - position, 0)
            last = min(stop - position, batch.num_rows)
            if first < last:
                batch.validate(full=True)
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
        raise SourceError(
            f"{path.name}: cannot be read as {kind} ({type(error).__name__}); is the file whole, "
            "and its text UTF-8?"
        ) from None


def _batches(
    path: Path, start: int, columns: Collection[str]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield batches from the one with row `start`, each with the number of its first row."""
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
    """Yield batches of a parquet file; see `_batches`.

    Row groups are read one by one, so that a damaged group does not shift the rows of others.
    """
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
            # The reader accepts a stream that is truncated between two batches.
            file.seek(max(file.size() - len(_END), 0))
            if file.read() != _END:
                raise pa.ArrowInvalid("no end mark")


def _open_arrow(file: pa.MemoryMappedFile) -> pa.RecordBatchStreamReader | pa.RecordBatchFileReader:
    is_random_access = file.read(6) == b"ARROW1"
    file.seek(0)
    return pa.ipc.open_file(file) if is_random_access else pa.ipc.open_stream(file)


def _laid_out(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Check, at little cost, that the columns of a batch have its length."""
    batch.validate()
    return batch


def _kept(names: Collection[str], columns: Collection[str]) -> list[str]:
    """Return the wanted columns of a file. Raises if two of them have the same name."""
    kept = [name for name in names if name in columns]
    if len(set(kept)) < len(kept):
        raise pa.ArrowInvalid("columns of one name")
    return kept


def _python_rows(batch: pa.RecordBatch) -> Iterator[Cells]:
    for start in range(0, batch.num_rows, _BATCH_ROWS):
        yield from batch.slice(start, _BATCH_ROWS).to_pylist()


def _names(feature: Any) -> tuple[str, ...]:
    """Return the names of the ClassLabel in a feature, empty if there is none.

    If there are several, that of the labels is used; if that is unknown, none.
    """
    if isinstance(feature, list):
        feature = dict(enumerate(feature))
    if not isinstance(feature, dict):
        return ()
    names = feature.get("names")
    if feature.get("_type") == "ClassLabel" and isinstance(names, list):
        return tuple(map(str, names))

    by_key = {key: names for key, below in feature.items() if (names := _names(below))}
    of_labels = [by_key[key] for key in cells.LABELS if key in by_key]
    candidates = of_labels or list(set(by_key.values()))
    return candidates[0] if of_labels or len(candidates) == 1 else ()
