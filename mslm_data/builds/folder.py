"""Guards an unfinished folder: its locks, its plan, and the receipts of units that are done.

DIR/.build/locks/       one lock for a whole build, one for each part
DIR/.build/plan.json    the record of the plan
DIR/.build/staging/     large compressed inputs, unpacked
DIR/.build/pieces/      the rows of each work unit, until they are joined into shards
DIR/.build/duplicate_ids.json   ids that occur in more than one work unit
DIR/.build/signatures/  signatures of each unit's documents, with source.duplicates
DIR/.build/copies/      documents of each unit that are copies
DIR/.build/receipts/    one for each finished work unit
DIR/.build/shards/      one record for each finished shard
DIR/.build/refused      exists if all units are done and the data loss is too large
DIR/.build/crashes/     crash logs of units
DIR/SPLIT/              the shards

A resumed build checks every file of `.build` against a digest, and makes it again if it differs.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mslm_data.builds.plan import Plan, PlannedShard, fingerprints
from mslm_data.builds.scan import Fingerprint
from mslm_data.builds.stages import Inputs
from mslm_data.builds.tasks import Join, WorkUnit
from mslm_data.data.document import SetAside
from mslm_data.data.reason import Reason
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
from mslm_data.shard.manifest import Counts, Manifest, read_manifest
from mslm_data.shard.write import ShardRecord

T = TypeVar("T")

_PATIENCE_S = 10.0
"""Maximum wait of a part for the lock of the whole build. Other parts hold it only briefly."""


# Who may write ------------------------------------------------------------------------------------


def check_output(out: Path, splits: Iterable[str]) -> None:
    """Check that a folder is new, empty, or an unfinished build of ours.

    The folder may be a link, but folders within it may not: readers reject shards outside of the
    folder, and the target of a link would not be removed when the build is finished.

    Args:
        out: The folder.
        splits: The splits to build.

    Raises:
        BuildError: It is a file or a broken link, holds other files, or a folder within it is a
            link.
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
    ours = out.is_dir() and ((out / ".build").is_dir() or not any(out.iterdir()))
    if not ours:
        raise BuildError(
            f"{out}: expected an empty folder or an unfinished build, got other files; choose "
            "another --out"
        )


@contextmanager
def claimed(out: Path, part: tuple[int, int] | None) -> Iterator[None]:
    """Hold a folder for a build or for a part of it.

    A part holds its own lock, and checks that no whole build is running. A whole build holds the
    build lock and the locks of all parts. Locks are released however this process ends; see
    `io.locks`.

    Raises:
        BuildError: Another process holds it, or the file system refuses locks.
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
                with _whole_build(out):
                    pass
            yield
    except HeldError as error:
        raise BuildError(
            f"{out}: another build is running in this folder; wait for it or choose another --out"
            f"{error.advice}"
        ) from None


@contextmanager
def named_if_gone(out: Path) -> Iterator[None]:
    """Name the folder of a build in the error of one that was removed meanwhile.

    Raises:
        BuildError: Something failed, and the folder or what a build keeps in it is gone.
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
    """Return the names of the locks of parts."""
    return sorted({path.name.removesuffix(".owner") for path in locks.glob("part-*")})


def prepare(out: Path, splits: Iterable[str]) -> None:
    """Make the folders that tasks write into."""
    own = [out / ".build" / name for name in ("pieces", "receipts", "shards")]
    for folder in (*own, *(out / split for split in splits)):
        make_folder(folder)


def clear_leftovers(out: Path, splits: Iterable[str]) -> None:
    """Remove half-written files of killed processes. No process may be writing in the folder."""
    below = [path for path in (out / ".build").rglob("*") if path.is_dir()]
    for folder in (out, out / ".build", *below, *(out / split for split in splits)):
        clear_temporaries(folder)


# Which plan it follows ----------------------------------------------------------------------------


def keep_plan(out: Path, plan: Plan, *, alone: bool) -> None:
    """Write the plan, or check that it equals the plan of the unfinished build.

    Remove the output of a rejected build when its plan has changed.

    Args:
        out: The folder.
        plan: The plan of this build.
        alone: Whether the caller holds the lock of the whole build; parts do not.

    Raises:
        BuildError: The unfinished build has another plan, or its plan is damaged.
    """
    path = _plan(out)
    record = canonical_json(plan.record)
    if _is_refused(out, record):
        with _whole_build(out) if not alone else nullcontext():
            # Another part may have started over in the meantime.
            if _is_refused(out, record):
                discard_build(out)
    if not path.is_file():
        with _whole_build(out) if not alone else nullcontext():
            # Parts may start at the same time: only the first one writes its plan.
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
    """Mark the build as rejected: all units are done, and the data loss is too large."""
    write_whole(_refused(out), [b""])


def mark_accepted(out: Path) -> None:
    """Remove the mark of a rejected build, because its data loss is accepted now."""
    _refused(out).unlink(missing_ok=True)


def _plan(out: Path) -> Path:
    return out / ".build" / "plan.json"


def _refused(out: Path) -> Path:
    return out / ".build" / "refused"


def _is_refused(out: Path, record: bytes) -> bool:
    """Return whether a build with another plan was rejected."""
    return _refused(out).is_file() and read_sealed(_plan(out)) not in (None, record)


def _whole_build(out: Path) -> AbstractContextManager[None]:
    """Return a context in which no other part starts over, and no whole build starts."""
    return locked(out / ".build" / "locks" / "build", error=BuildError, patience=_PATIENCE_S)


def discard_build(out: Path) -> None:
    """Remove the output of a build. The caller must hold the lock of the whole build."""
    build = out / ".build"
    # Remove the records of shards first: a shard without a record is joined again.
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


def finished_already(
    out: Path,
    found: Inputs,
    identity: Mapping[str, Any],
    of_files: Mapping[Path, Fingerprint],
) -> Manifest:
    """Return the manifest of a finished folder.

    Args:
        out: The folder.
        found: The input files that it should be made of.
        identity: All else that should have made it; see `plan.collect_identity`.
        of_files: File -> its fingerprint.

    Raises:
        BuildError: It was made of something else, or its manifest cannot be read.
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
    }
    now = {**identity, "sources": fingerprints(found, of_files)}

    # Labels that the pipeline does not name follow from it and the sources.
    now["labels"] = now["labels"] or before["labels"]
    now = msgspec.json.decode(canonical_json(now))
    check_same_record(out, before, now, "what was built from something else")
    return manifest


def damaged_files(out: Path, manifest: Manifest) -> list[str]:
    """Return the files of a finished folder that are missing or do not match the manifest.

    Files without a digest are only checked for existence.
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
            # Folders of earlier versions lack the last.
            good = path.is_file() or name == "tokenizer_config.json"
        if not good:
            damaged.append(name)
    return damaged


def begin_again(out: Path, damaged: Sequence[str]) -> None:
    """Make a finished folder one whose build begins; the caller holds its lock.

    The same inputs give the same bytes, so what was made of the shards, such as lexicons, stays.

    Args:
        out: The folder.
        damaged: Its files that are missing or damaged, at least one.
    """
    LOGGER.warning(
        "%s: %d of its files are missing or damaged, such as %s; building the folder again",
        *(out, len(damaged), damaged[0]),
    )
    (out / manifests.NAME).unlink()


def clear_unfinished(out: Path) -> None:
    """Remove the unfinished state of a folder that is finished."""
    shutil.rmtree(out / ".build", ignore_errors=True)


def check_same_record(
    out: Path, before: Mapping[str, Any], now: Mapping[str, Any], what: str
) -> None:
    """Raise BuildError unless two records are equal, and name what differs."""
    different = list(_differences(before, now, ""))
    if different:
        raise BuildError(
            f"{out}: holds {what}; different: {', '.join(different)}; choose another --out or "
            "remove it"
        )


def _differences(before: Any, now: Any, path: str) -> Iterator[str]:
    """Give the paths at which two records differ."""
    if isinstance(before, dict) and isinstance(now, dict):
        for name in sorted({*before, *now}):
            below = f"{path}.{name}" if path else name
            yield from _differences(before.get(name), now.get(name), below)
    elif before != now:
        yield path


# Which units are done -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Receipt(Counts):
    """The outcome of a work unit.

    Attributes:
        reasons: Those that `left_out` counts by their texts, sorted.
        set_aside: The documents that it set aside.
        duplicate_ids: Ids of its documents that occur in earlier units, as far as that was
            known; sorted.
        labels: The labels of its mentions, before overlaps were resolved.
        unwanted: The labels of mentions that were left out because of them.
        doc_labels: The labels of its documents.
        found_by: Mentions that the same ones of several annotators found.
        piece: The rows or lines that it left.
    """

    reasons: tuple[Reason, ...]
    set_aside: tuple[SetAside, ...]
    duplicate_ids: tuple[str, ...]
    labels: tuple[str, ...]
    unwanted: tuple[str, ...]
    doc_labels: tuple[str, ...]
    found_by: tuple[FoundByRecord, ...]
    piece: ShardRecord

    @property
    def lost_mentions(self) -> Counter[Reason]:
        """Return reason -> mentions that are in no row."""
        return Counter({reason: self.left_out[reason.text] for reason in self.reasons})


def receipts_folder(out: Path) -> Path:
    """Return the folder of an unfinished build's receipts."""
    return out / ".build" / "receipts"


def piece_path(out: Path, unit: str, *, suffix: str = ".arrow") -> Path:
    """Return where the unit of this name leaves its piece."""
    return out / ".build" / "pieces" / f"{unit}{suffix}"


def write_receipt(out: Path, unit: WorkUnit, receipt: Receipt) -> None:
    """Write a unit's receipt, which makes the unit done."""
    _write(receipts_folder(out) / f"{unit.name}.json", asdict(receipt))


def read_receipt(out: Path, unit: WorkUnit) -> Receipt | None:
    """Return a unit's receipt, or None if there is none that can be read."""
    return _read(receipts_folder(out) / f"{unit.name}.json", Receipt)


def is_done(out: Path, unit: WorkUnit) -> bool:
    """Return whether a unit has left its receipt and all of its piece."""
    receipt = read_receipt(out, unit)
    if receipt is None or receipt.duplicate_ids != tuple(sorted(unit.duplicate_ids)):
        return False
    return is_whole(out / ".build" / "pieces" / receipt.piece.file, receipt.piece)


def require_receipt(out: Path, unit: WorkUnit) -> Receipt:
    """Return the receipt of a unit that must be done.

    Raises:
        BuildError: The unit is not done.
    """
    receipt = read_receipt(out, unit)
    if receipt is None:
        raise BuildError(f"{out}: work unit {unit.name} is not done; run the same command again")
    return receipt


# Which shards are joined --------------------------------------------------------------------------


def write_joined(out: Path, name: str, record: ShardRecord) -> None:
    """Write what a shard became, which makes it joined."""
    _write(out / ".build" / "shards" / f"{name}.json", asdict(record))


def read_joined(out: Path, shard: PlannedShard | Join) -> ShardRecord | None:
    """Return what a shard became, or None if it is not joined."""
    return _read(out / ".build" / "shards" / f"{shard.name}.json", ShardRecord)


def is_joined(out: Path, shard: PlannedShard | Join) -> bool:
    """Return whether a shard is joined and there, every byte of it."""
    record = read_joined(out, shard)
    return record is not None and is_whole(out / shard.split / record.file, record)


def is_whole(path: Path, record: ShardRecord) -> bool:
    """Return whether a file has the bytes that a record says."""
    try:
        return path.stat().st_size == record.bytes and hash_file(path) == record.sha256
    except OSError:
        return False


def _write(path: Path, content: Mapping[str, Any]) -> None:
    """Write a receipt. It need not outlive a crash of the machine: what it lacks is done again."""
    write_sealed(path, canonical_json(content), durable=False)


def _read(path: Path, kind: type[T]) -> T | None:
    data = read_sealed(path)
    return None if data is None else msgspec.json.decode(data, type=kind)
