"""The tasks of a build. Each is a pure function of the inputs, and runs in any process.

In the order of a build:

1. `Unpack` a large compressed file, so that it can be cut.
2. `Cut` a large file into the parts of work units.
3. `Digest`: hash the input files.
4. `ReadUnit`: hash the ids and texts of a work unit's documents, without annotating them. Only if
   documents may be dropped, or if annotating them is costly.
5. `FindDrops`: decide from all hashes which documents are dropped.
6. `BuildUnit`: read a few megabytes of input, and write their rows as a *piece*.
7. `Join` the pieces of a shard.

`steps` says what happens between them, and `work` runs them.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, TypeAlias

from mslm_data.data.document import Part


class Unit(NamedTuple):
    """A work unit: parts of input files whose rows are one piece of a shard.

    A unit has either one part of a file, or whole files.

    Attributes:
        split: The split of the shard.
        shard: Number of the shard in the split, from 0.
        number: Number of the piece in the shard, from 0.
        bytes: Approximate number of input bytes.
        parts: Parts of input files, in order.
        digests: SHA-256 of the bytes of each part, when the build was planned.
        prefixes: A prefix for each part, for document ids made from the name of its file. It is
            not empty if another file of the split has the same name.
    """

    split: str
    shard: int
    number: int
    bytes: int
    parts: tuple[Part, ...]
    digests: tuple[str, ...]
    prefixes: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name for files and messages."""
        return f"{self.shard_name}-{self.number:05d}"

    @property
    def shard_name(self) -> str:
        """Name of its shard; see `Join.name`."""
        return f"{self.split}-{self.shard:05d}"


class Unpack(NamedTuple):
    """Unpack a compressed file into the unfinished folder. Answer: none.

    Attributes:
        path: The compressed file.
        sha256: Its SHA-256, when the build was planned.
        into: Path of the unpacked file.
    """

    path: str
    sha256: str
    into: str

    @property
    def name(self) -> str:
        """Name for messages."""
        return f"unpack-{self.path}"


class Cut(NamedTuple):
    """Cut a file. Answer: its parts for work units, each with the SHA-256 of its bytes.

    Attributes:
        split: The split to read.
        path: The file, or its unpacked copy.
        target_bytes: Approximate size of the parts.
    """

    split: str
    path: str
    target_bytes: int

    @property
    def name(self) -> str:
        """Name for messages."""
        return f"cut-{self.path}"


class ReadUnit(NamedTuple):
    """Read a work unit without annotating it, and write the hashes of its documents.

    Answer: an `Outcome`, with the mentions of the source.
    """

    unit: Unit

    @property
    def name(self) -> str:
        """Name for messages."""
        return f"read-{self.unit.name}"


class FindDrops(NamedTuple):
    """Find the documents to drop from the hashes of all units. Answer: a `Found`.

    Attributes:
        units: All work units, in order.
    """

    units: tuple[Unit, ...]

    @property
    def name(self) -> str:
        """Name for messages."""
        return "find-drops"


class BuildUnit(NamedTuple):
    """Build a work unit: write its piece, then its receipt. Answer: the receipt.

    Attributes:
        unit: The work unit.
        made: What decides the bytes of the unit, as a digest.
        kinds: The kind of each document as a byte, see `copies`; empty if all are kept.
        is_read: Whether a `ReadUnit` has hashed its documents.
        is_careful: Whether to annotate one document at a time, and to note each before. A unit is
            built like this after its process has died.
        fatal: Numbers of documents in the unit at which a process has died.
    """

    unit: Unit
    made: str
    kinds: bytes
    is_read: bool
    is_careful: bool = False
    fatal: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Name for messages."""
        return self.unit.name


class Digest(NamedTuple):
    """Hash input files. Answer: a `FileDigest` of each.

    Attributes:
        files: The files.
    """

    files: tuple[Path, ...]

    @property
    def name(self) -> str:
        """Name for messages."""
        return f"digest-{self.files[0]}"


class Join(NamedTuple):
    """Write a shard from its pieces, then remove the pieces. Answer: the record of the shard.

    Attributes:
        split: The split of the shard.
        shard: Number of the shard in the split, from 0.
        num_shards: Number of shards in the split.
        pieces: Names of the shard's units, in order.
        labels: Labels of mentions, by index.
        doc_labels: Labels of documents, by index; None if the source has none.
        made: What decides the bytes of the shard's units, as a digest.
    """

    split: str
    shard: int
    num_shards: int
    pieces: tuple[str, ...]
    labels: tuple[str, ...]
    doc_labels: tuple[str, ...] | None
    made: str

    @property
    def name(self) -> str:
        """Name for files and messages."""
        return f"{self.split}-{self.shard:05d}"

    @property
    def file(self) -> str:
        """Name of the shard's file."""
        return f"data-{self.shard:05d}-of-{self.num_shards:05d}.arrow"


Task: TypeAlias = Unpack | Cut | ReadUnit | FindDrops | BuildUnit | Digest | Join
