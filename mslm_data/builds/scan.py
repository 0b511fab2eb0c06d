"""Scans the input files: their digests, and where they are cut into shards and work units.

Every file is scanned by tasks of its own, so that a build's first readings run on all workers.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from mslm_data.builds.rounds import Story, together
from mslm_data.builds.stages import Inputs, make_annotator
from mslm_data.builds.tasks import Cut, Digest, Unpack
from mslm_data.data.document import Part
from mslm_data.io.files import (
    hash_file,
    make_folder,
    read_sealed,
    write_sealed,
    write_whole,
)
from mslm_data.pipeline import Pipeline
from mslm_data.source import Source
from mslm_data.source.reading.files import folder_name, opened

UNIT_BYTES = 4 << 20
"""About how many bytes of input a work unit has, whatever the size of shards: enough to be worth a
task, and few enough that every core has some and that memory stays small."""
SLOW_UNIT_BYTES = 256 << 10
"""The same for a slow annotator: some minutes of a core that runs a BERT."""
_DIGESTED_AT_ONCE = 64 << 20
"""Bytes of small files that one task digests."""
_RATIO = 4
"""Ratio of a text's size to its compressed size, roughly, for texts that compress badly."""
_AT_ONCE = 1 << 20
"""Bytes that are unpacked at a time."""


class Fingerprint(NamedTuple):
    """Identify an input file: its name, size and SHA-256."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What the input files hold.

    Attributes:
        unit_bytes: About how many bytes of input a work unit gets.
        fingerprints: File -> its fingerprint.
        cuts: Split, file -> the parts that make a shard each (if there are several), and the parts
            of each of these that work units read.
    """

    unit_bytes: int
    fingerprints: Mapping[Path, Fingerprint]
    cuts: Mapping[tuple[str, Path], Mapping[Part, list[Part]]]


def scan_inputs(inputs: Inputs, *, staging: Path | None) -> Story[Scan]:
    """Digest the input files, unpack large compressed ones, and cut all into shards and units.

    Args:
        inputs: The files of each split.
        staging: A folder into which large compressed files are unpacked; None leaves them whole.
    """
    unit_bytes = choose_unit_bytes(inputs.pipeline)
    cutter = _Cutter(inputs, staging, unit_bytes)

    # A file is cut while others, and itself, are digested.
    splits = inputs.splits_of_paths()
    cut_files = [cutter.cut_file(number, path, splits[path]) for number, path in enumerate(splits)]
    fingerprints, *cuts = yield from together([digest_files(inputs), *cut_files])
    return Scan(
        unit_bytes=unit_bytes,
        fingerprints=fingerprints,
        cuts={(split, path): parts for of_file in cuts for (split, path), parts in of_file.items()},
    )


def choose_unit_bytes(pipeline: Pipeline) -> int:
    """Return about how many bytes of input a work unit gets."""
    is_slow = make_annotator(pipeline).slow
    return min(SLOW_UNIT_BYTES if is_slow else UNIT_BYTES, pipeline.shard.unit_bytes)


def digest_files(inputs: Inputs) -> Story[dict[Any, Any]]:
    """Digest all files; return file -> its fingerprint."""
    groups = _in_groups(inputs.every_file())
    tasks = [Digest(number, tuple(map(str, paths))) for number, paths in enumerate(groups)]
    answers = yield tasks
    return {
        Path(path): Fingerprint(*row)
        for task in tasks
        for path, row in zip(task.paths, answers[task.name], strict=True)
    }


class _Cutter:
    """Cuts files; its tasks are numbered over all of them."""

    def __init__(self, inputs: Inputs, staging: Path | None, unit_bytes: int) -> None:
        self._source = inputs.source
        self._staging = staging
        self._shard_bytes = inputs.pipeline.shard.unit_bytes
        self._unit_bytes = unit_bytes
        self._numbers = itertools.count()

    def cut_file(self, number: int, path: Path, splits: Sequence[str]) -> Story[dict[Any, Any]]:
        """Cut a file; return split, file -> the part of each shard, and its work units' parts.

        Args:
            number: Of the file.
            path: The file.
            splits: Those that have documents of it.
        """
        plain = path
        if self._staging is not None and self._is_worth_unpacking(path):
            unpack = Unpack(number, str(path), str(staged(self._staging, path)))
            yield [unpack]
            plain = Path(unpack.into)

        in_splits = yield from together([self._cut_split(split, plain) for split in splits])
        return {(split, path): cuts for split, cuts in zip(splits, in_splits, strict=True)}

    def _cut_split(self, split: str, plain: Path) -> Story[dict[Part, list[Part]]]:
        """Cut what a split has of a file: into shards, and these into work units."""
        whole = Part(str(plain))
        if plain.stat().st_size > self._shard_bytes:
            shards = (yield from self._cut(split, [whole], self._shard_bytes))[0]
        else:
            source = self._source.for_split(split)
            shards = list(source.cut(whole, target_bytes=self._shard_bytes))

        size = Path(shards[0].path).stat().st_size
        if self._unit_bytes == self._shard_bytes or size // len(shards) <= self._unit_bytes:
            return {shard: [shard] for shard in shards}
        units = yield from self._cut(split, shards, self._unit_bytes)
        return dict(zip(shards, units, strict=True))

    def _cut(self, split: str, parts: Sequence[Part], target_bytes: int) -> Story[list[list[Part]]]:
        """Cut parts of a file, by a task each."""
        cuts = [Cut(next(self._numbers), split, part, target_bytes) for part in parts]
        answers = yield cuts
        return [[Part(cut.part.path, *row) for row in answers[cut.name]] for cut in cuts]

    def _is_worth_unpacking(self, path: Path) -> bool:
        """Return whether a compressed file is worth unpacking once.

        A gzip file can only be read from its beginning, so it makes one unit, however large.
        Unpacked, it is cut like a plain file. Not where documents lie in several files: these stay
        together.
        """
        return (
            path.suffix == ".gz"
            and path.stat().st_size * _RATIO > self._unit_bytes
            and list(self._source.files(path)) == [path]
        )


def _in_groups(paths: Iterable[Path]) -> Iterator[list[Path]]:
    """Put small files together that one task digests."""
    group: list[Path] = []
    filled = 0
    for path in paths:
        group.append(path)
        filled += path.stat().st_size
        if filled >= _DIGESTED_AT_ONCE:
            yield group
            group = []
            filled = 0
    if group:
        yield group


# What the tasks do --------------------------------------------------------------------------------


def digest(task: Digest) -> list[Fingerprint]:
    """Digest files."""
    paths = map(Path, task.paths)
    return [Fingerprint(path.name, path.stat().st_size, hash_file(path)) for path in paths]


def is_short(task: Digest) -> bool:
    """Return whether digesting takes about a tenth of a second at most."""
    try:
        return sum(Path(path).stat().st_size for path in task.paths) <= 2 * _DIGESTED_AT_ONCE
    except OSError:  # whoever digests it says so
        return False


def cut(task: Cut, source: Source) -> list[tuple[int, int, int, int]]:
    """Cut a part of a file, and return `start, stop, first, line` of each part of it."""
    parts = source.for_split(task.split).cut(task.part, target_bytes=task.target_bytes)
    return [(part.start, part.stop, part.first, part.line) for part in parts]


def unpack(task: Unpack, check_unchanged: Callable[[], object]) -> None:
    """Unpack a file into a folder of the unfinished build, if it is not there yet, whole.

    It may be patients' text: the folder is private, and goes when the build is finished.

    Args:
        task: Names the file.
        check_unchanged: Called when all of it was read, before anything is kept. It raises if the
            file has changed by then.

    Raises:
        SourceError: As from `files.opened`, or from `check_unchanged`.
    """
    into = Path(task.into)
    record = into.with_name(f"{into.name}.sha256")
    if into.is_file() and read_sealed(record) == hash_file(into).encode():
        return

    make_folder(into.parent)
    write_whole(into, _unpacked(Path(task.path), check_unchanged))
    write_sealed(record, hash_file(into).encode())


def staged(staging: Path, path: Path) -> Path:
    """Return where a compressed file is unpacked to, under its own name without `.gz`.

    Its folder has the name of the original's folder, as that may be the document's id.
    """
    status = path.stat()
    stamp = f"{path} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
    key = hashlib.sha256(stamp.encode()).hexdigest()[:16]
    return staging / key / folder_name(path) / path.name.removesuffix(".gz")


def _unpacked(path: Path, check_unchanged: Callable[[], object]) -> Iterator[bytes]:
    with opened(path) as file:
        while piece := file.read(_AT_ONCE):
            yield piece
    check_unchanged()
