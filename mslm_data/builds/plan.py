"""Plans a build: its shards, its work units, and the record of everything that decides bytes.

A plan is a pure function of the inputs and the pipeline.
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
"""Packages besides this one whose versions can change bytes."""
_TAKEN = {name.casefold() for name in (*OF_FOLDER, "vocab")}
"""Names that splits cannot have, compared without case because some file systems ignore it."""
_LISTED = 64
"""Maximum number of input files listed in a manifest; more are recorded as one digest."""


class Stamp(NamedTuple):
    """Size and times of a file, to detect changes without reading it.

    Programs cannot set `ctime_ns`. The inode is not compared, because mounts of buckets and sshfs
    may give a file a new one at any time.
    """

    path: str
    size: int
    mtime_ns: int
    ctime_ns: int


class PlannedShard(NamedTuple):
    """A shard of the plan.

    Attributes:
        split: Its split.
        number: Its number in the split, from 0.
        parts: Its parts of input files, in order.
        units: The work units for these parts.
        sizes: Approximate number of input bytes of each unit.
    """

    split: str
    number: int
    parts: tuple[Part, ...]
    units: tuple[WorkUnit, ...]
    sizes: tuple[int, ...]

    @property
    def name(self) -> str:
        """Name for receipts and messages."""
        return f"{self.split}-{self.number:05d}"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The shards of a build, and everything that decides its bytes.

    Attributes:
        pipeline: The pipeline, with all options settled by the input files.
        shards: All shards, in order within each split.
        sources: Split -> name, bytes and sha256 of its input files.
        record: Everything that decides bytes, as plain values. If the pipeline names no labels, the
            record has none, because they are known only after all documents are read.
    """

    pipeline: Pipeline
    shards: tuple[PlannedShard, ...]
    sources: Mapping[str, tuple[Mapping[str, Any], ...]]
    record: Mapping[str, Any]

    @property
    def units(self) -> list[WorkUnit]:
        """All work units, in order."""
        return [unit for shard in self.shards for unit in shard.units]

    @property
    def sizes(self) -> dict[str, int]:
        """Work unit name -> approximate number of input bytes."""
        return {
            unit.name: size
            for shard in self.shards
            for unit, size in zip(shard.units, shard.sizes, strict=True)
        }

    def digest(self, labels: Sequence[str]) -> str:
        """Return the SHA-256 of the record with labels; equal builds have equal digests.

        Args:
            labels: Labels of mentions, by index.
        """
        whole = {**self.record, "labels": list(labels)}
        return hashlib.sha256(canonical_json(whole)).hexdigest()

    def totals(self) -> dict[str, int]:
        """Return split -> number of shards."""
        totals = dict.fromkeys(self.sources, 0)
        for shard in self.shards:
            totals[shard.split] += 1
        return totals


def find(pipeline: Pipeline, inputs: Sequence[Path]) -> Inputs:
    """Find the input files of a build, and make all checks that need no reading.

    Args:
        pipeline: Options of the source, annotator, segmenter, encoder and shards.
        inputs: Files or folders.

    Raises:
        SourceError: No file has this format, or a file name is not UTF-8.
        PipelineError: The pipeline has no labels, or a split's name cannot be a folder's.
        BuildError: The pipeline has too many labels.
    """
    # Make paths absolute: workers may have another working directory.
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
        check_labels(pipeline, labels=pipeline.annotate.labels)
    elif pipeline.annotate.use not in ("gold", "none"):
        labels = make_annotator(pipeline).labels()
        known = sorted({pipeline.annotate.rename.get(label, label) for label in labels})
        example = json.dumps(known) if known else '["LABEL", …]'
        raise PipelineError(
            f"{where}, [annotate]: expected labels, got none; choose with "
            f"--set 'annotate.labels={example}' among those that '{pipeline.annotate.use}' finds"
        )
    return found


def _check_names_are_utf8(inputs: Inputs) -> None:
    """Check that file names are UTF-8, because document ids are made from them."""
    for path in inputs.every_file():
        try:
            str(path).encode()
        except UnicodeEncodeError:
            raise SourceError(
                f"{plain(str(path))}: expected names of files and folders in UTF-8, got other "
                "bytes; rename it, as by convmv"
            ) from None


def make_plan(inputs: Inputs, scan: Scan, identity: Mapping[str, Any]) -> Plan:
    """Plan a build.

    Args:
        inputs: The files of each split.
        scan: Digests and cuts of these files.
        identity: Everything else that decides bytes; see `collect_identity`.
    """
    pipeline = inputs.pipeline
    shards = tuple(_shards(inputs, scan))
    sources = fingerprints(inputs, scan.fingerprints)
    record = {
        **identity,
        "format": FORMAT,
        "sources": sources,
        "units": [_to_record(shard) for shard in shards],
    }
    return Plan(pipeline=pipeline, shards=shards, sources=sources, record=record)


def collect_identity(inputs: Inputs, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return everything that decides a build's bytes besides its input files, as plain values.

    Raises:
        AnnotateError: The annotator's model or table is missing or damaged.
        PipelineError: The segmenter's model is missing.
    """
    # Digest the files as they are now, not as an earlier build of this process loaded them.
    forget_annotator()

    pipeline = inputs.pipeline
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
    """Return the versions of this package and of the packages that write bytes."""
    others = {name: importlib.metadata.version(name) for name in _WRITERS}
    return {"mslm-data": __version__} | others


def collect_versions(pipeline: Pipeline) -> dict[str, str]:
    """Return the versions of all packages that decide a pipeline's bytes, including plug-ins."""
    packages = versions() | {
        plugin.distribution: plugin.version for plugin in list_plugins(pipeline)
    }
    if pipeline.duplicates != "keep" and pipeline.duplicate_similarity != 1:
        load("rensa", wanted_by="source.duplicates with near copies")
        packages["rensa"] = importlib.metadata.version("rensa")
    return packages


def _to_record(shard: PlannedShard) -> list[Any]:
    """Return a shard as plain values, without the folders of its files."""
    parts = [[Path(part.path).name, *part[1:]] for part in shard.parts]
    return [shard.split, shard.number, parts]


# Shards and work units ----------------------------------------------------------------------------


class _Piece(NamedTuple):
    """A part of a file, with its size and the smaller parts into which it is cut."""

    part: Part
    bytes: int
    parts: Sequence[Part] = ()


def _shards(inputs: Inputs, scan: Scan) -> Iterator[PlannedShard]:
    """Yield the shards of all splits."""
    shard_bytes = inputs.pipeline.shard.unit_bytes
    for split, paths in inputs.files.items():
        pieces = (_pieces(scan.cuts[split, path]) for path in paths)
        # A file with several splits counts for each by its share of the bytes.
        share = inputs.source.estimate_share(split)
        for number, shard in enumerate(_pack(pieces, shard_bytes)):
            groups = [*_pack(map(_cut_piece, shard), scan.unit_bytes)]
            units = tuple(
                WorkUnit(split, number, place, _parts(group)) for place, group in enumerate(groups)
            )
            sizes = tuple(int(sum(piece.bytes for piece in group) * share) for group in groups)
            yield PlannedShard(split, number, _parts(shard), units, sizes)


def _pieces(cuts: Mapping[Part, list[Part]]) -> list[_Piece]:
    """Return the parts of a large file, a shard each; or a small file as one part."""
    size = Path(next(iter(cuts)).path).stat().st_size
    return [_Piece(part, size // len(cuts), parts) for part, parts in cuts.items()]


def _cut_piece(piece: _Piece) -> list[_Piece]:
    """Return the parts of a piece for work units."""
    return [_Piece(part, piece.bytes // len(piece.parts)) for part in piece.parts]


def _parts(pieces: Iterable[_Piece]) -> tuple[Part, ...]:
    return tuple(piece.part for piece in pieces)


def _pack(cut: Iterable[list[_Piece]], max_bytes: int) -> Iterator[list[_Piece]]:
    """Yield the pieces of each shard, or of each work unit of a shard, in order.

    Each piece of something large is alone. Small ones share a shard or unit with their neighbours.
    So the files of a unit are either complete, or it has a single one; see `duplicate_ids`.
    """
    group: list[_Piece] = []
    filled = 0
    for pieces in cut:
        size = sum(piece.bytes for piece in pieces)
        if group and (len(pieces) > 1 or filled + size > max_bytes):
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


# Labels -------------------------------------------------------------------------------------------


def collect_labels(inputs: Inputs) -> tuple[str, ...]:
    """Return the labels of a build, sorted; read the source if the pipeline names none.

    Raises:
        SourceError: A file cannot be read.
        BuildError: Labels seem to be texts.
    """
    if inputs.pipeline.annotate.labels:
        return inputs.pipeline.annotate.labels

    labels: set[str] = set()
    given = 0
    for split in inputs.files:
        for record in inputs.batches(split):
            if isinstance(record, Documents):
                rename = inputs.pipeline.annotate.rename
                mentions, _ = relabel(record.mentions, rename=rename, labels=())
                labels.update(mentions.used_labels())
                given += len(mentions)
    check_labels(inputs.pipeline, labels=labels, mentions=given)
    return tuple(sorted(labels))


# Changed inputs -----------------------------------------------------------------------------------


def take_stamps(inputs: Inputs) -> dict[str, tuple[Stamp, ...]]:
    """Return input -> stamps of its files; call it before the build reads anything."""
    return {
        str(path): tuple(map(_stamp, inputs.source.files(path)))
        for path in inputs.splits_of_paths()
    }


def check_unchanged_files(stamps: Mapping[str, Sequence[Stamp]], paths: Iterable[str]) -> None:
    """Check that inputs have not changed since their stamps were taken.

    Args:
        stamps: Input -> stamps of its files. Inputs without stamps are not checked.
        paths: The inputs to check.

    Raises:
        SourceError: A file has changed or is missing.
    """
    for stamp in chain.from_iterable(stamps.get(path, ()) for path in paths):
        try:
            same = _stamp(Path(stamp.path)) == stamp
        except OSError:
            same = False
        if not same:
            raise changed_error(stamp.path)


def changed_error(path: str | Path) -> SourceError:
    """Return the error for an input changed during the command."""
    return SourceError(
        f"{path}: the file has changed since the command began; restore it and run the same "
        "command again, or choose another --out"
    )


def _stamp(path: Path) -> Stamp:
    status = path.stat()
    return Stamp(str(path), status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def fingerprints(
    inputs: Inputs, file_fingerprints: Mapping[Path, Fingerprint]
) -> dict[str, tuple[Mapping[str, Any], ...]]:
    """Return split -> name, size and digest of its input files; one entry in total if many.

    Args:
        inputs: The files of each split.
        file_fingerprints: File -> its fingerprint.
    """
    return {
        split: _listed(
            [
                file_fingerprints[file]._asdict()
                for path in paths
                for file in inputs.source.files(path)
            ]
        )
        for split, paths in inputs.files.items()
    }


def _listed(files: list[dict[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    if len(files) <= _LISTED:
        return tuple(files)

    whole = hashlib.sha256(canonical_json(files)).hexdigest()
    total = sum(file["bytes"] for file in files)
    return ({"name": f"{len(files)} files", "bytes": total, "sha256": whole},)
