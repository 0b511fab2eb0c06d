"""Documents whose id a document of another unit has: no unit alone can see them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mslm_data.builds.plan import Plan
from mslm_data.builds.unit import finished
from mslm_data.data.document import WorkUnit
from mslm_data.data.examples import TokenIds
from mslm_data.errors import BuildError
from mslm_data.shard.read import Shard


def repeated_ids(out: Path, plan: Plan) -> dict[WorkUnit, frozenset[str]]:
    """Return the units that hold documents of an id that a unit before them has, with these ids.

    A unit built again without them holds what it would hold were all of the file one unit: a repeated id is set aside
    whatever the units.

    Raises:
        BuildError: The documents are of different files; see `unit.Work`.
    """
    repeated: dict[WorkUnit, frozenset[str]] = {}
    for split, total in plan.totals().items():
        units = [unit for unit in plan.units if unit.split == split]
        if total < 2:
            continue
        shards = [_shard(out, unit) for unit in units]
        keys = np.concatenate([shard.flat("key") for shard in shards])
        _, first = np.unique(keys, return_index=True)
        if len(first) == len(keys):
            continue
        owner = np.repeat(np.arange(len(units)), [len(shard) for shard in shards])
        row = np.concatenate([np.arange(len(shard)) for shard in shards])
        again = np.setdiff1d(np.arange(len(keys)), first)
        first_of = dict(zip(keys[first].tolist(), owner[first].tolist(), strict=True))
        for place in again.tolist():
            unit, before = units[owner[place]], units[first_of[int(keys[place])]]
            doc_id = shards[owner[place]].row(int(row[place]))["doc_id"]
            _refuse_other_file(before, unit, doc_id)
            repeated[unit] = repeated.get(unit, frozenset()) | {doc_id}
    return repeated


def _shard(out: Path, unit: WorkUnit) -> Shard:
    receipt = finished(out, unit)
    return Shard(
        out / unit.split / receipt.shard.file, receipt.shard, TokenIds(size=1), labels=None
    )


def _refuse_other_file(before: WorkUnit, unit: WorkUnit, doc_id: str) -> None:
    """Two units that share a file are parts of it; others are of different files."""
    paths, earlier = {part.path for part in unit.parts}, {part.path for part in before.parts}
    if not paths & earlier:
        raise BuildError(
            f"{unit.split}: expected ids that no two files share, got document {doc_id} in "
            f"{Path(before.parts[0].path).name} and {Path(unit.parts[0].path).name}; rename a file, or build them apart"
        )
