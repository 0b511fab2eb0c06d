"""Looks at the input files: their digests, and where they are cut into shards and work units.

Every file is looked at by a task of its own, so that a build's first readings run on all workers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mslm_data.builds.stages import Inputs, annotator_of
from mslm_data.builds.tasks import Cut, Digest, Task, Unpack
from mslm_data.data.document import Part
from mslm_data.io.files import (
    make_folder,
    read_sealed,
    sha256_of,
    write_sealed,
    write_whole,
)
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


class Looking:
    """The tasks that look at the input files, and what they found.

    Attributes:
        unit_bytes: About how many bytes of input a work unit gets.
        fingerprints: File -> its fingerprint.
        cuts: Split, file -> the parts that make a shard each (if there are several), and the parts
            of each of these that work units read.
    """

    def __init__(self, inputs: Inputs, *, staging: Path | None) -> None:
        """Begin with nothing known.

        Args:
            inputs: The files of each split.
            staging: A folder into which large compressed files are unpacked; None leaves them
                whole.
        """
        self._inputs = inputs
        self._staging = staging
        self._shard_bytes = inputs.pipeline.shard.unit_bytes
        is_slow = annotator_of(inputs.pipeline).slow
        unit_bytes = SLOW_UNIT_BYTES if is_slow else UNIT_BYTES
        self.unit_bytes = min(unit_bytes, self._shard_bytes)
        self._splits = inputs.splits_of_paths()

        # Tasks that are not done; for cuts also the file and, below a shard, the shard's part.
        self._unpacking: dict[str, Unpack] = {}
        self._digesting: dict[str, Digest] = {}
        self._cutting: dict[str, tuple[Cut, Path, Part | None]] = {}
        self._num_cuts = 0

        self.fingerprints: dict[Path, Fingerprint] = {}
        self.cuts: dict[tuple[str, Path], dict[Part, list[Part]]] = {}

    def is_over(self) -> bool:
        """Return whether everything is known."""
        return not (self._unpacking or self._digesting or self._cutting)

    def tasks(self) -> list[Task]:
        """Return the first tasks, and find out at once what costs nothing."""
        digests = self.digests()
        self._digesting = {digest.name: digest for digest in digests}
        tasks: list[Task] = [*digests]

        large = dict.fromkeys(self._worth_unpacking() if self._staging else ())
        for number, path in enumerate(large):
            unpack = Unpack(number, str(path), str(_staged(self._staging, path)))
            self._unpacking[unpack.name] = unpack
            tasks.append(unpack)
        for path in self._splits:
            if path not in large:
                tasks += self._shards(path, path)
        return tasks

    def digests(self) -> list[Digest]:
        """Return the tasks that digest every input file."""
        groups = _in_groups(self._inputs.every_file())
        return [Digest(number, tuple(map(str, paths))) for number, paths in enumerate(groups)]

    def changed(self, digest: Digest, value: Any) -> list[str]:
        """Return the files that a second digest finds changed.

        Args:
            digest: A task of `digests`.
            value: What it was answered with.
        """
        return [
            path
            for path, row in zip(digest.paths, value, strict=True)
            if Fingerprint(*row) != self.fingerprints[Path(path)]
        ]

    def take(self, name: str, value: Any) -> list[Task]:
        """Take the answer of a task, and return the tasks that have become possible.

        Args:
            name: The task's name.
            value: What it was answered with.
        """
        if name in self._digesting:
            digest = self._digesting.pop(name)
            found = (Fingerprint(*row) for row in value)
            self.fingerprints.update(zip(map(Path, digest.paths), found, strict=True))
            return []
        if name in self._unpacking:
            unpack = self._unpacking.pop(name)
            return self._shards(Path(unpack.path), Path(unpack.into))

        cut, path, shard = self._cutting.pop(name)
        parts = [Part(cut.part.path, *row) for row in value]
        if shard is not None:
            self.cuts[cut.split, path][shard] = parts
            return []
        return self._units(cut.split, path, parts)

    def _worth_unpacking(self) -> list[Path]:
        """Return the compressed files that are worth unpacking once.

        A gzip file can only be read from its beginning, so it makes one unit, however large.
        Unpacked, it is cut like a plain file. Not where documents lie in several files: these stay
        together.
        """
        return [
            path
            for path in self._splits
            if path.suffix == ".gz"
            and path.stat().st_size * _RATIO > self.unit_bytes
            and list(self._inputs.source.files(path)) == [path]
        ]

    def _shards(self, path: Path, plain: Path) -> list[Task]:
        """Cut a file into shards, for every split that has it.

        Args:
            path: The file.
            plain: The same file, or what it was unpacked to.
        """
        tasks: list[Task] = []
        whole = Part(str(plain))
        for split in self._splits[path]:
            if plain.stat().st_size > self._shard_bytes:
                tasks.append(self._cut(split, path, whole, self._shard_bytes, None))
            else:
                source = self._inputs.source.of_split(split)
                parts = list(source.cut(whole, target_bytes=self._shard_bytes))
                tasks += self._units(split, path, parts)
        return tasks

    def _units(self, split: str, path: Path, shards: Sequence[Part]) -> list[Task]:
        """Cut the parts that make a shard each into those of work units."""
        cuts = {shard: [shard] for shard in shards}
        self.cuts[split, path] = cuts
        if self.unit_bytes == self._shard_bytes:
            return []
        size = Path(shards[0].path).stat().st_size
        if size // len(shards) <= self.unit_bytes:
            return []
        return [self._cut(split, path, shard, self.unit_bytes, shard) for shard in shards]

    def _cut(
        self, split: str, path: Path, part: Part, target_bytes: int, shard: Part | None
    ) -> Cut:
        cut = Cut(self._num_cuts, split, part, target_bytes)
        self._num_cuts += 1
        self._cutting[cut.name] = cut, path, shard
        return cut


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
    return [Fingerprint(path.name, path.stat().st_size, sha256_of(path)) for path in paths]


def is_short(task: Digest) -> bool:
    """Return whether digesting takes about a tenth of a second at most."""
    try:
        return sum(Path(path).stat().st_size for path in task.paths) <= 2 * _DIGESTED_AT_ONCE
    except OSError:  # whoever digests it says so
        return False


def cut(task: Cut, source: Source) -> list[tuple[int, int, int, int]]:
    """Cut a part of a file, and return `start, stop, first, line` of each part of it."""
    parts = source.of_split(task.split).cut(task.part, target_bytes=task.target_bytes)
    return [(part.start, part.stop, part.first, part.line) for part in parts]


def unpack(task: Unpack, refuse_changed: Callable[[], object]) -> None:
    """Unpack a file into a folder of the unfinished build, if it is not there yet, whole.

    It may be patients' text: the folder is private, and goes when the build is finished.

    Args:
        task: Names the file.
        refuse_changed: Called when all of it was read, before anything is kept. It raises if the
            file is another by then.

    Raises:
        SourceError: As from `files.opened`, or from `refuse_changed`.
    """
    into = Path(task.into)
    record = into.with_name(f"{into.name}.sha256")
    if into.is_file() and read_sealed(record) == sha256_of(into).encode():
        return

    make_folder(into.parent)
    write_whole(into, _unpacked(Path(task.path), refuse_changed))
    write_sealed(record, sha256_of(into).encode())


def _staged(staging: Path | None, path: Path) -> Path:
    """Return where a compressed file is unpacked to, under its own name without `.gz`.

    Its folder has the name of the original's folder, as that may be the document's id.
    """
    assert staging is not None  # noqa: S101 - for the type checker
    status = path.stat()
    stamp = f"{path} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
    key = hashlib.sha256(stamp.encode()).hexdigest()[:16]
    return staging / key / folder_name(path) / path.name.removesuffix(".gz")


def _unpacked(path: Path, refuse_changed: Callable[[], object]) -> Iterator[bytes]:
    with opened(path) as file:
        while piece := file.read(_AT_ONCE):
            yield piece
    refuse_changed()
