"""Plans a build: its input files, its shards and work units, and the identity of everything else.

A plan is a pure function of the inputs and the pipeline. The *identity* is everything besides the
input files and the versions of packages that decides the bytes of a folder.

A unit is a few megabytes, whatever the size of shards. So one file keeps all cores busy, and an
interruption loses seconds; but rows are written twice, as pieces and in shards.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from mslm_data._version import __version__
from mslm_data.builds.copies import load_rensa
from mslm_data.builds.data_loss import check_labels
from mslm_data.builds.decontaminate import describe_folders
from mslm_data.builds.folder import Unfinished, digest_of, list_differences
from mslm_data.builds.scan import (
    SLOW_UNIT_BYTES,
    UNIT_BYTES,
    FileDigest,
    digest_of_files,
    digest_part,
    is_worth_unpacking,
    plan_digests,
)
from mslm_data.builds.stages import (
    Inputs,
    find_inputs,
    forget_annotator,
    list_plugins,
    make_annotator,
    make_segmenter,
)
from mslm_data.builds.tasks import Cut, Unit, Unpack
from mslm_data.data.document import Part
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.engine import Run
from mslm_data.errors import BuildError, PipelineError, SourceError
from mslm_data.io.files import canonical_json
from mslm_data.log import plain
from mslm_data.pipeline import Pipeline
from mslm_data.shard.manifest import OF_FOLDER
from mslm_data.shard.write import FILE_NAME
from mslm_data.source.reading.files import folder_name

_WRITERS = ("numpy", "pyarrow", "tokenizers")
"""Packages besides this one whose versions can change bytes."""
_TAKEN = {name.casefold() for name in (*OF_FOLDER, "vocab")}
"""Names that splits cannot have, compared without case because some file systems ignore it."""


# The inputs and the identity ----------------------------------------------------------------------


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
    decontaminate = tuple(str(Path(folder).absolute()) for folder in pipeline.source.decontaminate)
    source = replace(pipeline.source, decontaminate=decontaminate)
    found = find_inputs(replace(pipeline, source=source), inputs)
    _check_names_are_utf8(found)
    where = f"pipeline '{pipeline.name}'"
    for split in found.files:
        if not re.match(FILE_NAME, split):
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


def collect_identity(inputs: Inputs, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the identity of a build, as plain values.

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
    if pipeline.source.decontaminate:
        effective["source"]["decontaminate"] = describe_folders(pipeline.source.decontaminate)
    identity = {
        "name": pipeline.name,
        "about": msgspec.to_builtins(pipeline.about),
        "pipeline": effective,
        "annotator": annotator.digest(),
        "segmenter": make_segmenter(pipeline).digest(),
        "tokenizer": tokenizer.digest,
        "labels": list(pipeline.annotate.labels),
    }
    plain_values: dict[str, Any] = msgspec.json.decode(canonical_json(identity))
    return plain_values


@cache
def _versions() -> dict[str, str]:
    others = {name: importlib.metadata.version(name) for name in _WRITERS}
    return {"mslm-data": __version__} | others


def collect_versions(pipeline: Pipeline) -> dict[str, str]:
    """Return the versions of all packages that can change a pipeline's bytes, also of plug-ins."""
    packages = _versions() | {
        plugin.distribution: plugin.version for plugin in list_plugins(pipeline)
    }
    source = pipeline.source
    if source.duplicates in ("count", "drop") and source.duplicate_similarity != 1:
        load_rensa()
        packages["rensa"] = importlib.metadata.version("rensa")
    return packages


# The plan -----------------------------------------------------------------------------------------


_LISTED = 64
"""Maximum number of input files listed in a manifest; more are recorded as one digest."""
Sources: TypeAlias = dict[str, list[dict[str, Any]]]
"""Split -> name, bytes and sha256 of its input files; one entry in total if many."""


class InputFile(NamedTuple):
    """An input file of a plan.

    Attributes:
        name: Path below the input, or the file's name.
        bytes: Size of the file.
        sha256: Its SHA-256.
        copy: Path of its unpacked copy, below the folder of all copies; "" if it is not unpacked.
    """

    name: str
    bytes: int
    sha256: str
    copy: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The work units of a build, and what they are made from.

    Attributes:
        identity: The identity.
        sources: Digests of the input files, for the manifest.
        files: The input files, in order. As a record, units name them by their index.
        units: All work units, in order.
    """

    identity: dict[str, Any]
    sources: Sources
    files: tuple[InputFile, ...]
    units: tuple[Unit, ...]

    def made(self, unit: Unit, kinds: bytes, versions: Mapping[str, str]) -> str:
        """Return what decides the bytes of a unit, as a digest.

        Args:
            unit: The unit.
            kinds: The kinds of its documents, see `BuildUnit.kinds`.
            versions: Versions of packages.
        """
        parts = [[Path(part.path).name, *part[1:]] for part in unit.parts]
        return digest_of(
            self.identity, versions, unit.name, parts, unit.digests, unit.prefixes, kinds
        )

    def shards(self) -> dict[str, list[Unit]]:
        """Return the name of each shard -> its units, in order."""
        shards: dict[str, list[Unit]] = {}
        for unit in self.units:
            shards.setdefault(unit.shard_name, []).append(unit)
        return shards


def load_plan(
    run: Run, inputs: Inputs, identity: Mapping[str, Any], folder: Unfinished, *, is_part: bool
) -> Plan | None:
    """Load the plan of an unfinished build; None if there is none.

    Args:
        run: Runs tasks, to hash the input files.
        inputs: The input files.
        identity: The identity.
        folder: The unfinished folder.
        is_part: Whether to compare only names and sizes of the input files. A work unit compares
            the digests of what it reads.

    Raises:
        BuildError: The plan is of other inputs or options, or is damaged.
    """
    data = folder.read_plan()
    if data is None:
        return None
    plan = msgspec.json.decode(data, type=Plan)
    before = [(file.name, file.bytes) for file in plan.files]
    different = [
        *list_differences(plan.identity, identity),
        *list_differences(before, _describe(inputs), "inputs"),
    ]
    if not different and not is_part:
        different += list_differences(plan.sources, find_sources(run, inputs), "sources")
    if different:
        raise BuildError(
            f"{folder.out}: holds an unfinished build of something else; different: "
            f"{', '.join(different)}; choose another --out or remove it"
        )

    paths = zip(plan.files, inputs.splits_of_paths(), strict=True)
    read = [str(folder.copy(file.copy) if file.copy else path) for file, path in paths]
    return _with_paths(plan, {str(number): path for number, path in enumerate(read)})


def make_plan(
    run: Run,
    inputs: Inputs,
    identity: dict[str, Any],
    folder: Unfinished,
    *,
    unpacks: bool = True,
) -> Plan:
    """Cut the input files into work units, and keep the plan in the unfinished folder.

    Args:
        run: Runs tasks, to hash, unpack and cut files.
        inputs: The input files.
        identity: The identity.
        folder: The unfinished folder.
        unpacks: Whether to unpack large compressed files. Default: True.
    """
    unit_bytes = choose_unit_bytes(inputs.pipeline)
    splits = inputs.splits_of_paths()
    packed = [
        path for path in splits if unpacks and is_worth_unpacking(path, inputs.source, unit_bytes)
    ]
    digests = digest_files(run, packed)
    copies = {path: _name_copy(path, digests[path].sha256) for path in packed}
    read = {path: folder.copy(copies[path]) if path in copies else path for path in splits}
    for _ in run(Unpack(str(path), digests[path].sha256, str(read[path])) for path in copies):
        pass

    # A file of at most one unit is not cut.
    sizes = {path: file.stat().st_size for path, file in read.items()}
    cuts = run(
        Cut(split, str(read[path]), unit_bytes)
        for path in splits
        if sizes[path] > unit_bytes
        for split in splits[path]
    )
    parts = {(task.split, task.path): cut for task, cut in cuts}

    # Other files are hashed after they were cut. So if one is replaced in between, the units find
    # other parts than those that were cut.
    digests |= digest_files(run, [path for path in inputs.every_file() if path not in digests])

    units: list[Unit] = []
    prefixes = inputs.prefixes()
    for split, paths in inputs.files.items():
        files = []
        for path in paths:
            of_path = [digests[file].sha256 for file in inputs.source.files(path)]
            whole = [(Part(str(read[path])), digest_of_files(of_path))]
            # A file with several splits counts for each by its share of the bytes.
            size = int(sizes[path] * inputs.source.estimate_share(split))
            cut = parts.get((split, str(read[path])), whole)
            files.append(_FileParts(cut, size, prefixes.get(path, "")))
        units += _pack(split, files, unit_bytes, inputs.pipeline.shard.input_bytes)

    plan = Plan(
        identity=identity,
        sources=_list_sources(inputs, digests),
        files=tuple(
            InputFile(name, size, digests[path].sha256, copies.get(path, ""))
            for path, (name, size) in zip(splits, _describe(inputs), strict=True)
        ),
        units=tuple(units),
    )
    numbers = {str(path): str(number) for number, path in enumerate(read.values())}
    folder.write_plan(msgspec.json.encode(_with_paths(plan, numbers)))
    return plan


def as_one_unit(inputs: Inputs, split: str) -> Unit:
    """Return all files of a split as a single work unit. Without files, it has a part without one.

    Documents are read part by part, so a large file does not fill the memory.
    """
    source = inputs.source.for_split(split)
    prefixes = inputs.prefixes()
    parts = [
        (part, digest_part(part, source), prefixes.get(path, ""))
        for path in inputs.files[split]
        for part in source.cut(Part(str(path)), target_bytes=UNIT_BYTES)
    ]
    return Unit(split, 0, 0, 0, *zip(*parts or [(Part(""), "", "")], strict=True))


def digest_files(run: Run, files: Sequence[Path]) -> dict[Path, FileDigest]:
    """Return the digest of each file."""
    digests: dict[Path, FileDigest] = {}
    for task, answer in run(plan_digests(files)):
        digests |= zip(task.files, answer, strict=True)
    return digests


def find_sources(run: Run, inputs: Inputs) -> Sources:
    """Hash all input files, and return those of each split, for the manifest."""
    return _list_sources(inputs, digest_files(run, inputs.every_file()))


def _list_sources(inputs: Inputs, digests: Mapping[Path, FileDigest]) -> Sources:
    """Return the input files of each split, for the manifest.

    Args:
        inputs: The input files.
        digests: File -> its digest, of all files.
    """
    return {
        split: _listed(
            [digests[file]._asdict() for path in paths for file in inputs.source.files(path)]
        )
        for split, paths in inputs.files.items()
    }


def _listed(files: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if len(files) <= _LISTED:
        return files

    total = sum(file["bytes"] for file in files)
    return [{"name": f"{len(files)} files", "bytes": total, "sha256": digest_of(files)}]


def choose_unit_bytes(pipeline: Pipeline) -> int:
    """Return the approximate number of input bytes per work unit."""
    is_slow = make_annotator(pipeline).slow
    return min(SLOW_UNIT_BYTES if is_slow else UNIT_BYTES, pipeline.shard.input_bytes)


class _FileParts(NamedTuple):
    """The parts of a file with their digests, its size, and the prefix of its ids."""

    parts: list[tuple[Part, str]]
    bytes: int
    prefix: str


def _pack(
    split: str, files: Iterable[_FileParts], unit_bytes: int, shard_bytes: int
) -> Iterator[Unit]:
    """Yield the work units of a split.

    A unit is either a part of a file, or whole files of about `unit_bytes`. A shard is a run of
    units of about `shard_bytes`.
    """
    shard = number = filled = 0
    for group, size in _groups(files, unit_bytes):
        if filled and filled + size > shard_bytes:
            shard += 1
            number = filled = 0
        parts, digests, prefixes = zip(*group, strict=True)
        yield Unit(split, shard, number, size, parts, digests, prefixes)
        number += 1
        filled += size


def _groups(
    files: Iterable[_FileParts], unit_bytes: int
) -> Iterator[tuple[list[tuple[Part, str, str]], int]]:
    """Yield part, digest and prefix of each part of a unit, and the size of the unit."""
    group: list[tuple[Part, str, str]] = []
    filled = 0
    for file in files:
        is_cut = len(file.parts) > 1
        if group and (is_cut or filled + file.bytes > unit_bytes):
            yield group, filled
            group = []
            filled = 0

        parts = [(part, digest, file.prefix) for part, digest in file.parts]
        if is_cut:
            for part in parts:
                yield [part], file.bytes // len(parts)
        else:
            group += parts
            filled += file.bytes
    if group:
        yield group, filled


def _describe(inputs: Inputs) -> list[tuple[str, int]]:
    """Return name and size of each input file, in order."""
    return [(inputs.name(path), path.stat().st_size) for path in inputs.splits_of_paths()]


def _name_copy(path: Path, sha256: str) -> str:
    """Return the name of the unpacked copy of a compressed file, below the folder of all copies.

    It has the file name without `.gz` and the name of its folder, because document ids may be made
    of either; and the digest of the compressed file, so a copy is never used for another.
    """
    return f"{sha256[:16]}/{folder_name(path)}/{path.name.removesuffix('.gz')}"


def _with_paths(plan: Plan, paths: Mapping[str, str]) -> Plan:
    """Replace the paths of all parts."""
    units = [
        unit._replace(parts=tuple(part._replace(path=paths[part.path]) for part in unit.parts))
        for unit in plan.units
    ]
    return msgspec.structs.replace(plan, units=tuple(units))
