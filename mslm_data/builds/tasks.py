"""The tasks of a build, each run by one worker.

In order:

1. `Unpack` large compressed files, so that they can be cut.
2. `Digest` files and `Cut` them, first into a part per shard, then into parts of work units.
3. With `source.duplicates`: `Sign` the documents of each work unit, then `Match` all signatures.
4. Build each `WorkUnit`: read a few megabytes of input, and write its rows as a *piece*.
5. `Compare` the ids of all units. Units with ids of earlier units are built again without them.
6. `Join` the pieces of each shard.

`story` says what happens between them. The answer of a task is its name and a value, as JSON. It
never contains text of a document.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import msgspec

from mslm_data.data.document import Part


class Unpack(NamedTuple):
    """Unpack a compressed file into the unfinished folder. Answer: none.

    Attributes:
        number: Number of the file in the build.
        path: The compressed file.
        into: Path of the unpacked file.
    """

    number: int
    path: str
    into: str

    @property
    def name(self) -> str:
        """Name for messages."""
        return f"unpack-{self.number:05d}"

    @property
    def paths(self) -> tuple[str, ...]:
        """The input file."""
        return (self.path,)


class Digest(NamedTuple):
    """Digest files. Answer: `[name, bytes, sha256]` of each.

    Attributes:
        number: Number of the task.
        paths: The files.
    """

    number: int
    paths: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name for messages."""
        return f"digest-{self.number:05d}"


class Cut(NamedTuple):
    """Cut a part of a file. Answer: `[start, stop, first, line]` of each new part.

    Attributes:
        number: Number of the task.
        split: The split to read.
        part: The part to cut.
        target_bytes: Approximate size of the new parts, in bytes of the split.
    """

    number: int
    split: str
    part: Part
    target_bytes: int

    @property
    def name(self) -> str:
        """Name for messages."""
        return f"cut-{self.number:05d}"

    @property
    def paths(self) -> tuple[str, ...]:
        """The input file."""
        return (self.part.path,)


class WorkUnit(NamedTuple):
    """Read parts of files, and write their rows as a piece of a shard. Answer: none.

    A unit is a pure function of the inputs and the pipeline. Its receipt counts all documents.

    Attributes:
        split: The split of the shard.
        shard: Number of the shard in the split, from 0.
        number: Number of the piece in the shard, from 0.
        parts: Parts of input files, in order.
        duplicate_ids: Ids of its documents that are also in earlier units; see the module
            `duplicate_ids`.
    """

    split: str
    shard: int
    number: int
    parts: tuple[Part, ...]
    duplicate_ids: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Name for receipts and messages."""
        return f"{self.split}-{self.shard:05d}-{self.number:05d}"

    @property
    def paths(self) -> tuple[str, ...]:
        """The input files."""
        return tuple(dict.fromkeys(part.path for part in self.parts))


class Sign(NamedTuple):
    """Read a work unit, and write the signatures of its documents. Answer: none.

    Attributes:
        unit: The work unit.
    """

    unit: WorkUnit

    @property
    def name(self) -> str:
        """Name for messages."""
        return f"sign-{self.unit.name}"

    @property
    def paths(self) -> tuple[str, ...]:
        """The input files."""
        return self.unit.paths


class Match(NamedTuple):
    """Find copies of documents by their signatures. Answer: none.

    Attributes:
        units: Split and name of each work unit, in order.
    """

    units: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        """Name for messages."""
        return "match"

    @property
    def paths(self) -> tuple[str, ...]:
        """The input files: none."""
        return ()


class Compare(NamedTuple):
    """Find ids shared by units of a split. Answer: `[unit, ids]` of each such unit.

    The range of id hashes is divided equally among the tasks of a split.

    Attributes:
        split: The split.
        number: Number of the task, from 0.
        shares: Number of tasks for the split.
        pieces: Names of the split's units, in order.
    """

    split: str
    number: int
    shares: int
    pieces: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name for messages."""
        return f"compare-{self.split}-{self.number:05d}"

    @property
    def paths(self) -> tuple[str, ...]:
        """The input files: none."""
        return ()


class Join(NamedTuple):
    """Write a shard from its pieces, then remove the pieces. Answer: none.

    Attributes:
        split: The split of the shard.
        shard: Number of the shard in the split, from 0.
        num_shards: Number of shards in the split.
        pieces: Names of the shard's units, in order.
        labels: Labels of mentions, by index.
        doc_labels: Labels of documents, by index; None if the source has none.
    """

    split: str
    shard: int
    num_shards: int
    pieces: tuple[str, ...]
    labels: tuple[str, ...]
    doc_labels: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """Name for receipts and messages."""
        return f"{self.split}-{self.shard:05d}"

    @property
    def paths(self) -> tuple[str, ...]:
        """The input files: none."""
        return ()


Task: TypeAlias = Unpack | Digest | Cut | Sign | Match | WorkUnit | Compare | Join


def answer(task: Task, value: Any = None) -> str:
    """Encode the answer to a finished task as JSON."""
    return msgspec.json.encode([task.name, value]).decode()


def read_answer(text: str) -> tuple[str, Any]:
    """Decode the answer to a task into its name and value."""
    name, value = msgspec.json.decode(text)
    return name, value
