"""Finds document ids shared by several work units.

A work unit cannot see the ids of others. They are compared after all units are done, and a unit
with a duplicate id is built again without that document. The result is the same as for one unit per
file, so unit sizes never matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from mslm_data.builds.folder import piece_path, require_receipt
from mslm_data.builds.plan import changed_error
from mslm_data.builds.reading import read_records, shared_id
from mslm_data.builds.tasks import Compare, WorkUnit
from mslm_data.data.documents import Documents
from mslm_data.io.files import canonical_json, read_sealed, write_sealed
from mslm_data.pipeline import Pipeline
from mslm_data.shard.pieces import document_hashes, document_ids, hash_ids

COMPARED_AT_ONCE = 1_000_000
"""Approximate number of documents per `Compare` task, at 16 bytes each."""


def load_duplicate_ids(out: Path, units: Sequence[WorkUnit]) -> list[WorkUnit] | None:
    """Load the saved duplicate ids.

    Args:
        out: The unfinished folder.
        units: Its work units.

    Returns:
        The units with their duplicate ids; None if ids were not compared yet.
    """
    data = read_sealed(_file(out))
    if data is None:
        return None
    duplicates = msgspec.json.decode(data, type=dict[str, list[str]])
    return [unit._replace(duplicate_ids=frozenset(duplicates.get(unit.name, ()))) for unit in units]


def plan_comparisons(out: Path, units: Sequence[WorkUnit]) -> list[Compare]:
    """Return the tasks for comparing the ids of all units.

    Args:
        out: The unfinished folder, with all units done.
        units: Its work units, in order.

    Raises:
        BuildError: A unit is not done.
    """
    tasks = []
    for split, members in _by_split(units).items():
        if len(members) < 2:  # a single unit finds its own duplicates
            continue
        documents = sum(require_receipt(out, unit).counts.read for unit in members)
        shares = -(-documents // COMPARED_AT_ONCE)
        pieces = tuple(unit.name for unit in members)
        tasks += [Compare(split, number, shares, pieces) for number in range(shares)]
    return tasks


def compare(task: Compare, out: Path) -> list[tuple[str, list[str]]]:
    """Find the ids in more than one unit, for the task's share of the hashes.

    Args:
        task: The task.
        out: The unfinished folder.

    Returns:
        `(unit, ids)` of each unit with duplicate ids, in order.
    """
    paths = [piece_path(out, name) for name in task.pieces]
    # Ids within a unit are unique, so equal neighbours in the sorted hashes are of two units.
    hashes = [_share(document_hashes(path), task) for path in paths]
    merged = np.concatenate(hashes)
    merged.sort()
    duplicates = np.unique(merged[1:][merged[1:] == merged[:-1]])
    if not len(duplicates):
        return []

    # Read ids only for units with duplicate hashes. Most builds have none.
    candidates = []
    for name, path, unit_hashes in zip(task.pieces, paths, hashes, strict=True):
        if np.isin(unit_hashes, duplicates, assume_unique=True).any():
            ids = document_ids(path)
            is_repeated = np.isin(hash_ids(ids), duplicates)
            candidates.append((name, [ids[number] for number in np.flatnonzero(is_repeated)]))
    return candidates


def save_duplicate_ids(
    out: Path,
    units: Sequence[WorkUnit],
    answers: Iterable[Sequence[tuple[str, Sequence[str]]]],
    pipeline: Pipeline,
) -> list[WorkUnit]:
    """Find which candidate ids are duplicates, and save them.

    Args:
        out: The unfinished folder.
        units: Its work units, in order.
        answers: The answers to all tasks of `plan_comparisons`, in any order.
        pipeline: The pipeline.

    Returns:
        The units with their duplicate ids.

    Raises:
        BuildError: Documents of different files have the same id.
    """
    units_by_name = {unit.name: unit for unit in units}
    duplicates: dict[str, list[str]] = {}
    for candidates in answers:
        # Hashes can collide, so compare ids. Each id is in the answer of exactly one task.
        first_unit: dict[str, WorkUnit] = {}
        for name, ids in candidates:
            unit = units_by_name[name]
            for doc_id in ids:
                before = first_unit.setdefault(doc_id, unit)
                if before is not unit:
                    if not {*before.paths} & {*unit.paths}:  # see `plan._pack`
                        raise shared_id(
                            doc_id,
                            _find_file(before, doc_id, pipeline),
                            _find_file(unit, doc_id, pipeline),
                        )
                    duplicates.setdefault(unit.name, []).append(doc_id)

    write_sealed(_file(out), canonical_json(duplicates))
    return [unit._replace(duplicate_ids=frozenset(duplicates.get(unit.name, ()))) for unit in units]


def _file(out: Path) -> Path:
    return out / ".build" / "duplicate_ids.json"


def _by_split(units: Sequence[WorkUnit]) -> dict[str, list[WorkUnit]]:
    splits: dict[str, list[WorkUnit]] = {}
    for unit in units:
        splits.setdefault(unit.split, []).append(unit)
    return splits


def _share(hashes: npt.NDArray[np.uint64], task: Compare) -> npt.NDArray[np.uint64]:
    """Return the hashes in the task's share of the range, from sorted hashes."""
    width = (1 << 64) // task.shares
    start = np.searchsorted(hashes, np.uint64(task.number * width))
    # The last share takes the remainder of the division too.
    if task.number + 1 == task.shares:
        return hashes[start:]
    return hashes[start : np.searchsorted(hashes, np.uint64((task.number + 1) * width))]


def _find_file(unit: WorkUnit, doc_id: str, pipeline: Pipeline) -> str:
    """Return the path of the file of a document, by reading its unit again."""
    if len(unit.paths) == 1:
        return unit.paths[0]
    for part, record in read_records(unit, pipeline):
        if isinstance(record, Documents) and doc_id in record.ids:
            return part.path
    raise changed_error(unit.paths[0])
