"""Writes some documents of a built folder as a new folder, for `mslm-data subset`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from mslm_data.builds.finish import write_files
from mslm_data.encode.tokenizer import load_tokenizer
from mslm_data.errors import BuildError
from mslm_data.io.files import canonical_json, make_folder, making_folder
from mslm_data.shard.built_folder import BuiltFolder
from mslm_data.shard.manifest import Manifest, SplitRecord
from mslm_data.shard.remote import RemoteFolder
from mslm_data.shard.split import Split
from mslm_data.shard.write import ShardRecord, write_batch


def write_subset(
    folder: BuiltFolder,
    subset: Split,
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
        drawn: How the documents were drawn, for the manifest: `seed` and one of `documents`,
            `share`, `shots`; `term_share` `[low, high]` and its `label`.
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

    splits = {**folder, subset.name: subset}
    total = sum(map(len, splits.values()))
    done = 0
    taken = BuildError(f"{out}: another process made this folder meanwhile")
    with making_folder(out, taken=taken) as temporary:
        records: dict[str, SplitRecord] = {}
        for name, split in splits.items():
            make_folder(temporary / name)
            shards = []
            for shard in _write_shards(split, temporary / name):
                shards.append(shard)
                done += shard.rows
                progress(done, total)
            records[name] = _subset_record(subset, shards) if split is subset else split.record

        manifest = _manifest(folder, subset, drawn, records)
        set_aside = _set_aside(folder.place, subset.name)
        write_files(temporary, manifest, load_tokenizer(str(folder.tokenizer)), set_aside)
    return manifest


def _write_shards(split: Split, folder: Path) -> Iterator[ShardRecord]:
    """Write each shard of a split, or of a selection each shard that has rows of it."""
    total = len(split.record.shards)
    if split.numbers is not None:
        total = sum(rows > 0 for rows in split.shard_rows)
    for number, batch in enumerate(split.batches()):
        yield write_batch(folder / f"data-{number:05d}-of-{total:05d}.arrow", batch)


def _subset_record(subset: Split, shards: list[ShardRecord]) -> SplitRecord:
    """Return the record of the split, with counts of the subset's rows."""
    return SplitRecord(
        read=subset.documents,
        written=subset.documents,
        sequences=len(subset),
        tokens=subset.tokens,
        mentions=subset.mentions,
        given_mentions=subset.mentions,
        sources=subset.record.sources,
        shards=tuple(shards),
    )


def _manifest(
    folder: BuiltFolder,
    subset: Split,
    drawn: Mapping[str, Any],
    records: Mapping[str, SplitRecord],
) -> Manifest:
    """Return the folder's manifest with the subset's splits and a new plan digest."""
    whole = folder.manifest
    taken = {
        "plan": whole.plan,
        "split": subset.name,
        **drawn,
        "documents": subset.documents,
        "rows": subset.digest,
    }
    if whole.subset:
        taken["of"] = whole.subset
    plan = hashlib.sha256(canonical_json(taken)).hexdigest()
    return msgspec.structs.replace(whole, plan=plan, splits=records, subset=taken, found_by=None)


def _set_aside(folder: Path, chosen: str) -> Iterator[bytes]:
    """Yield the lines of `set_aside.jsonl` of splits other than the chosen one."""
    lines = (folder / "set_aside.jsonl").read_bytes().splitlines(keepends=True)
    prefix = f'{{"split":"{chosen}",'.encode()
    yield from (line for line in lines if not line.startswith(prefix))
