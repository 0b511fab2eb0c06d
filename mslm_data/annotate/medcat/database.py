"""Builds a MedCAT concept database in memory from concept tables."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mslm_data.annotate.medcat.library import import_module, without_snapshot
from mslm_data.annotate.medcat.tokenizer import LEMMAS
from mslm_data.errors import AnnotateError
from mslm_data.io.name_tables import read_table

COLUMNS = ("cui", "name", "ontologies", "name_status", "type_ids", "description")
"""Columns of a concept table. The first two are required. `|` separates several names or types."""

_FRAME_ROWS = 50_000


class Settled(NamedTuple):
    """A concept database with a single concept per name.

    Attributes:
        cdb: `CDB` of MedCAT.
        names: Number of names that were ambiguous before.
    """

    cdb: Any
    names: int


def configuration() -> Any:
    """Return a MedCAT configuration with our tokenizer; no spell check, logs or usage files."""
    with without_snapshot():
        config = import_module("medcat.config.config").Config()
    config.general.nlp.provider = LEMMAS
    config.general.log_level = logging.ERROR
    config.general.spell_check = False
    config.general.usage_monitor.enabled = False
    return config


def build_database(
    frames: Iterable[Any], config: Any = None, *, prefer: Collection[str] = ()
) -> Settled:
    """Build a concept database, and assign each ambiguous name to a single concept.

    MedCAT resolves ambiguous names by learned contexts. An untrained database would drop these
    names. The order of preference is: a concept with a preferred type, a concept with this name as
    primary name, the first concept.

    Args:
        frames: pandas data frames with `COLUMNS`.
        config: Configuration of MedCAT, whose tokenizer splits the names. Default: that of
            `configuration`.
        prefer: Preferred semantic types. Default: none.
    """
    maker = import_module("medcat.model_creation.cdb_maker").CDBMaker(config or configuration())
    cdb = maker.prepare_csvs(frames)

    settled = 0
    for name, info in cdb.name2info.items():
        status: dict[str, str] = info["per_cui_status"]
        if len(status) < 2:
            continue

        chosen = min(status, key=lambda cui: _preference(cdb, cui, status[cui], prefer))
        for cui in status:
            if cui != chosen:
                cdb.cui2info[cui]["names"].discard(name)
        info["per_cui_status"] = {chosen: status[chosen]}
        settled += 1
    return Settled(cdb, settled)


def _preference(cdb: Any, cui: str, status: str, prefer: Collection[str]) -> tuple[bool, bool]:
    """Return a sort key for the concepts of a name; the smallest is preferred."""
    has_other_type = cdb.cui2info[cui]["type_ids"].isdisjoint(prefer)
    is_not_primary = status != "P"
    return has_other_type, is_not_primary


def read_frames(path: Path) -> Iterator[Any]:
    """Read a concept table (CSV in UTF-8) as pandas data frames with the known `COLUMNS`.

    Raises:
        AnnotateError: The table is not CSV in UTF-8, lacks the column `cui` or `name`, or has a
            malformed row.
    """
    with path.open(encoding="utf-8-sig", newline="") as file:
        try:
            table = read_table(file, path, AnnotateError)
            if not {"cui", "name"} <= set(table.columns):
                raise AnnotateError(
                    f"{path}: expected a table with the columns {', '.join(COLUMNS)}, of which "
                    f"cui and name are required, got {len(table.columns)} column(s) without them"
                )

            columns = [name for name in table.columns if name in COLUMNS]
            yield from make_frames(
                ([row[name] for name in columns] for _, row in table.rows), columns
            )
        except UnicodeDecodeError:
            raise AnnotateError(f"{path}: not valid UTF-8; save the CSV table as UTF-8") from None


def make_frames(rows: Iterable[Sequence[str]], columns: Sequence[str] = COLUMNS) -> Iterator[Any]:
    """Convert rows to pandas data frames for `build_database`. The last frame may be empty."""
    frame = import_module("pandas").DataFrame
    batch: list[Sequence[str]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == _FRAME_ROWS:
            yield frame(batch, columns=columns)
            batch = []
    yield frame(batch, columns=columns)
