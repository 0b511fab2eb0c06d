"""Finishes a folder after all work units: writes the files beside the shards, the manifest last."""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from mslm_data.builds.card import card
from mslm_data.builds.folder import Receipt, read_joined, require_receipt
from mslm_data.builds.plan import Plan
from mslm_data.data.bio import tag_names
from mslm_data.data.counts import Counts
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.errors import BuildError
from mslm_data.io.files import canonical_json, clear_temporaries, write_whole
from mslm_data.log import plain
from mslm_data.shard.agreement import FoundByRecord
from mslm_data.shard.manifest import Manifest, SplitRecord, write_manifest
from mslm_data.shard.write import ShardRecord

# The manifest -------------------------------------------------------------------------------------


def finish(
    out: Path,
    plan: Plan,
    labels: Sequence[str],
    doc_labels: Sequence[str] | None,
    tokenizer: Tokenizer,
) -> Manifest:
    """Write the files beside the joined shards, and remove the unfinished state.

    Args:
        out: The folder.
        plan: Its plan.
        labels: Labels of mentions, by index.
        doc_labels: Labels of documents, by index; None if the source has none.
        tokenizer: The tokenizer.

    Returns:
        The manifest.

    Raises:
        BuildError: A unit is not done, or a shard is not joined.
    """
    # Receipts count documents and mentions, records of shards count rows and tokens.
    receipts = load_receipts(out, plan)
    shards: dict[str, list[ShardRecord]] = {split: [] for split in plan.sources}
    for shard in plan.shards:
        joined = read_joined(out, shard)
        if joined is None:
            raise BuildError(f"{out}: shard {shard.name} is not done; run the same command again")
        shards[shard.split].append(joined)

    manifest = Manifest(
        format=plan.record["format"],
        name=plan.record["name"],
        pipeline=plan.record["pipeline"],
        plan=plan.digest(labels),
        versions=plan.record["versions"],
        tokenizer={"sha256": tokenizer.digest, "ids": asdict(tokenizer.ids)},
        labels=tuple(labels),
        tags=tuple(tag_names(labels)),
        doc_labels=None if doc_labels is None else tuple(doc_labels),
        about=plan.record["about"],
        annotator=plan.record["annotator"],
        segmenter=plan.record["segmenter"],
        splits={
            split: _split_record(plan.sources[split], unit_receipts, shards[split])
            for split, unit_receipts in receipts.items()
        },
        found_by=_found_by(receipts) if plan.pipeline.annotate.use == "ensemble" else None,
    )
    write_files(out, manifest, tokenizer, _set_aside(receipts))
    shutil.rmtree(out / ".build", ignore_errors=True)
    return manifest


def load_receipts(out: Path, plan: Plan) -> dict[str, list[Receipt]]:
    """Return split -> the receipts of its work units.

    Raises:
        BuildError: A unit is not done.
    """
    receipts: dict[str, list[Receipt]] = {split: [] for split in plan.sources}
    for unit in plan.units:
        receipts[unit.split].append(require_receipt(out, unit))
    return receipts


def _split_record(
    sources: Sequence[Any], receipts: Sequence[Receipt], shards: Sequence[ShardRecord]
) -> SplitRecord:
    """Add up the receipts of a split."""
    counts = sum((receipt.counts for receipt in receipts), Counts())
    return SplitRecord(
        read=counts.read,
        written=counts.written,
        set_aside=sum(counts.set_aside.values()),
        not_chosen=counts.not_chosen,
        sequences=counts.sequences,
        tokens=counts.tokens,
        mentions=counts.mentions,
        given_mentions=counts.given_mentions,
        left_out=counts.left_out,
        adjusted=counts.adjusted,
        cut_mentions=counts.cut_mentions,
        cut_pieces=counts.cut_pieces,
        widened_mentions=counts.widened_mentions,
        windowed=counts.windowed,
        empty=counts.empty,
        duplicates=counts.copies,
        sources=tuple(sources),
        shards=tuple(shards),
    )


def _found_by(receipts: Mapping[str, Sequence[Receipt]]) -> tuple[FoundByRecord, ...]:
    """Add up the mentions per label and set of annotators over all splits."""
    sums: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for unit_receipts in receipts.values():
        for receipt in unit_receipts:
            for record in receipt.found_by:
                sums[record.label, record.by] += record.mentions
    return tuple(
        FoundByRecord(label=label, by=by, mentions=number)
        for (label, by), number in sorted(sums.items())
    )


# The files ----------------------------------------------------------------------------------------


def write_files(
    out: Path, manifest: Manifest, tokenizer: Tokenizer, set_aside: Iterable[bytes]
) -> None:
    """Write all files beside the shards.

    The manifest is last, because it marks a folder as finished.

    Args:
        out: The folder, with all shards.
        manifest: The manifest.
        tokenizer: The tokenizer.
        set_aside: Lines of `set_aside.jsonl`.
    """
    for name, content in make_files(manifest, tokenizer).items():
        write_whole(out / name, [content])
    write_whole(out / "set_aside.jsonl", set_aside)
    write_whole(out / "tokenizer.json", [tokenizer.json.encode()])
    write_whole(out / "README.md", [card(manifest).encode()])

    for split in manifest.splits:
        clear_temporaries(out / split)
    write_manifest(out, manifest)


def make_files(manifest: Manifest, tokenizer: Tokenizer | None) -> dict[str, bytes]:
    """Return name -> content of the JSON files that manifest and tokenizer determine.

    Without tokenizer, `tokenizer_config.json` is left out.
    """
    values: dict[str, Any] = {"dataset_dict.json": {"splits": list(manifest.splits)}}
    if tokenizer is not None:
        values["tokenizer_config.json"] = tokenizer.config()
    for split, record in manifest.splits.items():
        values[f"{split}/dataset_info.json"] = _info(manifest)
        values[f"{split}/state.json"] = _state(manifest, split, record)
    return {name: canonical_json(value) for name, value in values.items()}


def _info(manifest: Manifest) -> dict[str, Any]:
    """Return the content of `dataset_info.json` for `datasets`."""
    info: dict[str, Any] = msgspec.json.decode(manifest.schema.metadata[b"huggingface"])["info"]
    about = manifest.about
    return info | {
        "description": about.get("title"),
        "homepage": about.get("homepage"),
        "license": about.get("licence"),
        "citation": about.get("citation"),
    }


def _state(manifest: Manifest, split: str, record: SplitRecord) -> dict[str, Any]:
    """Return the content of `state.json` for `datasets`, which needs all seven keys."""
    return {
        "_data_files": [{"filename": shard.file} for shard in record.shards],
        "_fingerprint": hashlib.sha256(f"{manifest.plan} {split}".encode()).hexdigest()[:16],
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": split,
    }


def _set_aside(receipts: dict[str, list[Receipt]]) -> Iterator[bytes]:
    """Yield the lines of `set_aside.jsonl`."""
    for split, unit_receipts in receipts.items():
        for receipt in unit_receipts:
            for aside in receipt.set_aside:
                line = {
                    "split": split,
                    "id": aside.id,
                    "place": aside.place,
                    "reason": aside.reason.text,
                }
                yield plain(msgspec.json.encode(line).decode()).encode() + b"\n"
