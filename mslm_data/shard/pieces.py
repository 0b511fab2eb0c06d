"""Writes the pieces of a shard that work units make, and joins them.

A piece has the columns of a shard. Its labels are numbered as its unit met them, unless the
pipeline says which labels there are, so joining numbers them anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mslm_data.data import bio
from mslm_data.data.examples import Examples
from mslm_data.data.ragged import make_offsets
from mslm_data.io.arrow import numbers
from mslm_data.kernels.gather import renumber
from mslm_data.kernels.hashing import hash_rows
from mslm_data.shard.write import (
    ShardRecord,
    check_token_count,
    to_arrow,
    write_batch,
    write_shard,
)

_HASHES = b"hashes"
"""Key of a piece's metadata that holds a hash of the id of each of its documents, uint64."""


def join(paths: Sequence[Path], path: Path, schema: pa.Schema) -> ShardRecord:
    """Join pieces to a shard.

    Args:
        paths: The pieces, in order.
        path: The shard, written whole or not at all.
        schema: That of the shard; the labels of all pieces are among those that it names.

    Raises:
        ShardError: More tokens than 32-bit offsets can count.
    """
    labels, doc_labels = _labels_in(schema)
    batches = [_numbered(_batch(piece), labels, doc_labels) for piece in paths]
    check_token_count(sum(len(batch.column("input_ids").values) for batch in batches))

    # One column at a time: the pieces stay mapped files until it is their turn.
    columns = [pa.concat_arrays([batch.column(name) for batch in batches]) for name in schema.names]
    return write_batch(path, pa.RecordBatch.from_arrays(columns, schema=schema))


def write_piece(path: Path, examples: Examples, schema: pa.Schema) -> ShardRecord:
    """Write a piece with a hash of each document id; see `write_shard`.

    It is not synced: its checksum tells whether it is whole.
    """
    hashes = hash_ids(list(dict.fromkeys(examples.doc_ids or ())))
    metadata = {**schema.metadata, _HASHES: np.unique(hashes).tobytes()}
    return write_shard(path, examples, schema.with_metadata(metadata), durable=False)


def hash_ids(doc_ids: Sequence[str]) -> npt.NDArray[np.uint64]:
    """Hash ids, uint64 `[D]`. Different ids may share a hash."""
    texts = [doc_id.encode() for doc_id in doc_ids]
    offsets = make_offsets(np.fromiter(map(len, texts), np.int64, len(texts)))
    hashes = np.empty(len(texts), np.uint64)
    hash_rows(np.frombuffer(b"".join(texts), np.uint8), offsets, hashes)
    return hashes


def document_hashes(path: Path) -> npt.NDArray[np.uint64]:
    """Read the hashes of the document ids of a piece, sorted and unique."""
    return np.frombuffer(_batch(path).schema.metadata[_HASHES], np.uint64)


def document_ids(path: Path) -> list[str]:
    """Read the document ids of a piece, unique, in order."""
    return list(dict.fromkeys(_batch(path).column("doc_id").to_pylist()))


def _batch(path: Path) -> pa.RecordBatch:
    """Memory-map a piece."""
    with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as reader:
        return reader.read_next_batch()


def _numbered(batch: pa.RecordBatch, labels: list[str], doc_labels: list[str]) -> pa.RecordBatch:
    """Convert a piece's label numbers to those of the shard."""
    theirs, their_doc_labels = _labels_in(batch.schema)
    if "doc_label" in batch.schema.names:
        now = [doc_labels.index(label) for label in their_doc_labels]
        renumbered = np.array([*now, -1], np.int16)[numbers(batch.column("doc_label"))]
        batch = _with(batch, "doc_label", to_arrow(renumbered, pa.int16()))

    if theirs == labels[: len(theirs)]:
        return batch

    new_labels = np.array([labels.index(label) for label in theirs], np.int16)
    tags = np.zeros(bio.count_tags(len(theirs)), np.int16)
    tags[1::2] = bio.begin(new_labels)
    tags[2::2] = bio.inside(new_labels)

    for name, new in (("bio", tags), ("span_labels", new_labels)):
        column = batch.column(name)
        values = numbers(column.values)
        renumbered = np.empty(len(values), np.int16)
        renumber(values, new, renumbered)
        column = pa.ListArray.from_arrays(column.offsets, to_arrow(renumbered, pa.int16()))
        batch = _with(batch, name, column)
    return batch


def _labels_in(schema: pa.Schema) -> tuple[list[str], list[str]]:
    """Return the labels and document labels in a schema."""
    names = msgspec.json.decode(schema.metadata[b"mslm_data"])
    return names["labels"], names.get("doc_labels", [])


def _with(batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    """Replace a column of a piece."""
    return batch.set_column(batch.schema.get_field_index(name), name, column)
