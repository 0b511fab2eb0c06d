"""Writes pieces, the results of work units, and joins them to shards.

A piece has the same columns as a shard, but may number labels differently. Without `labels` in the
pipeline, each work unit numbers labels in order of appearance; `join` renumbers them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from mslm_data.data import bio
from mslm_data.data.examples import Examples
from mslm_data.io.arrow import numbers
from mslm_data.kernels.gather import renumber
from mslm_data.shard.write import (
    ShardRecord,
    check_token_count,
    record_batch,
    to_arrow,
    write_batch,
)


def join(paths: Sequence[Path], path: Path, schema: pa.Schema) -> ShardRecord:
    """Join pieces to a shard.

    Args:
        paths: Files of the pieces, in order.
        path: File of the shard, written atomically.
        schema: Schema of the shard. Its labels include those of all pieces.

    Raises:
        ShardError: The shard would have 2**31 tokens or more.
    """
    labels, doc_labels = _labels_in(schema)
    batches = [_numbered(_batch(piece), labels, doc_labels) for piece in paths]
    check_token_count(sum(len(batch.column("input_ids").values) for batch in batches))

    # Concatenate column by column. The pieces are memory-mapped, so only the result is in memory.
    columns = [pa.concat_arrays([batch.column(name) for batch in batches]) for name in schema.names]
    return write_batch(path, pa.RecordBatch.from_arrays(columns, schema=schema))


def write_piece(path: Path, examples: Examples, schema: pa.Schema) -> ShardRecord:
    """Write a piece. Equal examples and schemas give equal bytes.

    Args:
        path: File, written atomically.
        examples: Rows, with all columns of the schema.
        schema: Schema made by `columns.schema`.

    Raises:
        ShardError: The examples have 2**31 tokens or more.
    """
    # Not synced to disk: the receipt has a checksum, and a damaged piece is made again.
    return write_batch(path, record_batch(examples, schema), durable=False)


def _batch(path: Path) -> pa.RecordBatch:
    with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as reader:
        return reader.read_next_batch()


def _numbered(batch: pa.RecordBatch, labels: list[str], doc_labels: list[str]) -> pa.RecordBatch:
    """Renumber the labels of a piece as in the shard."""
    piece_labels, piece_doc_labels = _labels_in(batch.schema)
    if "doc_label" in batch.schema.names:
        # The last item is for index -1, no label.
        new_doc_labels = [*(doc_labels.index(label) for label in piece_doc_labels), -1]
        renumbered = np.array(new_doc_labels, np.int16)[numbers(batch.column("doc_label"))]
        batch = _with(batch, "doc_label", to_arrow(renumbered, pa.int16()))

    if piece_labels == labels[: len(piece_labels)]:
        return batch

    new_labels = np.array([labels.index(label) for label in piece_labels], np.int16)
    tags = np.zeros(bio.count_tags(len(piece_labels)), np.int16)
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
    """Read labels and document labels from the metadata of a schema."""
    names = msgspec.json.decode(schema.metadata[b"mslm_data"])
    return names["labels"], names.get("doc_labels", [])


def _with(batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    return batch.set_column(batch.schema.get_field_index(name), name, column)
