"""Damage to a built folder: shard bytes, the manifest, or invalid rows with a correct checksum."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged
from mslm_data.io.files import canonical_json
from mslm_data.shard.manifest import read_manifest
from mslm_data.shard.read import Shard
from mslm_data.shard.write import (
    ShardRecord,
    record_batch,
    write_batch,
    write_stream_with_footer,
)

COLUMNS = (
    "input_ids",
    "word_ids",
    "bio",
    "span_starts",
    "span_ends",
    "span_labels",
    "token_starts",
    "token_ends",
    "sentence_starts",
)


def first_shard(folder: Path) -> Path:
    return min((folder / "train").glob("*.arrow"))


def flip(path: Path, place: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1 << bit
    path.write_bytes(data)


def edit_manifest(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    path = folder / "manifest.json"
    value = json.loads(path.read_bytes())
    change(value)
    path.write_bytes(canonical_json(value))


def claim(folder: Path, record: ShardRecord) -> None:
    """Change entries of the first shard in the manifest."""

    def change(manifest: dict[str, Any]) -> None:
        manifest["splits"]["train"]["shards"][0] = asdict(record)

    edit_manifest(folder, change)


def claim_bytes(folder: Path, data: bytes) -> None:
    """Replace the bytes of the first shard, and update the manifest."""
    import hashlib

    path = first_shard(folder)
    path.write_bytes(data)
    record = read_manifest(folder).splits["train"].shards[0]
    claim(folder, replace(record, bytes=len(data), sha256=hashlib.sha256(data).hexdigest()))


def numbers_of(shard: Shard, column: str) -> np.ndarray:
    return shard.batch.column(column).flatten().to_numpy().copy()


def rows_in(folder: Path) -> Examples:
    """Return copies of the arrays of the first shard."""
    manifest = read_manifest(folder)
    shard = Shard(first_shard(folder), manifest.splits["train"].shards[0], manifest)
    examples = shard.columns().slice(0, len(shard))

    def own(column: Ragged) -> Ragged:
        return Ragged(column.values.copy(), column.offsets.copy())

    columns = [name for name in COLUMNS if getattr(examples, name) is not None]
    more: dict[str, Any] = {name: own(getattr(examples, name)) for name in columns}
    if "text" in shard.batch.schema.names:
        more["texts"] = shard.batch.column("text").to_pylist()
    if "span_concepts" in shard.batch.schema.names:
        more["span_concepts"] = shard.batch.column("span_concepts").flatten().to_pylist()
        more["span_scores"] = numbers_of(shard, "span_scores")
    if "span_contexts" in shard.batch.schema.names:
        more["span_contexts"] = numbers_of(shard, "span_contexts")

    rows = replace(
        examples,
        keys=examples.keys.copy(),
        doc_ids=shard.batch.column("doc_id").to_pylist(),
        **more,
    )
    for array in (rows.keys, *(getattr(rows, name).values for name in columns)):
        array.flags.writeable = True  # Loaded arrays are read-only.
    return rows


def forge(folder: Path, change: Callable[[Examples], Examples | None]) -> None:
    """Rewrite the first shard with changed rows, and update its checksum."""
    examples = rows_in(folder)
    schema = pa.ipc.open_stream(str(first_shard(folder))).schema
    batch = record_batch(change(examples) or examples, schema)
    claim(folder, write_batch(first_shard(folder), batch))


def set_value(column: str, place: int, value: int) -> Callable[[Examples], None]:
    def change(examples: Examples) -> None:
        getattr(examples, column).values[place] = value

    return change


def first_mention(folder: Path) -> tuple[int, int]:
    """Return the row of the first mention, and the offset of that row in the flat columns."""
    examples = rows_in(folder)
    row = int(np.flatnonzero(examples.span_starts.lengths)[0])
    return row, int(examples.input_ids.offsets[row])


def dual_file(batch: pa.RecordBatch) -> bytes:
    """Return the bytes of a shard with these columns."""
    file = io.BytesIO()
    write_stream_with_footer(batch, file)
    return file.getvalue()
