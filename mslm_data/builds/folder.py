"""Keeps the state of an unfinished build in its folder: locks, plan, receipts and pieces.

DIR/.build/locks/       held by a build, and while the build is planned
DIR/.build/plan.json    the plan
DIR/.build/staging/     large compressed inputs, unpacked
DIR/.build/hashes/      hashes of each work unit's documents
DIR/.build/drops.json   documents to drop; exists once all hashes are compared
DIR/.build/pieces/      rows of work units, until they are joined into shards
DIR/.build/receipts/    a receipt for each finished work unit
DIR/.build/shards/      a record of each finished shard
DIR/SPLIT/              the shards

A file of `.build` is used only if it matches its own digest. A receipt and the record of a shard
also say what they were made from, so one of other inputs, options or versions is never used.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mslm_data.builds.data_loss import Outcome
from mslm_data.errors import BuildError
from mslm_data.io.files import (
    canonical_json,
    clear_temporaries,
    hash_file,
    make_folder,
    read_sealed,
    write_sealed,
)
from mslm_data.io.locks import HeldError, locked
from mslm_data.shard.agreement import FoundByRecord
from mslm_data.shard.manifest import NAME as MANIFEST
from mslm_data.shard.write import ShardRecord

T = TypeVar("T")

_PATIENCE_S = 5.0
"""Maximum wait of a part for the lock of the whole build, which other parts hold for a moment."""


class Receipt(Outcome, kw_only=True):
    """The record of a finished work unit: its outcome, and what it was made from.

    Attributes:
        made: What decides the bytes of the unit, as a digest: identity, versions, parts and drops.
        found_by: Number of mentions per label and set of agreeing annotators.
        piece: The piece, of rows or lines.
    """

    made: str
    found_by: list[FoundByRecord]
    piece: ShardRecord


class Joined(msgspec.Struct, kw_only=True):
    """A finished shard, and what decides its bytes, as a digest."""

    made: str
    record: ShardRecord


class Unfinished:
    """The state of an unfinished build, in its output folder."""

    def __init__(self, out: Path) -> None:
        """Refer to a folder, which need not exist yet."""
        self.out = out
        self.path = out / ".build"

    # The folder and its locks

    def check_output(self, splits: Iterable[str]) -> None:
        """Check that the folder is missing, empty, or an unfinished build.

        The folder itself may be a link, but the folders inside may not. Readers reject shards
        outside of the folder, and finishing a build would remove the link but not its target.

        Args:
            splits: The splits to build.

        Raises:
            BuildError: It is a file or a broken link, has other files, or contains a linked folder.
        """
        out = self.out
        if not out.exists():
            if out.is_symlink():
                raise BuildError(
                    f"{out}: expected a folder, got a broken link; remove it, or create its target"
                )
            return
        for folder in (self.path, *(out / split for split in splits)):
            if folder.is_symlink():
                raise BuildError(
                    f"{folder}: expected a folder, got a link; remove it, because a built folder "
                    "holds all of its files, or make --out itself the link"
                )
        is_ours = out.is_dir() and (self.path.is_dir() or not any(out.iterdir()))
        if not is_ours:
            raise BuildError(
                f"{out}: expected an empty folder or an unfinished build, got other files; choose "
                "another --out"
            )

    @contextmanager
    def locked(self, *, is_part: bool) -> Iterator[None]:
        """Hold the lock of a whole build; for a part, check that no whole build runs.

        Locks are released however the process ends; see `io.locks`.

        Raises:
            BuildError: A whole build runs in the folder, or the file system has no locks.
        """
        locks = self.path / "locks"
        make_folder(locks)
        try:
            # Parts that start together look at the lock at the same moment.
            patience = _PATIENCE_S if is_part else 0
            with locked(locks / "build", error=BuildError, patience=patience):
                if not is_part:
                    yield
        except HeldError:
            raise BuildError(
                f"{self.out}: another build is running in this folder; wait for it or choose "
                "another --out"
            ) from None
        if is_part:
            yield

    @contextmanager
    def planning(self) -> Iterator[None]:
        """Hold the lock under which the plan and the drops are made: parts wait for each other."""
        with locked(self.path / "locks" / "plan", error=BuildError):
            yield

    def prepare(self, splits: Iterable[str]) -> None:
        """Create the folders that tasks write into."""
        names = ("hashes", "pieces", "receipts", "shards")
        for folder in (*(self.path / name for name in names), *map(self.out.joinpath, splits)):
            make_folder(folder)

    def clear_leftovers(self, splits: Iterable[str]) -> None:
        """Remove half-written files of killed processes. No process may write in the folder."""
        below = [path for path in self.path.rglob("*") if path.is_dir()]
        for folder in (self.out, self.path, *below, *map(self.out.joinpath, splits)):
            clear_temporaries(folder)

    def remove(self) -> None:
        """Remove the unfinished state."""
        shutil.rmtree(self.path, ignore_errors=True)

    # The plan

    def read_plan(self) -> bytes | None:
        """Return the plan, as it was written; None if there is none.

        Raises:
            BuildError: The plan is damaged.
        """
        path = self.path / "plan.json"
        if not path.is_file():
            return None
        data = read_sealed(path)
        if data is None:
            raise BuildError(
                f"{path}: the plan of the unfinished build is damaged; remove {self.out} and run "
                "the same command again, or choose another --out"
            )
        return data

    def write_plan(self, data: bytes) -> None:
        """Keep the plan."""
        write_sealed(self.path / "plan.json", data)

    def forget_plan(self) -> None:
        """Remove the plan, so that other options are accepted. What they make equally stays."""
        (self.path / "plan.json").unlink(missing_ok=True)

    def copy(self, name: str) -> Path:
        """Return the path of the unpacked copy of a compressed input."""
        return self.path / "staging" / name

    def forget_copies(self) -> None:
        """Remove all unpacked copies."""
        shutil.rmtree(self.path / "staging", ignore_errors=True)

    # Drops

    def write_hashes(self, unit: str, data: bytes) -> None:
        """Keep the hashes of a unit's documents."""
        write_sealed(self.path / "hashes" / unit, data, durable=False)

    def read_hashes(self, unit: str) -> bytes:
        """Return the hashes of a unit's documents.

        Raises:
            BuildError: They are missing or damaged.
        """
        path = self.path / "hashes" / unit
        data = read_sealed(path)
        if data is None:
            path.unlink(missing_ok=True)
            raise BuildError(f"{path}: the file is missing or damaged; run the same command again")
        return data

    def has_hashes(self, unit: str) -> bool:
        """Return whether the hashes of a unit are complete."""
        return read_sealed(self.path / "hashes" / unit) is not None

    def write_found(self, found: Any, plan: str) -> None:
        """Keep what `find_drops` has found for a plan; after this, the drops are decided."""
        content = {"plan": plan, "found": msgspec.to_builtins(found)}
        write_sealed(self.path / "drops.json", canonical_json(content))

    def read_found(self, kind: type[T], plan: str) -> T | None:
        """Return what `find_drops` has found for a plan, or None."""
        content = self._read(self.path / "drops.json", dict[str, Any])
        if content is None or content.get("plan") != plan:
            return None
        return msgspec.convert(content["found"], kind)

    # Receipts, pieces and shards

    def piece(self, unit: str, suffix: str = ".arrow") -> Path:
        """Return the path of a unit's piece."""
        return self.path / "pieces" / f"{unit}{suffix}"

    def write_receipt(self, unit: str, receipt: Receipt) -> None:
        """Write a unit's receipt. After this, the unit is done."""
        # No fsync: after a crash of the machine, a unit without its receipt is built again.
        data = msgspec.json.encode(receipt)
        write_sealed(self.path / "receipts" / f"{unit}.json", data, durable=False)

    def receipt(self, unit: str, made: str) -> Receipt | None:
        """Return a unit's receipt; None if it is missing, damaged, or made from something else."""
        receipt = self._read(self.path / "receipts" / f"{unit}.json", Receipt)
        return receipt if receipt is not None and receipt.made == made else None

    def has_piece(self, receipt: Receipt) -> bool:
        """Return whether the piece of a receipt is complete."""
        return is_whole(self.path / "pieces" / receipt.piece.file, receipt.piece)

    def write_joined(self, name: str, made: str, record: ShardRecord) -> None:
        """Write the record of a shard. After this, the shard is joined."""
        content = {"made": made, "record": asdict(record)}
        write_sealed(self._joined(name), canonical_json(content), durable=False)

    def joined(self, name: str, made: str) -> ShardRecord | None:
        """Return the record of a shard; None unless it is complete, and made from these units."""
        joined = self._read(self._joined(name), Joined)
        if joined is None or joined.made != made:
            return None
        split = name.rpartition("-")[0]
        return (
            joined.record
            if is_whole(self.out / split / joined.record.file, joined.record)
            else None
        )

    def _joined(self, name: str) -> Path:
        return self.path / "shards" / f"{name}.json"

    def _read(self, path: Path, kind: type[T]) -> T | None:
        data = read_sealed(path)
        try:
            return None if data is None else msgspec.json.decode(data, type=kind)
        except msgspec.ValidationError:  # written by another version
            return None


def is_built(out: Path) -> bool:
    """Return whether a folder is finished."""
    return (out / MANIFEST).is_file()


def is_whole(path: Path, record: ShardRecord) -> bool:
    """Return whether a file has the size and digest of its record."""
    try:
        return path.stat().st_size == record.bytes and hash_file(path) == record.sha256
    except OSError:
        return False


def digest_of(*values: Any) -> str:
    """Return the SHA-256 of plain values."""
    return hashlib.sha256(msgspec.json.encode(values, order="sorted")).hexdigest()


def list_differences(before: Any, now: Any, path: str = "") -> Sequence[str]:
    """Return the dotted keys at which two records differ."""
    if isinstance(before, dict) and isinstance(now, dict):
        different: list[str] = []
        for name in sorted({*before, *now}):
            below = f"{path}.{name}" if path else name
            different += list_differences(before.get(name), now.get(name), below)
        return different
    return [] if before == now else [path]
