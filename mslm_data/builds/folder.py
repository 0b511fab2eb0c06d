"""Guards an unfinished folder: who may write there, which plan it follows, which units are done.

DIR/.build/locks/       one lock for a whole build, one for each part
DIR/.build/plan.json    the record of the plan
DIR/.build/staging/     large compressed inputs, unpacked
DIR/.build/receipts/    one for each work unit that is done
DIR/.build/trails/      for units at which processes died
DIR/SPLIT/              the shards
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
from filelock import FileLock, Timeout

from mslm_data.builds.plan import Plan
from mslm_data.data.document import SetAside, WorkUnit
from mslm_data.errors import BuildError
from mslm_data.io.files import (
    canonical_json,
    clear_temporaries,
    make_folder,
    sha256_of,
    write_whole,
)
from mslm_data.shard import manifest as manifests
from mslm_data.shard.manifest import Counts, Manifest, read_manifest
from mslm_data.shard.write import ShardRecord

_PATIENCE_S = 10.0
"""How long a part waits for the lock of a whole build, which other parts hold for a moment only."""


# Who may write ------------------------------------------------------------------------------------


def refuse_foreign(out: Path) -> None:
    """Check that a folder is new, empty, or an unfinished build of ours.

    Raises:
        BuildError: It is a file, or holds other files.
    """
    if not out.exists():
        return
    ours = out.is_dir() and ((out / ".build").is_dir() or not any(out.iterdir()))
    if not ours:
        raise BuildError(
            f"{out}: expected an empty folder or an unfinished build, got other files; choose "
            "another --out"
        )


@contextmanager
def claimed(out: Path, part: tuple[int, int] | None) -> Iterator[None]:
    """Hold a folder for a build or for a part of it.

    A part holds its own lock, and checks that no whole build is at work. A whole build holds the
    lock that parts look at, and those of all parts. However this process ends, the system releases
    its locks.

    Raises:
        BuildError: Another process holds it.
    """
    locks = out / ".build" / "locks"
    make_folder(locks)
    try:
        with ExitStack() as held:
            if part is None:
                held.enter_context(_lock(locks / "build"))
                for path in sorted(locks.glob("part-*")):
                    held.enter_context(_lock(path))
            else:
                held.enter_context(_lock(locks / f"part-{part[0]}-of-{part[1]}"))
                with _lock(locks / "build", patience=_PATIENCE_S):
                    pass
            yield
    except Timeout:
        raise BuildError(
            f"{out}: another build is at work in this folder; wait for it or choose another --out"
        ) from None


def _lock(path: Path, *, patience: float = 0) -> FileLock:
    return FileLock(path, timeout=patience, mode=0o600)


def prepare(out: Path, plan: Plan, *, alone: bool) -> None:
    """Make the folders that work units write into.

    Args:
        out: The folder.
        plan: Its plan.
        alone: Whether no other process is at work here, so that temporary files are those of killed
            ones and can go.
    """
    folders = [receipts_folder(out), *(out / split for split in plan.sources)]
    for folder in folders:
        make_folder(folder)
    if alone:
        for folder in (out, out / ".build", *folders):
            clear_temporaries(folder)


# Which plan it follows ----------------------------------------------------------------------------


def keep_plan(out: Path, plan: Plan) -> None:
    """Write the plan beside the receipts, or check that it is the one that they follow.

    Raises:
        BuildError: They follow another.
    """
    path = out / ".build" / "plan.json"
    if not path.is_file():
        write_whole(path, [canonical_json(plan.record)])
        return

    before = msgspec.json.decode(path.read_bytes())
    now = msgspec.json.decode(canonical_json(plan.record))
    _refuse_difference(out, before, now, "an unfinished build of something else")


def is_built(out: Path) -> bool:
    """Return whether a folder is finished."""
    return (out / manifests.NAME).is_file()


def finished_already(out: Path, plan: Plan) -> Manifest:
    """Return the manifest of a finished folder that follows a plan, and clear its unfinished state.

    Raises:
        BuildError: It follows another plan.
    """
    manifest = read_manifest(out)
    if manifest.plan != plan.digest:
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
        now = msgspec.json.decode(canonical_json({name: plan.record[name] for name in before}))
        _refuse_difference(out, before, now, "what was built from something else")

    shutil.rmtree(out / ".build", ignore_errors=True)
    return manifest


def _refuse_difference(
    out: Path, before: Mapping[str, Any], now: Mapping[str, Any], what: str
) -> None:
    """Raise unless two records are equal, and name what differs."""
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
    """The outcome of a work unit: its counts, the documents that it set aside, and its shard."""

    set_aside: tuple[SetAside, ...]
    shard: ShardRecord


def receipts_folder(out: Path) -> Path:
    """Return the folder of an unfinished build's receipts."""
    return out / ".build" / "receipts"


def receipt_name(unit: WorkUnit) -> str:
    """Return the file name of a unit's receipt."""
    return f"{unit.name}.json"


def write_receipt(out: Path, unit: WorkUnit, receipt: Receipt) -> str:
    """Write a unit's receipt, which makes the unit done, and return its file name."""
    name = receipt_name(unit)
    content = asdict(receipt) | {"set_aside": [*map(list, receipt.set_aside)]}
    write_whole(receipts_folder(out) / name, [canonical_json(content)])
    return name


def read_receipt(out: Path, unit: WorkUnit, *, every_byte: bool = False) -> Receipt | None:
    """Return a unit's receipt, or None if the unit is not done.

    A unit is done if its receipt can be read and its shard is there in full.

    Args:
        out: The unfinished folder.
        unit: The unit.
        every_byte: Whether the shard's checksum is computed, not only its size compared.
    """
    path = receipts_folder(out) / receipt_name(unit)
    try:
        value: dict[str, Any] = msgspec.json.decode(path.read_bytes())
        receipt = msgspec.convert(value, Receipt)
        shard = shard_path(out, unit, receipt)
        whole = shard.stat().st_size == receipt.shard.bytes
        if whole and every_byte:
            whole = sha256_of(shard) == receipt.shard.sha256
    except (OSError, msgspec.DecodeError):
        return None
    return receipt if whole else None


def require_receipt(out: Path, unit: WorkUnit) -> Receipt:
    """Return the receipt of a unit that must be done, its shard checked byte by byte.

    Raises:
        BuildError: The unit is not done.
    """
    receipt = read_receipt(out, unit, every_byte=True)
    if receipt is None:
        raise BuildError(
            f"{out}: work unit {unit.number} of {unit.split} is not done; run the same command "
            "again"
        )
    return receipt


def shard_path(out: Path, unit: WorkUnit, receipt: Receipt) -> Path:
    """Return the path of a unit's shard."""
    return out / unit.split / receipt.shard.file
