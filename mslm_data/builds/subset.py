"""Writes some documents of a built folder as a new folder, for `mslm-data subset`."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mslm_data.builds.finish import write_files
from mslm_data.encode.tokenizer import load_tokenizer
from mslm_data.errors import BuildError
from mslm_data.io.files import (
    canonical_json,
    make_folder,
    making_folder,
    writing_whole,
)
from mslm_data.shard.built_folder import BuiltFolder
from mslm_data.shard.manifest import Manifest, SplitRecord
from mslm_data.shard.remote import RemoteFolder
from mslm_data.shard.subset import Subset
from mslm_data.shard.write import ShardRecord, write_batch


def write_subset(
    folder: BuiltFolder,
    subset: Subset,
    drawn: Mapping[str, Any],
    out: Path,
    *,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Manifest:
    """Write a folder with some documents of one split, and complete copies of the other splits.

    Rows keep their keys and therefore their masks; labels keep their indices. The same subset gives
    the same bytes. The folder is created complete or not at all.

    Args:
        folder: The built folder.
        subset: Documents of one of its splits.
        drawn: How the documents were drawn, for the manifest: `seed`, and one of `documents`,
            `share`, `shots`.
        out: The new folder.
        progress: Called with the number of written rows and of all rows.

    Raises:
        BuildError: `out` exists already.
        ShardError: A shard is missing or damaged.
    """
    if isinstance(folder.place, RemoteFolder):
        raise BuildError(f"{folder.place}: expected a folder of this machine; copy it here first")
    if out.exists():
        raise BuildError(
            f"{out}: expected a new folder, found one; remove it, or choose another --out"
        )

    chosen = subset.split.name
    total = sum(len(split) for name, split in folder.items() if name != chosen) + len(subset)
    taken = BuildError(f"{out}: another process made this folder meanwhile")
    with making_folder(out, taken=taken) as temporary:
        # Write the rows of the chosen split, and copy the shards of the others.
        records: dict[str, SplitRecord] = {}
        done = 0
        for name, split in folder.items():
            make_folder(temporary / name)
            record = split.record
            if name == chosen:
                shards = []
                for number, batch in enumerate(_subset_batches(subset)):
                    file = f"data-{number:05d}-of-{_count_shards(subset):05d}.arrow"
                    shards.append(write_batch(temporary / name / file, batch))
                    done += batch.num_rows
                    progress(done, total)
                record = _subset_record(record, subset, shards)
            else:
                # Reading the batches opens each shard, which compares its checksum.
                for shard, _ in zip(record.shards, split.batches(), strict=True):
                    _copy(folder.place / name / shard.file, temporary / name / shard.file)
                    done += shard.rows
                    progress(done, total)
            records[name] = record

        manifest = _manifest(folder, subset, drawn, records)
        set_aside = _set_aside(folder.place, chosen)
        write_files(temporary, manifest, load_tokenizer(str(folder.tokenizer)), set_aside)
    return manifest


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as shard, writing_whole(target) as file:
        shutil.copyfileobj(shard, file)


def _subset_batches(subset: Subset) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the subset with all columns, a batch per shard that has any."""
    ends = [*accumulate(subset.split.shard_rows)]
    starts = [0, *ends[:-1]]
    bounds = np.searchsorted(subset.numbers, [0, *ends])
    for number, batch in enumerate(subset.split.batches()):
        rows = subset.numbers[bounds[number] : bounds[number + 1]] - starts[number]
        if len(rows):
            yield batch.take(pa.array(rows))


def _count_shards(subset: Subset) -> int:
    return sum(rows > 0 for rows in subset.shard_rows)


def _subset_record(record: SplitRecord, subset: Subset, shards: list[ShardRecord]) -> SplitRecord:
    """Return the record of the split, with counts of the subset's rows."""
    mentions = sum(shard.mentions for shard in shards)
    return replace(
        record,
        read=subset.documents,
        written=subset.documents,
        set_aside=0,
        not_chosen={},
        given_mentions=mentions,
        left_out={},
        adjusted={},
        cut_mentions=0,
        cut_pieces=0,
        widened_mentions=0,
        windowed=0,
        empty=0,
        duplicates={},
        sequences=len(subset),
        tokens=subset.tokens,
        mentions=mentions,
        shards=tuple(shards),
    )


def _manifest(
    folder: BuiltFolder,
    subset: Subset,
    drawn: Mapping[str, Any],
    records: Mapping[str, SplitRecord],
) -> Manifest:
    """Return the folder's manifest with the subset's splits and a new plan digest."""
    whole = folder.manifest
    taken = {
        "plan": whole.plan,
        "split": subset.split.name,
        **drawn,
        "documents": subset.documents,
        "rows": subset.digest,
    }
    if whole.subset:
        taken["of"] = whole.subset
    plan = hashlib.sha256(canonical_json(taken)).hexdigest()
    return replace(whole, plan=plan, splits=records, subset=taken, found_by=None)


def _set_aside(folder: Path, chosen: str) -> Iterator[bytes]:
    """Yield the lines of `set_aside.jsonl` of splits other than the chosen one."""
    lines = (folder / "set_aside.jsonl").read_bytes().splitlines(keepends=True)
    prefix = f'{{"split":"{chosen}",'.encode()
    yield from (line for line in lines if not line.startswith(prefix))
