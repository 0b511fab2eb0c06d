"""Finishes a folder after all work units: writes the files beside the shards, the manifest last."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from mslm_data.builds.card import card
from mslm_data.builds.copies import SplitTexts
from mslm_data.builds.folder import Receipt, digest_of, is_whole, list_differences
from mslm_data.builds.plan import Sources
from mslm_data.builds.units import BuildUnits
from mslm_data.data.accounts import Counts
from mslm_data.data.bio import tag_names
from mslm_data.data.columns import FORMAT
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.errors import BuildError, ShardError
from mslm_data.io.files import (
    canonical_json,
    clear_temporaries,
    hash_file,
    make_folder,
    write_whole,
)
from mslm_data.log import LOGGER, plain
from mslm_data.shard.agreement import FoundByRecord
from mslm_data.shard.manifest import NAME as MANIFEST
from mslm_data.shard.manifest import (
    Manifest,
    SplitRecord,
    TokenizerRecord,
    read_manifest,
    write_manifest,
)
from mslm_data.shard.write import ShardRecord

# The manifest -------------------------------------------------------------------------------------


def finish(
    units: BuildUnits,
    shards: Mapping[str, Sequence[ShardRecord]],
    *,
    labels: Sequence[str],
    doc_labels: Sequence[str] | None,
    tokenizer: Tokenizer,
) -> Manifest:
    """Write the files beside the joined shards, and remove the unfinished state.

    Args:
        units: All work units, finished.
        shards: Split -> records of its shards, in order.
        labels: Labels of mentions, by index.
        doc_labels: Labels of documents, by index; None if the source has none.
        tokenizer: The tokenizer.

    Returns:
        The manifest.
    """
    plan = units.plan
    identity = plan.identity
    outcomes = units.outcomes()
    made = [units.made(unit) for unit in plan.units]
    is_ensemble = units.inputs.pipeline.annotate.use == "ensemble"
    manifest = Manifest(
        format=FORMAT,
        name=identity["name"],
        pipeline=identity["pipeline"],
        plan=digest_of(FORMAT, identity, units.versions, plan.sources, made, labels),
        versions=units.versions,
        tokenizer=TokenizerRecord(sha256=tokenizer.digest, ids=tokenizer.ids),
        labels=tuple(labels),
        tags=tuple(tag_names(labels)),
        doc_labels=None if doc_labels is None else tuple(doc_labels),
        about=identity["about"],
        annotator=identity["annotator"],
        segmenter=identity["segmenter"],
        splits={
            split: _split_record(
                receipts, units.all_found.splits.get(split), plan.sources[split], shards[split]
            )
            for split, receipts in outcomes.items()
        },
        found_by=_found_by(outcomes) if is_ensemble else None,
    )
    folder = units.folder
    _remove_other_shards(folder.out, manifest)
    write_files(folder.out, manifest, tokenizer, _set_aside(outcomes))
    folder.remove()
    return manifest


def _remove_other_shards(out: Path, manifest: Manifest) -> None:
    """Remove the shards of an earlier plan, such as one of other options after a question."""
    for split, record in manifest.splits.items():
        names = {shard.file for shard in record.shards}
        for path in (out / split).glob("data-?????-of-?????.arrow"):
            if path.name not in names:
                path.unlink()


def _split_record(
    receipts: Sequence[Receipt],
    equal_texts: SplitTexts | None,
    sources: Sequence[Mapping[str, Any]],
    shards: Sequence[ShardRecord],
) -> SplitRecord:
    """Add up the receipts of a split."""
    counts = sum((receipt.counts for receipt in receipts), Counts())
    if equal_texts is not None:
        counts.equal_texts = equal_texts.to_counts()
    values = msgspec.structs.asdict(counts) | {"reasons": {}}
    return SplitRecord(**values, sources=tuple(sources), shards=tuple(shards))


def _found_by(outcomes: Mapping[str, Sequence[Receipt]]) -> tuple[FoundByRecord, ...]:
    """Add up the mentions per label and set of annotators over all splits."""
    sums: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for receipts in outcomes.values():
        for receipt in receipts:
            for record in receipt.found_by:
                sums[record.label, record.by] += record.mentions
    return tuple(
        FoundByRecord(label=label, by=by, mentions=number)
        for (label, by), number in sorted(sums.items())
    )


# A finished folder --------------------------------------------------------------------------------


def load_finished(out: Path, identity: Mapping[str, Any], sources: Sources) -> Manifest | None:
    """Load the manifest of a finished folder, if it has the same identity and inputs.

    A folder with missing or damaged files becomes an unfinished one, and is built again. The same
    inputs give the same bytes, so other files, such as lexicons made from the shards, are kept.
    Packages may have other versions than when it was built.

    Args:
        out: The folder.
        identity: From `plan.collect_identity`.
        sources: From `plan.find_sources`.

    Returns:
        The manifest; None for a folder to build again.

    Raises:
        BuildError: The folder was built from other inputs or options, or its manifest cannot be
            read.
    """
    try:
        manifest = read_manifest(out)
    except ShardError as error:
        raise BuildError(f"{error}; choose another --out or remove {out} first") from None
    before = {
        "name": manifest.name,
        "about": manifest.about,
        "pipeline": manifest.pipeline,
        "annotator": manifest.annotator,
        "segmenter": manifest.segmenter,
        "tokenizer": manifest.tokenizer.sha256,
        "labels": list(manifest.labels),
        "sources": {name: list(split.sources) for name, split in manifest.splits.items()},
        "subset": manifest.subset,
    }
    # A build never makes a subset, which otherwise has the record of the whole folder. Without
    # labels in the pipeline, they follow from the sources, which are compared.
    now = {**identity, "sources": sources, "subset": None}
    now["labels"] = now["labels"] or before["labels"]
    now = msgspec.json.decode(canonical_json(now))
    different = list_differences(msgspec.json.decode(canonical_json(before)), now)
    if different:
        raise BuildError(
            f"{out}: holds what was built from something else; different: {', '.join(different)}; "
            "choose another --out or remove it"
        )

    damaged = find_damaged_files(out, manifest)
    if not damaged:
        return manifest
    LOGGER.warning(
        "%s: %d of its files are missing or damaged, such as %s; building the folder again",
        *(out, len(damaged), damaged[0]),
    )
    make_folder(out / ".build")
    (out / MANIFEST).unlink(missing_ok=True)
    return None


def find_damaged_files(out: Path, manifest: Manifest) -> list[str]:
    """Return the missing files of a finished folder, and those unlike the manifest.

    For files without a digest, only a missing file is found.

    A folder with such files is built again to the same bytes, so files of `vocab/` stay valid.
    """
    records = {
        f"{name}/{shard.file}": shard
        for name, split in manifest.splits.items()
        for shard in split.shards
    }
    damaged = []
    for name in manifest.files():
        path = out / name
        if name in records:
            good = is_whole(path, records[name])
        elif name == "tokenizer.json":
            good = path.is_file() and hash_file(path) == manifest.tokenizer.sha256
        else:
            good = path.is_file()
        if not good:
            damaged.append(name)
    return damaged


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


def _set_aside(outcomes: Mapping[str, Sequence[Receipt]]) -> Iterator[bytes]:
    """Yield the lines of `set_aside.jsonl`."""
    for split, receipts in outcomes.items():
        for receipt in receipts:
            for aside in receipt.set_aside:
                line = {
                    "split": split,
                    "id": aside.id,
                    "place": aside.place,
                    "reason": aside.reason.text,
                }
                yield plain(msgspec.json.encode(line).decode()).encode() + b"\n"
