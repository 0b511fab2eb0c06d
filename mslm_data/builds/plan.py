"""The plan of a build: work units as a pure function of inputs and pipeline, and a digest of all that decides bytes."""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from mslm_data import __version__
from mslm_data.annotate import ANNOTATORS, Annotator
from mslm_data.annotate.relabel import relabel
from mslm_data.builds.staging import stage, worth_staging
from mslm_data.data.bio import MAX_LABELS
from mslm_data.data.columns import FORMAT
from mslm_data.data.document import Document, Part, WorkUnit
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.errors import PipelineError, SourceError
from mslm_data.io.files import canonical_json, sha256_of
from mslm_data.pipeline import Pipeline
from mslm_data.segment import SEGMENTERS, Segmenter
from mslm_data.shard.manifest import SPLIT_NAME
from mslm_data.source import SOURCES, Source

_WRITERS = ("numpy", "pyarrow", "tokenizers")
"""Packages besides this one whose version can change bytes."""
_LISTED = 64
"""Input files that a manifest names one by one; of more it holds one digest over all."""


class Stamp(NamedTuple):
    """What a file looked like: changed bytes change it, but for an attacker."""

    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What will be built.

    Attributes:
        pipeline: As it was given, with what only all inputs together could decide.
        large: Compressed files that are worth unpacking before; see `staging`.
        units: Each becomes one shard, in order within its split.
        sizes: About how many bytes of input each is.
        labels: The label of each index.
        sources: Split -> name, bytes and sha256 of its input files.
        stamps: Input -> what its files looked like before anything of them was read.
        record: Everything that decides bytes, as plain values: what `digest` is of, and what two builds compare.
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
        pipeline: How.
        inputs: Files or folders.
        tokenizer: What tokenises.
        staging: Where large compressed files are unpacked, so that they are cut like others; None leaves them whole.

    Raises:
        SourceError: No inputs of this format.
        PipelineError: More labels than tags can tell apart, or a split's name that cannot be a folder's.
    """
    pipeline, source, found = find_inputs(pipeline, inputs)
    for split in found:
        if not SPLIT_NAME.fullmatch(split):
            raise PipelineError(
                f"pipeline '{pipeline.name}', [source] splits: expected names of letters, digits, '.', '_' and '-', "
                f"got '{split}'"
            )
    unit_bytes = pipeline.shard.unit_bytes
    paths_of_all = [path for paths in found.values() for path in paths]
    stamps = {str(path): tuple(map(_stamp, source.files(path))) for path in paths_of_all}
    large = worth_staging(source, paths_of_all, unit_bytes=unit_bytes)
    staged = stage(staging, large) if staging else {}
    units: list[WorkUnit] = []
    sizes: list[int] = []
    for split, paths in found.items():
        plain = [staged.get(path, path) for path in paths]
        for number, (parts, size) in enumerate(_pack(source.of_split(split), plain, unit_bytes)):
            units.append(WorkUnit(split, number, parts))
            sizes.append(int(size * source.share_of(split)))
    annotator = annotator_of(pipeline)
    labels = pipeline.annotate.labels or _labels_in(pipeline, source, units)
    if len(labels) > MAX_LABELS:
        raise PipelineError(
            f"pipeline '{pipeline.name}': expected at most {MAX_LABELS} labels, got {len(labels)}; "
            "merge or choose some with [annotate] rename and labels"
        )
    known: dict[Path, Mapping[str, Any]] = {}
    fingerprints = {split: _fingerprint(source, paths, known) for split, paths in found.items()}
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
        "sources": fingerprints,
        "units": [
            [unit.split, unit.number, [[Path(p.path).name, *p[1:]] for p in unit.parts]]
            for unit in units
        ],
    }
    return Plan(
        pipeline=pipeline,
        large=tuple(large),
        units=tuple(units),
        sizes=tuple(sizes),
        labels=tuple(labels),
        sources=fingerprints,
        stamps=stamps,
        record=record,
    )


def refuse_changed(stamps: Mapping[str, Sequence[Stamp]], unit: WorkUnit) -> None:
    """See that a unit's inputs are still what the build was planned for.

    Raises:
        SourceError: One is not.
    """
    for stamp in chain.from_iterable(stamps.get(part.path, ()) for part in unit.parts):
        try:
            same = _stamp(Path(stamp.path)) == stamp
        except OSError:
            same = False
        if not same:
            raise SourceError(
                f"{Path(stamp.path).name}: expected a file that stays as it is, got another than the build was planned "
                "for; restore it and run the same command again, or build into another --out"
            )


def _stamp(path: Path) -> Stamp:
    status = path.stat()
    return Stamp(str(path), status.st_size, status.st_mtime_ns)


def find_inputs(
    pipeline: Pipeline, inputs: Sequence[Path]
) -> tuple[Pipeline, Source, Mapping[str, list[Path]]]:
    """Return the pipeline with what only all inputs together could decide, its source, and split -> files.

    Raises:
        SourceError: No inputs of this format.
    """
    source = source_of(pipeline)
    found = source.find(inputs)
    decided = source.settle(sorted({path for paths in found.values() for path in paths}))
    if decided:
        chosen = replace(pipeline.source, options={**pipeline.source.options, **decided})
        pipeline = replace(pipeline, source=chosen)
        source = source_of(pipeline)
    return pipeline, source, found


def versions() -> dict[str, str]:
    """Return the versions of the packages that write bytes."""
    return {"mslm-data": __version__} | {
        name: importlib.metadata.version(name) for name in _WRITERS
    }


def _pack(
    source: Source, paths: Sequence[Path], unit_bytes: int
) -> Iterator[tuple[tuple[Part, ...], int]]:
    """Put files into units: a large one as several, small ones together, in order; with the bytes of each."""
    group: list[Part] = []
    filled = 0
    for path in paths:
        size = path.stat().st_size
        parts = list(source.cut(path, target_bytes=unit_bytes))
        if group and (len(parts) > 1 or filled + size > unit_bytes):
            yield tuple(group), filled
            group, filled = [], 0
        if len(parts) > 1:
            yield from (((part,), size // len(parts)) for part in parts)
        else:
            group += parts
            filled += size
    if group:
        yield tuple(group), filled


def _labels_in(pipeline: Pipeline, source: Source, units: Sequence[WorkUnit]) -> tuple[str, ...]:
    """Read the whole source for the labels that occur, sorted.

    Raises:
        PipelineError: The mentions are not the source's, so that reading it tells nothing.
    """
    if pipeline.annotate.use != "gold":
        known = annotator_of(pipeline).labels()
        some = ", ".join(known[:20]) + (f" and {len(known) - 20} more" if len(known) > 20 else "")
        raise PipelineError(
            f"pipeline '{pipeline.name}', [annotate]: expected the labels that are wanted, as "
            f"annotator '{pipeline.annotate.use}' finds mentions and not the source, got none; "
            f"it has the labels {some}: list those you want as annotate.labels"
        )
    found: set[str] = set()
    for unit in units:
        for part in unit.parts:
            for record in source.read(part):
                if isinstance(record, Document):
                    spans, _ = relabel(record.spans, rename=pipeline.annotate.rename, labels=())
                    found.update(span.label for span in spans)
    return tuple(sorted(found))


def source_of(pipeline: Pipeline) -> Source:
    """Make the pipeline's source."""
    where = f"pipeline '{pipeline.name}', [source]"
    made: Source = SOURCES.make(pipeline.source.use, pipeline.source.options, where=where)
    return made


def annotator_of(pipeline: Pipeline) -> Annotator:
    """Make the pipeline's annotator; no model is loaded yet."""
    where = f"pipeline '{pipeline.name}', [annotate]"
    made: Annotator = ANNOTATORS.make(
        pipeline.annotate.use,
        pipeline.annotate.options,
        where=where,
        also=("use", "sample", "labels", "rename"),
    )
    return made


def segmenter_of(pipeline: Pipeline) -> Segmenter:
    """Make the pipeline's segmenter."""
    where = f"pipeline '{pipeline.name}', [segment]"
    made: Segmenter = SEGMENTERS.make(pipeline.segment.use, pipeline.segment.options, where=where)
    return made


def _fingerprint(
    source: Source, paths: Sequence[Path], known: dict[Path, Mapping[str, Any]]
) -> tuple[Mapping[str, Any], ...]:
    """Return name, size and digest of each input file, or of all together where there are many; `known` is filled."""
    for path in paths:
        for file in source.files(path):
            if file not in known:
                known[file] = {
                    "name": file.name,
                    "bytes": file.stat().st_size,
                    "sha256": sha256_of(file),
                }
    files = [known[file] for path in paths for file in source.files(path)]
    if len(files) <= _LISTED:
        return tuple(files)
    whole = hashlib.sha256(canonical_json(files)).hexdigest()
    return (
        {
            "name": f"{len(files)} files",
            "bytes": sum(file["bytes"] for file in files),
            "sha256": whole,
        },
    )
