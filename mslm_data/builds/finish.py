"""The last step of a build: the folder's own files, `manifest.json` after all others."""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import msgspec

from mslm_data.builds.card import card
from mslm_data.builds.plan import Plan
from mslm_data.builds.unit import Receipt, finished
from mslm_data.data import columns
from mslm_data.data.bio import tag_names
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.errors import BuildError
from mslm_data.io.files import canonical_json, clear_temporaries, write_whole
from mslm_data.shard.manifest import Counts, Manifest, SplitRecord, write_manifest


def finish(out: Path, plan: Plan, tokenizer: Tokenizer) -> Manifest:
    """Finish a folder whose units are all done.

    Raises:
        BuildError: A unit is not done, or no document at all could be used.
    """
    receipts: dict[str, list[Receipt]] = {split: [] for split in plan.sources}
    for unit in plan.units:
        receipts[unit.split].append(finished(out, unit))
    splits = {
        split: _split_record(plan.sources[split], of_split) for split, of_split in receipts.items()
    }
    _refuse_nothing(splits, receipts)
    manifest = Manifest(
        format=columns.FORMAT,
        name=plan.record["name"],
        pipeline=plan.record["pipeline"],
        plan=plan.digest,
        versions=plan.record["versions"],
        tokenizer={"sha256": tokenizer.digest, "ids": asdict(tokenizer.ids)},
        labels=plan.labels,
        tags=tuple(tag_names(plan.labels)),
        about=plan.record["about"],
        annotator=plan.record["annotator"],
        segmenter=plan.record["segmenter"],
        splits=splits,
    )
    _write(out, manifest, tokenizer, receipts)
    return manifest


def _split_record(sources: Sequence[Any], receipts: Sequence[Receipt]) -> SplitRecord:
    """Add up the receipts of a split."""
    sums: dict[str, Any] = {}
    for count in fields(Counts):
        values = [getattr(receipt, count.name) for receipt in receipts]
        total = (
            sum(map(Counter, values), Counter())
            if count.name in ("not_chosen", "left_out", "adjusted")
            else sum(values)
        )
        sums[count.name] = dict(sorted(total.items())) if isinstance(total, Counter) else total
    set_aside = sum(len(receipt.set_aside) for receipt in receipts)
    shards = tuple(receipt.shard for receipt in receipts)
    return SplitRecord(
        **sums,
        written=sums["read"] - set_aside,
        set_aside=set_aside,
        sequences=sum(shard.rows for shard in shards),
        tokens=sum(shard.tokens for shard in shards),
        mentions=sum(shard.mentions for shard in shards),
        sources=tuple(sources),
        shards=shards,
    )


def _refuse_nothing(splits: dict[str, SplitRecord], receipts: dict[str, list[Receipt]]) -> None:
    if any(split.written for split in splits.values()):
        return
    first = next(
        (aside for of in receipts.values() for receipt in of for aside in receipt.set_aside), None
    )
    why = f"; the first is {first.place}: {first.reason}" if first else ""
    read = sum(split.read for split in splits.values())
    raise BuildError(
        f"source: expected documents, got none that can be used of {read} read{why}; check [source]"
    )


def _write(
    out: Path, manifest: Manifest, tokenizer: Tokenizer, receipts: dict[str, list[Receipt]]
) -> None:
    """Write everything beside the shards; what makes a folder look built comes last."""
    schema = columns.schema(
        manifest.labels, weak=manifest.weak, text=bool(manifest.pipeline["encode"]["keep_text"])
    )
    info = msgspec.json.decode(schema.metadata[b"huggingface"])["info"]
    about = manifest.about
    info |= {
        "description": about["title"],
        "homepage": about["homepage"],
        "license": about["licence"],
    }
    info["citation"] = about["citation"]
    for split, record in manifest.splits.items():
        write_whole(out / split / "dataset_info.json", [canonical_json(info)])
        write_whole(out / split / "state.json", [canonical_json(_state(manifest, split, record))])
    lines = [
        msgspec.json.encode(
            {"split": split, "id": aside.id, "place": aside.place, "reason": aside.reason}
        )
        + b"\n"
        for split, of_split in receipts.items()
        for receipt in of_split
        for aside in receipt.set_aside
    ]
    write_whole(out / "set_aside.jsonl", lines)
    write_whole(out / "tokenizer.json", [tokenizer.json.encode()])
    write_whole(out / "README.md", [card(manifest).encode()])
    write_whole(out / "dataset_dict.json", [canonical_json({"splits": list(manifest.splits)})])
    for split in manifest.splits:
        clear_temporaries(out / split)
    write_manifest(out, manifest)
    shutil.rmtree(out / ".build", ignore_errors=True)


def _state(manifest: Manifest, split: str, record: SplitRecord) -> dict[str, Any]:
    """Return what `datasets` wants to know of a split's folder; all seven keys are needed."""
    return {
        "_data_files": [{"filename": shard.file} for shard in record.shards],
        "_fingerprint": hashlib.sha256(f"{manifest.plan} {split}".encode()).hexdigest()[:16],
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": split,
    }
