"""Finds document ids that several work units have, which no unit alone can see."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from mslm_data.builds.folder import piece_path
from mslm_data.builds.reading import shared_id
from mslm_data.builds.tasks import WorkUnit
from mslm_data.io.files import canonical_json, write_whole
from mslm_data.shard.pieces import document_hashes, document_ids


def known_repeats(out: Path, units: Sequence[WorkUnit]) -> list[WorkUnit] | None:
    """Return units with the ids that documents of earlier units have, None if not known yet.

    Args:
        out: The unfinished folder.
        units: Its units.
    """
    try:
        repeated = msgspec.json.decode(_file(out).read_bytes(), type=dict[str, list[str]])
    except (OSError, msgspec.DecodeError):
        return None
    return [unit._replace(repeated=frozenset(repeated.get(unit.name, ()))) for unit in units]


def find_repeats(out: Path, units: Sequence[WorkUnit]) -> list[WorkUnit]:
    """Find the ids that documents of several units have, and keep them.

    A unit that is done again without them holds what it would hold if all of its file were one
    unit. So a repeated id is set aside whatever the size of the units.

    Args:
        out: The unfinished folder, in which every unit has left its piece.
        units: Its units, in order.

    Returns:
        The units, each with those of its ids that documents of earlier units have.

    Raises:
        BuildError: The documents are of different files.
    """
    repeated: dict[str, list[str]] = {}
    for split in dict.fromkeys(unit.split for unit in units):
        of_split = [unit for unit in units if unit.split == split]

        # Hashes may be equal by chance: the ids themselves decide.
        first: dict[str, WorkUnit] = {}
        for unit, ids in _with_repeated_hash(out, of_split).items():
            for doc_id in ids:
                before = first.setdefault(doc_id, unit)
                if before is not unit:
                    _refuse_other_file(before, unit, doc_id)
                    repeated.setdefault(unit.name, []).append(doc_id)

    write_whole(_file(out), [canonical_json(repeated)])
    return [unit._replace(repeated=frozenset(repeated.get(unit.name, ()))) for unit in units]


def _file(out: Path) -> Path:
    return out / ".build" / "repeated.json"


def _with_repeated_hash(out: Path, units: Sequence[WorkUnit]) -> dict[WorkUnit, list[str]]:
    """Return the units with an id whose hash another unit has too, and all ids of each.

    A corpus of ten million documents takes eight bytes of each here.
    """
    if len(units) < 2:
        return {}

    hashes = [document_hashes(piece_path(out, unit.name)) for unit in units]
    together = np.concatenate(hashes)
    together.sort()
    repeated = np.unique(together[1:][together[1:] == together[:-1]])
    if not len(repeated):
        return {}
    return {
        unit: document_ids(piece_path(out, unit.name))
        for unit, of_unit in zip(units, hashes, strict=True)
        if np.isin(of_unit, repeated, assume_unique=True).any()
    }


def _refuse_other_file(before: WorkUnit, unit: WorkUnit, doc_id: str) -> None:
    """Raise unless two units share a file, and so are parts of it."""
    paths = {part.path for part in unit.parts}
    paths_before = {part.path for part in before.parts}
    if not paths & paths_before:
        raise shared_id(doc_id, before.parts[0].path, unit.parts[0].path)
