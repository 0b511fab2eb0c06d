"""Finds document ids that several work units have, which no unit alone can see.

A unit that is done again without such ids holds what it would hold if all of its file were one
unit. So a repeated id is set aside whatever the size of the units.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from mslm_data.builds.folder import piece_path, require_receipt
from mslm_data.builds.reading import shared_id
from mslm_data.builds.tasks import Compare, WorkUnit
from mslm_data.io.files import canonical_json, read_sealed, write_sealed
from mslm_data.shard.pieces import document_hashes, document_ids, hash_ids

COMPARED_AT_ONCE = 1_000_000
"""About how many documents a task compares, which takes some 16 bytes of each."""


def known_repeats(out: Path, units: Sequence[WorkUnit]) -> list[WorkUnit] | None:
    """Return units with the ids that documents of earlier units have, None if not known yet.

    Args:
        out: The unfinished folder.
        units: Its units.
    """
    data = read_sealed(_file(out))
    if data is None:
        return None
    repeated = msgspec.json.decode(data, type=dict[str, list[str]])
    return [unit._replace(repeated=frozenset(repeated.get(unit.name, ()))) for unit in units]


def comparisons(out: Path, units: Sequence[WorkUnit]) -> list[Compare]:
    """Return the tasks that compare the ids of units.

    Args:
        out: The unfinished folder, in which every unit is done.
        units: Its units, in order.

    Raises:
        BuildError: A unit is not done.
    """
    tasks = []
    for split, of_split in _by_split(units).items():
        if len(of_split) < 2:
            continue
        documents = sum(require_receipt(out, unit).read for unit in of_split)
        shares = -(-documents // COMPARED_AT_ONCE)
        pieces = tuple(unit.name for unit in of_split)
        tasks += [Compare(split, number, shares, pieces) for number in range(shares)]
    return tasks


def compare(task: Compare, out: Path) -> list[tuple[str, list[str]]]:
    """Find the ids that several units have, among those of a task's share.

    Args:
        task: The task.
        out: The unfinished folder.

    Returns:
        The names of units with such ids, in order, and these ids.
    """
    paths = [piece_path(out, name) for name in task.pieces]
    hashes = [_share(document_hashes(path), task) for path in paths]
    together = np.concatenate(hashes)
    together.sort()
    repeated = np.unique(together[1:][together[1:] == together[:-1]])
    if not len(repeated):
        return []

    found = []
    for name, path, of_unit in zip(task.pieces, paths, hashes, strict=True):
        if np.isin(of_unit, repeated, assume_unique=True).any():
            ids = document_ids(path)
            is_repeated = np.isin(hash_ids(ids), repeated)
            found.append((name, [ids[number] for number in np.flatnonzero(is_repeated)]))
    return found


def keep_repeats(
    out: Path, units: Sequence[WorkUnit], found: Iterable[Sequence[tuple[str, Sequence[str]]]]
) -> list[WorkUnit]:
    """Decide which ids are repeated, and keep them.

    Args:
        out: The unfinished folder.
        units: Its units, in order.
        found: The answers of all tasks of `comparisons`, in any order.

    Returns:
        The units, each with those of its ids that documents of earlier units have.

    Raises:
        BuildError: The documents are of different files.
    """
    named = {unit.name: unit for unit in units}
    repeated: dict[str, list[str]] = {}
    for of_task in found:
        # Hashes may be equal by chance: the ids themselves decide. No id is in two shares.
        first: dict[str, WorkUnit] = {}
        for name, ids in of_task:
            unit = named[name]
            for doc_id in ids:
                before = first.setdefault(doc_id, unit)
                if before is not unit:
                    _refuse_other_file(before, unit, doc_id)
                    repeated.setdefault(unit.name, []).append(doc_id)

    write_sealed(_file(out), canonical_json(repeated))
    return [unit._replace(repeated=frozenset(repeated.get(unit.name, ()))) for unit in units]


def _file(out: Path) -> Path:
    return out / ".build" / "repeated.json"


def _by_split(units: Sequence[WorkUnit]) -> dict[str, list[WorkUnit]]:
    """Return split -> its units."""
    splits: dict[str, list[WorkUnit]] = {}
    for unit in units:
        splits.setdefault(unit.split, []).append(unit)
    return splits


def _share(hashes: npt.NDArray[np.uint64], task: Compare) -> npt.NDArray[np.uint64]:
    """Return the hashes that are a task's, of hashes that are sorted."""
    width = (1 << 64) // task.of
    start = np.searchsorted(hashes, np.uint64(task.number * width))
    if task.number + 1 == task.of:
        return hashes[start:]
    return hashes[start : np.searchsorted(hashes, np.uint64((task.number + 1) * width))]


def _refuse_other_file(before: WorkUnit, unit: WorkUnit, doc_id: str) -> None:
    """Raise unless two units share a file, and so are parts of it."""
    paths = {part.path for part in unit.parts}
    paths_before = {part.path for part in before.parts}
    if not paths & paths_before:
        raise shared_id(doc_id, before.parts[0].path, unit.parts[0].path)
