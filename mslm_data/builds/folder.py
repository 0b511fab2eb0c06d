"""Keeps the state of an unfinished build in its folder: locks, plan and receipts.

DIR/.build/locks/       a lock for a whole build, and a lock per part
DIR/.build/plan.json    the record of the plan
DIR/.build/staging/     large compressed inputs, unpacked
DIR/.build/pieces/      rows of work units, until they are joined into shards
DIR/.build/duplicate_ids.json   ids in more than one work unit
DIR/.build/signatures/  signatures of documents per work unit, with `source.duplicates`
DIR/.build/copies/      documents that are copies, per work unit
DIR/.build/receipts/    a receipt per finished work unit
DIR/.build/shards/      a record per finished shard
DIR/.build/refused      exists if all units are done, but too much data is lost
DIR/.build/crashes/     crash logs of work units
DIR/SPLIT/              the shards

A resumed build checks each file of `.build` by its digest, and makes damaged files again.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mslm_data.builds.data_loss import Outcome
from mslm_data.builds.plan import Plan, PlannedShard, fingerprints
from mslm_data.builds.scan import Fingerprint
from mslm_data.builds.stages import Inputs
from mslm_data.builds.tasks import Join, WorkUnit
from mslm_data.errors import BuildError, MslmDataError, ShardError
from mslm_data.io.files import (
    canonical_json,
    clear_temporaries,
    hash_file,
    make_folder,
    read_sealed,
    write_sealed,
    write_whole,
)
from mslm_data.io.locks import HeldError, locked
from mslm_data.log import LOGGER
from mslm_data.shard import manifest as manifests
from mslm_data.shard.agreement import FoundByRecord
from mslm_data.shard.manifest import Manifest, read_manifest
from mslm_data.shard.write import ShardRecord

T = TypeVar("T")

_PATIENCE_S = 10.0
"""Maximum wait of a part for the lock of the whole build, in seconds. Other parts hold it
briefly."""


# The output folder and its locks ------------------------------------------------------------------


def check_output(out: Path, splits: Iterable[str]) -> None:
    """Check that a folder is missing, empty, or an unfinished build.

    The folder itself may be a link, but the folders inside may not. Readers reject shards outside
    of the folder, and finishing a build would remove the link but not its target.

    Args:
        out: The folder.
        splits: The splits to build.

    Raises:
        BuildError: It is a file or a broken link, has other files, or contains a linked folder.
    """
    if not out.exists():
        if out.is_symlink():
            raise BuildError(
                f"{out}: expected a folder, got a broken link; remove it, or create its target"
            )
        return
    for folder in (out / ".build", *(out / split for split in splits)):
        if folder.is_symlink():
            raise BuildError(
                f"{folder}: expected a folder, got a link; remove it, because a built folder holds "
                "all of its files, or make --out itself the link"
            )
    is_ours = out.is_dir() and ((out / ".build").is_dir() or not any(out.iterdir()))
    if not is_ours:
        raise BuildError(
            f"{out}: expected an empty folder or an unfinished build, got other files; choose "
            "another --out"
        )


@contextmanager
def lock_build(out: Path, part: tuple[int, int] | None) -> Iterator[None]:
    """Lock a folder for a build, or for a part of a build.

    A whole build holds the build lock and the locks of all parts. A part holds its own lock, and
    checks that no whole build is running. Locks are released however the process ends; see
    `io.locks`.

    Raises:
        BuildError: Another process holds a lock, or the file system has no locks.
    """
    locks = out / ".build" / "locks"
    make_folder(locks)
    try:
        with ExitStack() as held:
            if part is None:
                held.enter_context(locked(locks / "build", error=BuildError, patience=0))
                for name in _parts(locks):
                    held.enter_context(locked(locks / name, error=BuildError, patience=0))
            else:
                own = locks / f"part-{part[0]}-of-{part[1]}"
                held.enter_context(locked(own, error=BuildError, patience=0))
                # Take the build lock and release it: fails if a whole build is running.
                with _whole_build(out):
                    pass
            yield
    except HeldError:
        raise BuildError(
            f"{out}: another build is running in this folder; wait for it or choose another --out"
        ) from None


@contextmanager
def report_if_gone(out: Path) -> Iterator[None]:
    """Replace an error by one that names the folder, if the folder was removed during the build.

    Raises:
        BuildError: An error occurred, and the folder or its `.build` is gone.
    """
    try:
        yield
    except (OSError, MslmDataError):
        if (out / ".build").is_dir() or is_built(out):
            raise
        raise BuildError(
            f"{out}: the folder was removed or emptied during the build; run the same command "
            "again to start over"
        ) from None


def _parts(locks: Path) -> list[str]:
    """Return the file names of the parts' locks."""
    return sorted(path.name for path in locks.glob("part-*"))


def prepare(out: Path, splits: Iterable[str]) -> None:
    """Create the folders that tasks write into."""
    own = [out / ".build" / name for name in ("pieces", "receipts", "shards")]
    for folder in (*own, *(out / split for split in splits)):
        make_folder(folder)


def clear_leftovers(out: Path, splits: Iterable[str]) -> None:
    """Remove half-written files of killed processes. No process may be writing in the folder."""
    below = [path for path in (out / ".build").rglob("*") if path.is_dir()]
    for folder in (out, out / ".build", *below, *(out / split for split in splits)):
        clear_temporaries(folder)


# The plan -----------------------------------------------------------------------------------------


def keep_plan(out: Path, plan: Plan, *, alone: bool) -> None:
    """Write the plan, or check that the unfinished build has the same plan.

    A build that was rejected for its data loss is discarded if the plan has changed.

    Args:
        out: The folder.
        plan: The plan of this build.
        alone: Whether the caller holds the lock of the whole build. Parts do not.

    Raises:
        BuildError: The unfinished build has another plan, or its plan is damaged.
    """
    path = _plan(out)
    record = canonical_json(plan.record)
    if _is_refused(out, record):
        with _whole_build(out) if not alone else nullcontext():
            # Check again under the lock: another part may have started over meanwhile.
            if _is_refused(out, record):
                discard_build(out)
    if not path.is_file():
        with _whole_build(out) if not alone else nullcontext():
            # Parts may start at the same time; only the first one writes the plan.
            if not path.is_file():
                write_sealed(path, record)

    before = read_sealed(path)
    if before is None:
        raise BuildError(
            f"{path}: the plan of the unfinished build is damaged; remove {out} and run the same "
            "command again, or choose another --out"
        )
    check_same_record(
        out,
        msgspec.json.decode(before),
        msgspec.json.decode(record),
        "an unfinished build of something else",
    )


def mark_refused(out: Path) -> None:
    """Mark the build as rejected: all units are done, but too much data is lost."""
    write_whole(_refused(out), [b""])


def mark_accepted(out: Path) -> None:
    """Remove the mark of a rejected build, after its data loss was accepted."""
    _refused(out).unlink(missing_ok=True)


def _plan(out: Path) -> Path:
    return out / ".build" / "plan.json"


def _refused(out: Path) -> Path:
    return out / ".build" / "refused"


def _is_refused(out: Path, record: bytes) -> bool:
    """Return whether a rejected build has a plan other than this record."""
    return _refused(out).is_file() and read_sealed(_plan(out)) not in (None, record)


def _whole_build(out: Path) -> AbstractContextManager[None]:
    """Return the lock of the whole build, which keeps other builds and parts from starting over."""
    return locked(out / ".build" / "locks" / "build", error=BuildError, patience=_PATIENCE_S)


def discard_build(out: Path) -> None:
    """Remove the output of a build. The caller must hold the lock of the whole build."""
    build = out / ".build"
    # Remove the record of a shard before the shard, so that an interruption leaves no record of a
    # missing file.
    for path in (build / "shards").glob("*.json"):
        record = _read(path, ShardRecord)
        path.unlink(missing_ok=True)
        for shard in out.glob(f"*/{record.file}") if record else ():
            shard.unlink(missing_ok=True)
    for name in ("signatures", "copies", "crashes"):
        shutil.rmtree(build / name, ignore_errors=True)
    for folder in (build / "pieces", build / "receipts"):
        for path in folder.iterdir():
            path.unlink(missing_ok=True)
    for name in ("duplicate_ids.json", "refused", "plan.json"):
        (build / name).unlink(missing_ok=True)


def is_built(out: Path) -> bool:
    """Return whether a folder is finished."""
    return (out / manifests.NAME).is_file()


def load_finished(
    out: Path,
    inputs: Inputs,
    identity: Mapping[str, Any],
    file_fingerprints: Mapping[Path, Fingerprint],
) -> Manifest:
    """Load the manifest of a finished folder, and compare its inputs and options.

    Args:
        out: The folder.
        inputs: The input files of this build.
        identity: Everything else that decides bytes; see `plan.collect_identity`.
        file_fingerprints: File -> its fingerprint.

    Raises:
        BuildError: The folder was built from other inputs or options, or its manifest cannot be
            read.
    """
    try:
        manifest = read_manifest(out)
    except ShardError as error:
        raise BuildError(f"{error}; choose another --out or remove {out} first") from None
    before = {
        "name": manifest.name,
        "about": manifest.about,
        "pipeline": manifest.pipeline,
        "annotator": manifest.annotator,
        "segmenter": manifest.segmenter,
        "tokenizer": manifest.tokenizer["sha256"],
        "versions": manifest.versions,
        "labels": list(manifest.labels),
        "sources": {name: list(split.sources) for name, split in manifest.splits.items()},
        "subset": manifest.subset,
    }
    # A build never makes a subset, which otherwise has the record of the whole folder.
    now = {**identity, "sources": fingerprints(inputs, file_fingerprints), "subset": None}

    # Without labels in the pipeline, they follow from the sources, which are compared.
    now["labels"] = now["labels"] or before["labels"]
    now = msgspec.json.decode(canonical_json(now))
    check_same_record(out, before, now, "what was built from something else")
    return manifest


def find_damaged_files(out: Path, manifest: Manifest) -> list[str]:
    """Return the missing files of a finished folder, and those unlike the manifest.

    For files without a digest, only a missing file is found.
    """
    records = {
        f"{name}/{shard.file}": shard
        for name, split in manifest.splits.items()
        for shard in split.shards
    }
    damaged = []
    for name in manifest.files():
        path = out / name
        if name in records:
            good = is_whole(path, records[name])
        elif name == "tokenizer.json":
            good = path.is_file() and hash_file(path) == manifest.tokenizer["sha256"]
        else:
            good = path.is_file()
        if not good:
            damaged.append(name)
    return damaged


def reopen(out: Path, damaged: Sequence[str]) -> None:
    """Reopen a finished folder with damaged files, so that it is built again.

    The caller must hold the folder's lock. Other files, such as lexicons made from the shards, are
    kept, because the same inputs give the same bytes.

    Args:
        out: The folder.
        damaged: Its missing or damaged files, at least one.
    """
    LOGGER.warning(
        "%s: %d of its files are missing or damaged, such as %s; building the folder again",
        *(out, len(damaged), damaged[0]),
    )
    (out / manifests.NAME).unlink()


def clear_unfinished(out: Path) -> None:
    """Remove `.build` from a finished folder."""
    shutil.rmtree(out / ".build", ignore_errors=True)


def check_same_record(
    out: Path, before: Mapping[str, Any], now: Mapping[str, Any], what: str
) -> None:
    """Check that two records are equal.

    Args:
        out: The folder, for the message.
        before: The record of the folder.
        now: The record of this build.
        what: Describes the content of the folder in the message.

    Raises:
        BuildError: The records differ. The message lists the differing keys.
    """
    different = list(_differences(before, now, ""))
    if different:
        raise BuildError(
            f"{out}: holds {what}; different: {', '.join(different)}; choose another --out or "
            "remove it"
        )


def _differences(before: Any, now: Any, path: str) -> Iterator[str]:
    """Yield the dotted keys at which two records differ."""
    if isinstance(before, dict) and isinstance(now, dict):
        for name in sorted({*before, *now}):
            below = f"{path}.{name}" if path else name
            yield from _differences(before.get(name), now.get(name), below)
    elif before != now:
        yield path


# Receipts of work units ---------------------------------------------------------------------------


class Receipt(Outcome, kw_only=True):
    """The outcome of a work unit.

    Attributes:
        duplicate_ids: Duplicate ids left out of the unit, sorted.
        found_by: Number of mentions per label and set of agreeing annotators.
        piece: The piece, of rows or lines.
    """

    duplicate_ids: list[str]
    found_by: list[FoundByRecord]
    piece: ShardRecord


def receipts_folder(out: Path) -> Path:
    """Return the folder of receipts of an unfinished build."""
    return out / ".build" / "receipts"


def piece_path(out: Path, unit: str, *, suffix: str = ".arrow") -> Path:
    """Return the path of a work unit's piece."""
    return out / ".build" / "pieces" / f"{unit}{suffix}"


def write_receipt(out: Path, unit: WorkUnit, receipt: Receipt) -> None:
    """Write a unit's receipt. After this, the unit is done."""
    _write(receipts_folder(out) / f"{unit.name}.json", msgspec.to_builtins(receipt))


def read_receipt(out: Path, unit: WorkUnit) -> Receipt | None:
    """Read a unit's receipt; None if it is missing or damaged."""
    return _read(receipts_folder(out) / f"{unit.name}.json", Receipt)


def is_done(out: Path, unit: WorkUnit) -> bool:
    """Return whether a unit has a receipt for the same duplicate ids, and a complete piece."""
    receipt = read_receipt(out, unit)
    if receipt is None or receipt.duplicate_ids != sorted(unit.duplicate_ids):
        return False
    return is_whole(out / ".build" / "pieces" / receipt.piece.file, receipt.piece)


def require_receipt(out: Path, unit: WorkUnit) -> Receipt:
    """Read the receipt of a unit.

    Raises:
        BuildError: The unit is not done.
    """
    receipt = read_receipt(out, unit)
    if receipt is None:
        raise BuildError(f"{out}: work unit {unit.name} is not done; run the same command again")
    return receipt


# Records of shards --------------------------------------------------------------------------------


def write_joined(out: Path, name: str, record: ShardRecord) -> None:
    """Write the record of a shard. After this, the shard is joined."""
    _write(out / ".build" / "shards" / f"{name}.json", asdict(record))


def read_joined(out: Path, shard: PlannedShard | Join) -> ShardRecord | None:
    """Read the record of a shard; None if it is missing or damaged."""
    return _read(out / ".build" / "shards" / f"{shard.name}.json", ShardRecord)


def is_joined(out: Path, shard: PlannedShard | Join) -> bool:
    """Return whether a shard has a record, and all of its bytes."""
    record = read_joined(out, shard)
    return record is not None and is_whole(out / shard.split / record.file, record)


def is_whole(path: Path, record: ShardRecord) -> bool:
    """Return whether a file has the size and digest of its record."""
    try:
        return path.stat().st_size == record.bytes and hash_file(path) == record.sha256
    except OSError:
        return False


def _write(path: Path, content: Mapping[str, Any]) -> None:
    # No fsync: after a crash of the machine, a unit without its receipt is built again.
    write_sealed(path, canonical_json(content), durable=False)


def _read(path: Path, kind: type[T]) -> T | None:
    data = read_sealed(path)
    return None if data is None else msgspec.json.decode(data, type=kind)
