"""Plans a build: shards and work units, and all that decides bytes.

They are a pure function of the inputs and the pipeline.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from mslm_data._optional import load
from mslm_data._version import __version__
from mslm_data.annotate.relabel import relabel
from mslm_data.builds.data_loss import check_labels
from mslm_data.builds.decontaminate import describe_folders
from mslm_data.builds.scan import Fingerprint, Scan
from mslm_data.builds.stages import (
    Inputs,
    find_inputs,
    forget_annotator,
    list_plugins,
    make_annotator,
    make_segmenter,
)
from mslm_data.builds.tasks import WorkUnit
from mslm_data.data.bio import MAX_LABELS
from mslm_data.data.columns import FORMAT
from mslm_data.data.document import Part
from mslm_data.data.documents import Documents
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.errors import PipelineError, SourceError
from mslm_data.io.files import canonical_json
from mslm_data.log import plain
from mslm_data.pipeline import Pipeline
from mslm_data.shard.manifest import OF_FOLDER, SPLIT_NAME

_WRITERS = ("numpy", "pyarrow", "tokenizers")
"""Packages besides this one whose version can change bytes."""
_TAKEN = {name.casefold() for name in (*OF_FOLDER, "vocab")}
"""Names that no split may have, on disks that take capitals for small letters too."""
_LISTED = 64
"""Input files that a manifest names one by one; of more it holds one digest over all."""


class Stamp(NamedTuple):
    """Size and times of a file, which change with its bytes.

    No program can set `ctime_ns`. The inode is not compared: mounts of buckets and sshfs give a
    file another one when they have forgotten it.
    """

    path: str
    size: int
    mtime_ns: int
    ctime_ns: int


class PlannedShard(NamedTuple):
    """Name a shard, and what it is made of.

    Attributes:
        split: The split that it belongs to.
        number: Its number within the split, from 0.
        parts: The pieces of input, in order.
        units: The work units that these are cut into.
        sizes: About how many bytes of input each unit has.
    """

    split: str
    number: int
    parts: tuple[Part, ...]
    units: tuple[WorkUnit, ...]
    sizes: tuple[int, ...]

    @property
    def name(self) -> str:
        """Return the name that receipts and messages use."""
        return f"{self.split}-{self.number:05d}"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The shards of a build, with all that decides its bytes.

    Attributes:
        pipeline: As it was given, with the options that only all inputs together could decide.
        shards: Shards, in order within their split.
        sources: Split -> name, bytes and sha256 of its input files.
        record: Everything that decides bytes, as plain values. Its labels are the pipeline's; where
            it has none, they are the source's, which are known when every document has been read.
    """

    pipeline: Pipeline
    shards: tuple[PlannedShard, ...]
    sources: Mapping[str, tuple[Mapping[str, Any], ...]]
    record: Mapping[str, Any]

    @property
    def units(self) -> list[WorkUnit]:
        """Every work unit, in order."""
        return [unit for shard in self.shards for unit in shard.units]

    @property
    def sizes(self) -> dict[str, int]:
        """Name of a work unit -> about how many bytes of input it has."""
        return {
            unit.name: size
            for shard in self.shards
            for unit, size in zip(shard.units, shard.sizes, strict=True)
        }

    def digest(self, labels: Sequence[str]) -> str:
        """Return the SHA-256 of the record: two builds are the same if it is equal.

        Args:
            labels: The label of each index.
        """
        whole = {**self.record, "labels": list(labels)}
        return hashlib.sha256(canonical_json(whole)).hexdigest()

    def totals(self) -> dict[str, int]:
        """Return the number of shards of each split."""
        totals = dict.fromkeys(self.sources, 0)
        for shard in self.shards:
            totals[shard.split] += 1
        return totals


def find(pipeline: Pipeline, inputs: Sequence[Path]) -> Inputs:
    """Find the files of a build, and check what can be checked without reading them.

    Args:
        pipeline: How the corpus is read, annotated, segmented, encoded and sharded.
        inputs: Files or folders.

    Raises:
        SourceError: There are no inputs of this format, or one has a name that is not text.
        PipelineError: There are no labels or too many, or a split's name cannot be a folder's.
    """
    # Workers may have another working folder.
    decontaminate = tuple(str(Path(folder).absolute()) for folder in pipeline.decontaminate)
    found = find_inputs(replace(pipeline, decontaminate=decontaminate), inputs)
    _check_names_are_utf8(found)
    where = f"pipeline '{pipeline.name}'"
    for split in found.files:
        if not SPLIT_NAME.fullmatch(split):
            raise PipelineError(
                f"{where}, [source] splits: expected names of letters, digits, '.', '_' and '-', "
                f"got '{split}'"
            )
        if split.casefold() in _TAKEN:
            raise PipelineError(
                f"{where}, [source] splits: a built folder has a file or folder of its own named "
                f"'{split}'; rename the split"
            )

    if pipeline.annotate.labels:
        check_label_count(pipeline, pipeline.annotate.labels)
    elif pipeline.annotate.use not in ("gold", "none"):
        labels = make_annotator(pipeline).labels()
        known = sorted({pipeline.annotate.rename.get(label, label) for label in labels})
        raise PipelineError(
            f"{where}, [annotate]: expected labels, got none; choose with "
            f"--set 'annotate.labels={json.dumps(known)}' among those that "
            f"'{pipeline.annotate.use}' finds"
        )
    return found


def _check_names_are_utf8(found: Inputs) -> None:
    """Check that file names are UTF-8, because document ids are made of them.

    Raises:
        SourceError: A name is not UTF-8.
    """
    for path in found.every_file():
        try:
            str(path).encode()
        except UnicodeEncodeError:
            raise SourceError(
                f"{plain(str(path))}: expected names of files and folders in UTF-8, got other "
                "bytes; rename it, as by convmv"
            ) from None


def check_label_count(pipeline: Pipeline, labels: Sequence[str]) -> None:
    """Check that there are not more labels than the `bio` column can hold."""
    if len(labels) > MAX_LABELS:
        raise PipelineError(
            f"pipeline '{pipeline.name}': expected at most {MAX_LABELS} labels, got {len(labels)}; "
            "merge or choose some with [annotate] rename and labels"
        )


def make_plan(found: Inputs, scan: Scan, identity: Mapping[str, Any]) -> Plan:
    """Plan a build.

    Args:
        found: The files of each split.
        scan: What they hold.
        identity: All that decides bytes besides the files; see `collect_identity`.
    """
    pipeline = found.pipeline
    shards = tuple(_shards(found, scan))
    sources = fingerprints(found, scan.fingerprints)
    record = {
        **identity,
        "format": FORMAT,
        "sources": sources,
        "units": [_record_of(shard) for shard in shards],
    }
    return Plan(pipeline=pipeline, shards=shards, sources=sources, record=record)


def collect_identity(found: Inputs, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return all that decides a build's bytes besides its input files, as plain values.

    Raises:
        AnnotateError: The annotator's model or table is missing or damaged.
        PipelineError: The segmenter's model is missing.
    """
    # A build begins: the annotator that this process used last may have other files by now.
    forget_annotator()

    pipeline = found.pipeline
    annotator = make_annotator(pipeline)
    effective = pipeline.effective()
    effective["annotate"]["weak"] = annotator.weak
    if pipeline.decontaminate:
        effective["source"]["decontaminate"] = describe_folders(pipeline.decontaminate)
    return {
        "name": pipeline.name,
        "about": pipeline.about.record(),
        "pipeline": effective,
        "annotator": annotator.digest(),
        "segmenter": make_segmenter(pipeline).digest(),
        "tokenizer": tokenizer.digest,
        "versions": collect_versions(pipeline),
        "labels": list(pipeline.annotate.labels),
    }


@cache
def versions() -> dict[str, str]:
    """Return the versions of the packages that write bytes."""
    others = {name: importlib.metadata.version(name) for name in _WRITERS}
    return {"mslm-data": __version__} | others


def collect_versions(pipeline: Pipeline) -> dict[str, str]:
    """Return the versions of all packages that decide bytes of what a pipeline makes."""
    found = versions() | {plugin.distribution: plugin.version for plugin in list_plugins(pipeline)}
    if pipeline.duplicates != "keep" and pipeline.duplicate_similarity != 1:
        load("rensa", wanted_by="source.duplicates with near copies")
        found["rensa"] = importlib.metadata.version("rensa")
    return found


def _record_of(shard: PlannedShard) -> list[Any]:
    """Return a shard as plain values, its files without their folders."""
    parts = [[Path(part.path).name, *part[1:]] for part in shard.parts]
    return [shard.split, shard.number, parts]


# Shards and work units ----------------------------------------------------------------------------


class _Piece(NamedTuple):
    """A part of a file, with its bytes and the parts of it that work units read."""

    part: Part
    bytes: int
    parts: list[Part]


def _shards(found: Inputs, scan: Scan) -> Iterator[PlannedShard]:
    """Give the shards of all splits."""
    shard_bytes = found.pipeline.shard.unit_bytes
    for split, paths in found.files.items():
        pieces = (_pieces(scan.cuts[split, path]) for path in paths)
        share = found.source.estimate_share(split)
        for number, shard in enumerate(_pack(pieces, shard_bytes)):
            units, sizes = _units(split, number, shard, scan.unit_bytes)
            parts = tuple(piece.part for piece in shard)
            yield PlannedShard(
                split, number, parts, units, tuple(int(size * share) for size in sizes)
            )


def _pieces(cuts: Mapping[Part, list[Part]]) -> list[_Piece]:
    """Return the parts of one file that make a shard each, or the whole file alone."""
    size = Path(next(iter(cuts)).path).stat().st_size
    return [_Piece(part, size // len(cuts), parts) for part, parts in cuts.items()]


def _pack(files: Iterable[list[_Piece]], shard_bytes: int) -> Iterator[list[_Piece]]:
    """Give what each shard is made of, files in order.

    A large file makes several shards; small files that follow each other share one.
    """
    group: list[_Piece] = []
    filled = 0
    for pieces in files:
        size = sum(piece.bytes for piece in pieces)
        if group and (len(pieces) > 1 or filled + size > shard_bytes):
            yield group
            group = []
            filled = 0
        if len(pieces) > 1:
            yield from ([piece] for piece in pieces)
        else:
            group += pieces
            filled += size
    if group:
        yield group


def _units(
    split: str, shard: int, pieces: Sequence[_Piece], unit_bytes: int
) -> tuple[tuple[WorkUnit, ...], tuple[int, ...]]:
    """Return the work units of a shard, and the bytes of each; small parts share one."""
    groups: list[list[Part]] = []
    sizes: list[int] = []
    for piece in pieces:
        size = piece.bytes // len(piece.parts)
        for part in piece.parts:
            if groups and sizes[-1] + size <= unit_bytes:
                groups[-1].append(part)
                sizes[-1] += size
            else:
                groups.append([part])
                sizes.append(size)
    units = [WorkUnit(split, shard, number, tuple(of)) for number, of in enumerate(groups)]
    return tuple(units), tuple(sizes)


# Labels -------------------------------------------------------------------------------------------


def labels_of(found: Inputs) -> tuple[str, ...]:
    """Return the labels of a build, sorted; where the pipeline has none, by reading the source.

    Raises:
        SourceError: A file cannot be read.
        BuildError: Labels seem to be texts.
    """
    if found.pipeline.annotate.labels:
        return found.pipeline.annotate.labels

    labels: set[str] = set()
    given = 0
    for split in found.files:
        for record in found.batches(split):
            if isinstance(record, Documents):
                rename = found.pipeline.annotate.rename
                mentions, _ = relabel(record.mentions, rename=rename, labels=())
                labels.update(mentions.labels_found())
                given += len(mentions)
    check_labels(found.pipeline, labels=labels, mentions=given)
    return tuple(sorted(labels))


# Whether inputs are the same ----------------------------------------------------------------------


def take_stamps(found: Inputs) -> dict[str, tuple[Stamp, ...]]:
    """Return input -> stamps of its files, to be taken before the build reads anything."""
    return {
        str(path): tuple(map(_stamp, found.source.files(path))) for path in found.splits_of_paths()
    }


def check_unchanged_files(stamps: Mapping[str, Sequence[Stamp]], paths: Iterable[str]) -> None:
    """Check that inputs are still those that a build or another run began with.

    Args:
        stamps: Input -> stamps of its files; an input without stamps is not checked.
        paths: Inputs.

    Raises:
        SourceError: A file has changed or is gone.
    """
    for stamp in chain.from_iterable(stamps.get(path, ()) for path in paths):
        try:
            same = _stamp(Path(stamp.path)) == stamp
        except OSError:
            same = False
        if not same:
            raise changed(stamp.path)


def changed(path: str | Path) -> SourceError:
    """Return the error for an input that has changed since the command began."""
    return SourceError(
        f"{path}: the file has changed since the command began; restore it and run the same "
        "command again, or choose another --out"
    )


def _stamp(path: Path) -> Stamp:
    status = path.stat()
    return Stamp(str(path), status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def fingerprints(
    found: Inputs, of_files: Mapping[Path, Fingerprint]
) -> dict[str, tuple[Mapping[str, Any], ...]]:
    """Return split -> name, size and digest of its input files, or of all together if many.

    Args:
        found: The files of each split.
        of_files: File -> its fingerprint.
    """
    return {
        split: _listed(
            [of_files[file]._asdict() for path in paths for file in found.source.files(path)]
        )
        for split, paths in found.files.items()
    }


def _listed(files: list[dict[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    if len(files) <= _LISTED:
        return tuple(files)

    whole = hashlib.sha256(canonical_json(files)).hexdigest()
    total = sum(file["bytes"] for file in files)
    return ({"name": f"{len(files)} files", "bytes": total, "sha256": whole},)
