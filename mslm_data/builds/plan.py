"""Plans a build: work units, a pure function of inputs and pipeline, and all that decides bytes."""

from __future__ import annotations

import gzip
import hashlib
import importlib.metadata
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from mslm_data._version import __version__
from mslm_data.annotate import Annotator
from mslm_data.annotate.relabel import relabel
from mslm_data.builds.stages import Inputs, annotator_of, find_inputs, segmenter_of
from mslm_data.data.bio import MAX_LABELS
from mslm_data.data.columns import FORMAT
from mslm_data.data.document import Part, WorkUnit
from mslm_data.data.documents import Documents
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.errors import PipelineError, SourceError
from mslm_data.io.files import canonical_json, make_folder, sha256_of, write_whole
from mslm_data.pipeline import Pipeline
from mslm_data.shard.manifest import SPLIT_NAME
from mslm_data.source import Source
from mslm_data.source.reading.files import MAX_UNPACKED

_WRITERS = ("numpy", "pyarrow", "tokenizers")
"""Packages besides this one whose version can change bytes."""
_LISTED = 64
"""Input files that a manifest names one by one; of more it holds one digest over all."""
_RATIO = 4
"""Ratio of a text's size to its compressed size, roughly, for texts that compress badly."""
_AT_ONCE = 1 << 20
"""Bytes that are unpacked at a time."""


class Stamp(NamedTuple):
    """Size and time of a file, which change with its bytes unless somebody sees to it."""

    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The work units of a build, with all that decides its bytes.

    Attributes:
        pipeline: As it was given, with the options that only all inputs together could decide.
        large: Compressed files that are worth unpacking before they are cut; see `make_plan`.
        units: Work units, each of which becomes one shard, in order within its split.
        sizes: About how many bytes of input each unit has.
        labels: The label of each index.
        sources: Split -> name, bytes and sha256 of its input files.
        stamps: Input -> stamps of its files, taken before the build reads them.
        record: Everything that decides bytes, as plain values: `digest` is of it, and two builds
            are the same if it is equal.
    """

    pipeline: Pipeline
    large: tuple[Path, ...]
    units: tuple[WorkUnit, ...]
    sizes: tuple[int, ...]
    labels: tuple[str, ...]
    sources: Mapping[str, tuple[Mapping[str, Any], ...]]
    stamps: Mapping[str, tuple[Stamp, ...]]
    record: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """SHA-256 of the record."""
        return hashlib.sha256(canonical_json(self.record)).hexdigest()

    def totals(self) -> dict[str, int]:
        """Return the number of units of each split."""
        totals = dict.fromkeys(self.sources, 0)
        for unit in self.units:
            totals[unit.split] += 1
        return totals


def make_plan(
    pipeline: Pipeline, inputs: Sequence[Path], tokenizer: Tokenizer, *, staging: Path | None = None
) -> Plan:
    """Plan a build.

    Args:
        pipeline: How the corpus is read, annotated, segmented, encoded and sharded.
        inputs: Files or folders.
        tokenizer: Makes the tokens.
        staging: A folder into which large compressed files are unpacked, so that they can be cut
            like others. None leaves them whole.

    Raises:
        SourceError: There are no inputs of this format, or a compressed one is damaged.
        PipelineError: There are no labels or too many, or a split's name cannot be a folder's.
    """
    found = find_inputs(pipeline, inputs)
    pipeline = found.pipeline
    for split in found.files:
        if not SPLIT_NAME.fullmatch(split):
            raise PipelineError(
                f"pipeline '{pipeline.name}', [source] splits: expected names of letters, digits, "
                f"'.', '_' and '-', got '{split}'"
            )

    # Taken before the build reads anything, so that no later change passes unseen.
    paths = [path for of_split in found.files.values() for path in of_split]
    stamps = {str(path): tuple(map(_stamp, found.source.files(path))) for path in paths}

    large = _worth_staging(found.source, paths, unit_bytes=pipeline.shard.unit_bytes)
    units, sizes = _cut(found, stage(staging, large) if staging else {})
    annotator = annotator_of(pipeline)
    labels = pipeline.annotate.labels or _labels_in(pipeline, annotator, found.source, units)
    if len(labels) > MAX_LABELS:
        raise PipelineError(
            f"pipeline '{pipeline.name}': expected at most {MAX_LABELS} labels, got {len(labels)}; "
            "merge or choose some with [annotate] rename and labels"
        )

    known: dict[Path, Mapping[str, Any]] = {}
    sources = {
        split: _fingerprint(found.source, paths, known) for split, paths in found.files.items()
    }
    effective = pipeline.effective()
    effective["annotate"]["weak"] = annotator.weak
    record = {
        "format": FORMAT,
        "name": pipeline.name,
        "about": asdict(pipeline.about),
        "pipeline": effective,
        "annotator": annotator.digest(),
        "segmenter": segmenter_of(pipeline).digest(),
        "tokenizer": tokenizer.digest,
        "versions": versions(),
        "labels": list(labels),
        "sources": sources,
        "units": [_record_of(unit) for unit in units],
    }
    return Plan(
        pipeline=pipeline,
        large=tuple(large),
        units=tuple(units),
        sizes=tuple(sizes),
        labels=tuple(labels),
        sources=sources,
        stamps=stamps,
        record=record,
    )


@cache
def versions() -> dict[str, str]:
    """Return the versions of the packages that write bytes."""
    others = {name: importlib.metadata.version(name) for name in _WRITERS}
    return {"mslm-data": __version__} | others


def _record_of(unit: WorkUnit) -> list[Any]:
    """Return a unit as plain values, its files without their folders."""
    parts = [[Path(part.path).name, *part[1:]] for part in unit.parts]
    return [unit.split, unit.number, parts]


# Work units ---------------------------------------------------------------------------------------


def _cut(found: Inputs, staged: Mapping[Path, Path]) -> tuple[list[WorkUnit], list[int]]:
    """Cut all files into work units.

    Args:
        found: The files of each split.
        staged: File -> what it was unpacked to; others are cut as they are.

    Returns:
        The units, and about how many bytes of input each has.
    """
    units: list[WorkUnit] = []
    sizes: list[int] = []
    for split, paths in found.files.items():
        source = found.source.of_split(split)
        plain = [staged.get(path, path) for path in paths]
        packed = _pack(source, plain, found.pipeline.shard.unit_bytes)
        for number, (parts, size) in enumerate(packed):
            units.append(WorkUnit(split, number, parts))
            sizes.append(int(size * found.source.share_of(split)))
    return units, sizes


def _pack(
    source: Source, paths: Sequence[Path], unit_bytes: int
) -> Iterator[tuple[tuple[Part, ...], int]]:
    """Give the parts of each unit and their bytes, files in order.

    A large file makes several units; small files that follow each other share one.
    """
    group: list[Part] = []
    filled = 0
    for path in paths:
        size = path.stat().st_size
        parts = list(source.cut(path, target_bytes=unit_bytes))

        if group and (len(parts) > 1 or filled + size > unit_bytes):
            yield tuple(group), filled
            group = []
            filled = 0
        if len(parts) > 1:
            yield from (((part,), size // len(parts)) for part in parts)
        else:
            group += parts
            filled += size
    if group:
        yield tuple(group), filled


# Large compressed files ---------------------------------------------------------------------------


def _worth_staging(source: Source, paths: Iterable[Path], *, unit_bytes: int) -> list[Path]:
    """Return the compressed files that are worth unpacking once.

    A gzip file can only be read from its beginning, so it makes one unit, however large. Unpacked,
    it is cut like a plain file. Not where documents lie in several files: these stay together.
    """
    return [
        path
        for path in sorted(set(paths))
        if path.suffix == ".gz"
        and path.stat().st_size * _RATIO > unit_bytes
        and list(source.files(path)) == [path]
    ]


def stage(folder: Path, paths: Iterable[Path]) -> dict[Path, Path]:
    """Unpack files into a folder of the unfinished build, if they are not there yet.

    They may be patients' text: the folder is private, and goes when the build is finished.

    Returns:
        File -> what it was unpacked to, of the same name without `.gz`.

    Raises:
        SourceError: A file is damaged, or larger than `MAX_UNPACKED`.
    """
    staged: dict[Path, Path] = {}
    for path in paths:
        stamp = " ".join(map(str, _stamp(path)))
        folder_of_stamp = folder / hashlib.sha256(stamp.encode()).hexdigest()[:16]
        staged[path] = folder_of_stamp / path.name.removesuffix(".gz")
        if not staged[path].is_file():
            make_folder(folder_of_stamp)
            write_whole(staged[path], _unpacked(path))
    return staged


def _unpacked(path: Path) -> Iterator[bytes]:
    size = 0
    try:
        with gzip.open(path) as file:
            while piece := file.read(_AT_ONCE):
                size += len(piece)
                if size > MAX_UNPACKED:
                    raise SourceError(
                        f"{path}: unpacks to more than {MAX_UNPACKED >> 30} GiB; pass it unpacked"
                    )
                yield piece
    except (OSError, EOFError, zlib.error) as error:
        raise SourceError(
            f"{path}: cannot be unpacked ({type(error).__name__}); is the file whole?"
        ) from None


# Labels -------------------------------------------------------------------------------------------


def _labels_in(
    pipeline: Pipeline, annotator: Annotator, source: Source, units: Sequence[WorkUnit]
) -> tuple[str, ...]:
    """Read the whole source for the labels that occur, sorted.

    Raises:
        PipelineError: The mentions are not the source's, so that reading it tells nothing.
    """
    rename = pipeline.annotate.rename
    if pipeline.annotate.use != "gold":
        known = sorted({rename.get(label, label) for label in annotator.labels()})
        raise PipelineError(
            f"pipeline '{pipeline.name}', [annotate]: expected labels, got none; choose with "
            f"--set 'annotate.labels={known}' among those that '{pipeline.annotate.use}' finds"
        )

    found: set[str] = set()
    for part in chain.from_iterable(unit.parts for unit in units):
        for record in source.batches(part):
            if isinstance(record, Documents):
                mentions, _ = relabel(record.mentions, rename=rename, labels=())
                found.update(mentions.labels_found())
    return tuple(sorted(found))


# Whether inputs are the same ----------------------------------------------------------------------


def refuse_changed(stamps: Mapping[str, Sequence[Stamp]], unit: WorkUnit) -> None:
    """Check that a unit's inputs are still those that the build was planned for.

    Args:
        stamps: Input -> stamps of its files; an input without stamps is not checked.
        unit: The unit.

    Raises:
        SourceError: A file has changed or is gone.
    """
    for stamp in chain.from_iterable(stamps.get(part.path, ()) for part in unit.parts):
        try:
            same = _stamp(Path(stamp.path)) == stamp
        except OSError:
            same = False
        if not same:
            raise SourceError(
                f"{stamp.path}: expected a file that stays as it is, got another than the build "
                "was planned for; restore it and run the same command again, or choose another "
                "--out"
            )


def _stamp(path: Path) -> Stamp:
    status = path.stat()
    return Stamp(str(path), status.st_size, status.st_mtime_ns)


def _fingerprint(
    source: Source, paths: Sequence[Path], known: dict[Path, Mapping[str, Any]]
) -> tuple[Mapping[str, Any], ...]:
    """Return name, size and digest of each input file, or of all together if there are many.

    Args:
        source: Says which files an input consists of.
        paths: Inputs of one split.
        known: Fingerprints so far, as splits can share files; added to.
    """
    files = [file for path in paths for file in source.files(path)]
    for file in files:
        if file not in known:
            size = file.stat().st_size
            known[file] = {"name": file.name, "bytes": size, "sha256": sha256_of(file)}

    fingerprints = [known[file] for file in files]
    if len(fingerprints) <= _LISTED:
        return tuple(fingerprints)

    whole = hashlib.sha256(canonical_json(fingerprints)).hexdigest()
    total = sum(file["bytes"] for file in fingerprints)
    return ({"name": f"{len(fingerprints)} files", "bytes": total, "sha256": whole},)
