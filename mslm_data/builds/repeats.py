"""Documents whose id a document of another unit has: no unit alone can see them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

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
        if total < 2:
            continue
        units = [unit for unit in plan.units if unit.split == split]
        ids_of_units = [_ids(out, unit) for unit in units]

        counts = pc.value_counts(pa.chunked_array(ids_of_units))
        again = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
        if not len(again):
            continue

        first: dict[str, WorkUnit] = {}
        for unit, ids in zip(units, ids_of_units, strict=True):
            for doc_id in ids.filter(pc.is_in(ids, value_set=again)).to_pylist():
                before = first.setdefault(doc_id, unit)
                if before is not unit:
                    _refuse_other_file(before, unit, doc_id)
                    repeated[unit] = repeated.get(unit, frozenset()) | {doc_id}
    return repeated


def _ids(out: Path, unit: WorkUnit) -> pa.StringArray:
    """Return the ids of the documents in a unit's shard, each once."""
    receipt = finished(out, unit)
    path = out / unit.split / receipt.shard.file
    shard = Shard(path, receipt.shard, TokenIds(size=1), labels=None)
    return pc.unique(shard.batch.column("doc_id"))


def _refuse_other_file(before: WorkUnit, unit: WorkUnit, doc_id: str) -> None:
    """Two units that share a file are parts of it; others are of different files."""
    paths, earlier = {part.path for part in unit.parts}, {part.path for part in before.parts}
    if not paths & earlier:
        raise BuildError(
            f"{unit.split}: expected ids that no two files share, got document {doc_id} in "
            f"{Path(before.parts[0].path).name} and {Path(unit.parts[0].path).name}; rename a file, or build them apart"
        )
