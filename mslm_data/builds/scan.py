"""Scans input files: computes their digests, and cuts them into shards and work units.

Each file has its own tasks, so that scanning uses all workers.
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
"""Approximate input bytes of a work unit, for any shard size. Smaller units would cost more than
they compute; larger ones would leave cores idle and need more memory."""
SLOW_UNIT_BYTES = 256 << 10
"""Approximate input bytes of a work unit for a slow annotator: minutes of one core with BERT."""
_DIGESTED_AT_ONCE = 64 << 20
"""Input bytes of small files per `Digest` task."""
_RATIO = 4
"""Assumed ratio of text size to compressed size: a low estimate."""
_AT_ONCE = 1 << 20
"""Bytes per read while unpacking."""


class Fingerprint(NamedTuple):
    """Name, size and SHA-256 of an input file."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The result of scanning the input files.

    Attributes:
        unit_bytes: Approximate number of input bytes per work unit.
        fingerprints: File -> its fingerprint.
        cuts: (split, file) -> the part of each shard -> its parts for work units.
    """

    unit_bytes: int
    fingerprints: Mapping[Path, Fingerprint]
    cuts: Mapping[tuple[str, Path], Mapping[Part, list[Part]]]


def scan_inputs(inputs: Inputs, *, staging: Path | None) -> Story[Scan]:
    """Digest all input files, unpack large compressed ones, and cut them into shards and units.

    Args:
        inputs: The files of each split.
        staging: The folder for unpacked files; None does not unpack.
    """
    unit_bytes = choose_unit_bytes(inputs.pipeline)
    cutter = _Cutter(inputs, staging, unit_bytes)

    # Digesting and cutting are independent, so all tasks run at the same time.
    splits = inputs.splits_of_paths()
    cut_files = [cutter.cut_file(number, path, splits[path]) for number, path in enumerate(splits)]
    fingerprints, *cuts = yield from together([digest_files(inputs), *cut_files])
    return Scan(
        unit_bytes=unit_bytes,
        fingerprints=fingerprints,
        cuts={
            (split, path): parts for file_cuts in cuts for (split, path), parts in file_cuts.items()
        },
    )


def choose_unit_bytes(pipeline: Pipeline) -> int:
    """Return the approximate number of input bytes per work unit."""
    is_slow = make_annotator(pipeline).slow
    return min(SLOW_UNIT_BYTES if is_slow else UNIT_BYTES, pipeline.shard.unit_bytes)


def digest_files(inputs: Inputs) -> Story[dict[Any, Any]]:
    """Digest all files. Return file -> its fingerprint."""
    groups = _in_groups(inputs.every_file())
    tasks = [Digest(number, tuple(map(str, paths))) for number, paths in enumerate(groups)]
    answers = yield tasks
    return {
        Path(path): Fingerprint(*row)
        for task in tasks
        for path, row in zip(task.paths, answers[task.name], strict=True)
    }


class _Cutter:
    """Cuts files by tasks, which it numbers across all files."""

    def __init__(self, inputs: Inputs, staging: Path | None, unit_bytes: int) -> None:
        self._source = inputs.source
        self._staging = staging
        self._shard_bytes = inputs.pipeline.shard.unit_bytes
        self._unit_bytes = unit_bytes
        self._numbers = itertools.count()

    def cut_file(self, number: int, path: Path, splits: Sequence[str]) -> Story[dict[Any, Any]]:
        """Cut a file. Return (split, file) -> the part of each shard -> its parts for work units.

        Args:
            number: Number of the file.
            path: The file.
            splits: The splits that read the file.
        """
        plain = path
        if self._staging is not None and self._is_worth_unpacking(path):
            unpack = Unpack(number, str(path), str(staged(self._staging, path)))
            yield [unpack]
            plain = Path(unpack.into)

        split_cuts = yield from together([self._cut_split(split, plain) for split in splits])
        return {(split, path): cuts for split, cuts in zip(splits, split_cuts, strict=True)}

    def _cut_split(self, split: str, plain: Path) -> Story[dict[Part, list[Part]]]:
        """Cut a split's share of a file into shards, and the shards into work units."""
        # A file of at most one shard is cut here: a task would cost more than the cut.
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
        """Cut each part of a file by a task."""
        cuts = [Cut(next(self._numbers), split, part, target_bytes) for part in parts]
        answers = yield cuts
        return [[Part(cut.part.path, *row) for row in answers[cut.name]] for cut in cuts]

    def _is_worth_unpacking(self, path: Path) -> bool:
        """Return whether to unpack a compressed file before reading it.

        A gzip file can only be read from its beginning, so it would be one work unit of any size.
        Unpacked, it is cut like a plain file. Documents that span several files are not unpacked,
        because their files must stay together.
        """
        return (
            path.suffix == ".gz"
            and path.stat().st_size * _RATIO > self._unit_bytes
            and list(self._source.files(path)) == [path]
        )


def _in_groups(paths: Iterable[Path]) -> Iterator[list[Path]]:
    """Group small files, so that one task digests a group."""
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


# The tasks ----------------------------------------------------------------------------------------


def digest(task: Digest) -> list[Fingerprint]:
    """Return the fingerprints of a task's files."""
    paths = map(Path, task.paths)
    return [Fingerprint(path.name, path.stat().st_size, hash_file(path)) for path in paths]


def cut(task: Cut, source: Source) -> list[tuple[int, int, int, int]]:
    """Cut a part of a file. Return `(start, stop, first, line)` of each new part."""
    parts = source.for_split(task.split).cut(task.part, target_bytes=task.target_bytes)
    return [(part.start, part.stop, part.first, part.line) for part in parts]


def unpack(task: Unpack, check_unchanged: Callable[[], object]) -> None:
    """Unpack a file into the unfinished folder, unless a complete copy exists.

    The text may be patients' data. The folder is private, and removed with the unfinished build.

    Args:
        task: The task.
        check_unchanged: Called after the last read and before the copy is kept. Raises if the file
            has changed.

    Raises:
        SourceError: From `files.opened` or `check_unchanged`.
    """
    into = Path(task.into)
    record = into.with_name(f"{into.name}.sha256")
    if into.is_file() and read_sealed(record) == hash_file(into).encode():
        return

    make_folder(into.parent)
    write_whole(into, _unpacked(Path(task.path), check_unchanged))
    write_sealed(record, hash_file(into).encode())


def staged(staging: Path, path: Path) -> Path:
    """Return the path of the unpacked copy of a compressed file.

    The copy keeps the file name without `.gz` and the name of its folder, because document ids may
    be made of either.
    """
    # The key changes with the file, so a stale copy is never read.
    status = path.stat()
    stamp = f"{path} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
    key = hashlib.sha256(stamp.encode()).hexdigest()[:16]
    return staging / key / folder_name(path) / path.name.removesuffix(".gz")


def _unpacked(path: Path, check_unchanged: Callable[[], object]) -> Iterator[bytes]:
    with opened(path) as file:
        while piece := file.read(_AT_ONCE):
            yield piece
    check_unchanged()
