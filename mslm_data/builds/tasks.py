"""The tasks of a build: what an engine's workers do, one at a time.

A build has these kinds, in this order. `story` says what comes between them.

1. `Unpack` large compressed files, so that they can be cut like others.
2. `Digest` files and `Cut` them, first into the parts for one shard each, then into work units.
3. With `source.duplicates`, `Sign` the documents of each work unit, and `Match` all signatures.
4. Build each `WorkUnit`: read a few megabytes of input and write a *piece*, the rows of them.
5. `Compare` the ids of all units. Units with ids of earlier units are built again without them.
6. `Join` the pieces of each shard.

A task's answer is its name and a value, as JSON; never text of a document.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import msgspec

from mslm_data.data.document import Part


class Unpack(NamedTuple):
    """Unpack a compressed file into the unfinished folder; answers with nothing.

    Attributes:
        number: Its number among the build's files.
        path: The file.
        into: The path of the unpacked file.
    """

    number: int
    path: str
    into: str

    @property
    def name(self) -> str:
        """The name that messages use."""
        return f"unpack-{self.number:05d}"

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that are read."""
        return (self.path,)


class Digest(NamedTuple):
    """Digest files; answers with `[name, bytes, sha256]` of each.

    Attributes:
        number: The task's number among those of its kind.
        paths: The files.
    """

    number: int
    paths: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name that messages use."""
        return f"digest-{self.number:05d}"


class Cut(NamedTuple):
    """Cut a part of a file; answers with `[start, stop, first, line]` of each part of it.

    Attributes:
        number: The task's number among those of its kind.
        split: The split whose records are cut.
        part: The part to cut.
        target_bytes: Approximate number of bytes of the split in each part.
    """

    number: int
    split: str
    part: Part
    target_bytes: int

    @property
    def name(self) -> str:
        """The name that messages use."""
        return f"cut-{self.number:05d}"

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that are read."""
        return (self.part.path,)


class WorkUnit(NamedTuple):
    """Read parts of files, and write the piece of a shard that they make; answers with nothing.

    The receipt counts what happened to the documents. Units are a pure function of the inputs and
    the pipeline.

    Attributes:
        split: The split that the shard belongs to.
        shard: The shard's number within the split, from 0.
        number: The piece's number within the shard, from 0.
        parts: The pieces of input, in order.
        duplicate_ids: Ids of its documents that occur in earlier units; see `duplicate_ids`.
    """

    split: str
    shard: int
    number: int
    parts: tuple[Part, ...]
    duplicate_ids: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The name that receipts and messages use."""
        return f"{self.split}-{self.shard:05d}-{self.number:05d}"

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that are read."""
        return tuple(dict.fromkeys(part.path for part in self.parts))


class Sign(NamedTuple):
    """Read a work unit, and write the signatures of its documents; answers with nothing.

    Attributes:
        unit: The unit.
    """

    unit: WorkUnit

    @property
    def name(self) -> str:
        """The name that messages use."""
        return f"sign-{self.unit.name}"

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that are read."""
        return self.unit.paths


class Match(NamedTuple):
    """Find the documents that are copies of others by their signatures; answers with nothing.

    Attributes:
        units: Split and name of every unit, in order.
    """

    units: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        """The name that messages use."""
        return "match"

    @property
    def paths(self) -> tuple[str, ...]:
        """The input files that are read: none."""
        return ()


class Compare(NamedTuple):
    """Find ids that occur in more than one unit of a split; answers with `[unit, ids]` of each.

    Each task compares a share of the ids: those whose hashes are in one of `of` equal ranges.

    Attributes:
        split: The split whose units are compared.
        number: The share, from 0.
        of: Number of shares.
        pieces: Names of the split's units, in order.
    """

    split: str
    number: int
    of: int
    pieces: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name that messages use."""
        return f"compare-{self.split}-{self.number:05d}"

    @property
    def paths(self) -> tuple[str, ...]:
        """The input files that are read: none."""
        return ()


class Join(NamedTuple):
    """Write a shard from its pieces, and remove these; answers with nothing.

    Attributes:
        split: The split that the shard belongs to.
        shard: Its number within the split, from 0.
        of: Number of the split's shards.
        pieces: Names of the units that wrote its pieces, in order.
        labels: The label of each index.
        doc_labels: The label of each index of documents; None where the source has none.
    """

    split: str
    shard: int
    of: int
    pieces: tuple[str, ...]
    labels: tuple[str, ...]
    doc_labels: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """The name that receipts and messages use."""
        return f"{self.split}-{self.shard:05d}"

    @property
    def paths(self) -> tuple[str, ...]:
        """The input files that are read: none."""
        return ()


Task: TypeAlias = Unpack | Digest | Cut | Sign | Match | WorkUnit | Compare | Join


def answer(task: Task, value: Any = None) -> str:
    """Return the answer of a worker to a finished task, as JSON."""
    return msgspec.json.encode([task.name, value]).decode()


def read_answer(text: str) -> tuple[str, Any]:
    """Return the name of a finished task, and the value of its answer."""
    name, value = msgspec.json.decode(text)
    return name, value
