"""Concept tables to MedCAT's concept database, in memory."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from mslm_data.annotate.medcat import importing as medcat_import
from mslm_data.annotate.medcat import tokenizer as medcat_tokenizer
from mslm_data.errors import AnnotateError

COLUMNS = ("cui", "name", "ontologies", "name_status", "type_ids", "description")
"""Columns of a MedCAT concept table; the first two must be there. Names and types are separated by `|`."""

_ROWS_AT_ONCE = 50_000


class Settled(NamedTuple):
    """A concept database whose names stand for one concept each, and how many names had several."""

    cdb: Any
    names: int


def configuration() -> Any:
    """Return MedCAT's configuration as we build with it: our tokenizer, no spelling, logs or usage files."""
    config = medcat_import.load("medcat.config.config").Config()
    config.general.nlp.provider = medcat_tokenizer.LEMMAS
    config.general.log_level = logging.ERROR
    config.general.spell_check = False
    config.general.usage_monitor.enabled = False
    return config


def build(frames: Iterable[Any], *, prefer: Collection[str] = ()) -> Settled:
    """Build a concept database from tables.

    MedCAT links an ambiguous name by what it learned of the concepts' contexts, and a database that learned nothing
    drops it. So each name gets one concept: one of a preferred type, of these the one whose primary name it is, of
    these the first.

    Args:
        frames: Tables with `COLUMNS`, taken one by one.
        prefer: Semantic types.
    """
    maker = medcat_import.load("medcat.model_creation.cdb_maker").CDBMaker(configuration())
    cdb = maker.prepare_csvs(frames)
    settled = 0
    for name, info in cdb.name2info.items():
        status: dict[str, str] = info["per_cui_status"]
        if len(status) > 1:
            chosen = min(status, key=lambda cui: _rank(cdb, cui, status[cui], prefer))
            for cui in status:
                if cui != chosen:
                    cdb.cui2info[cui]["names"].discard(name)
            info["per_cui_status"] = {chosen: status[chosen]}
            settled += 1
    return Settled(cdb, settled)


def _rank(cdb: Any, cui: str, status: str, prefer: Collection[str]) -> tuple[bool, bool]:
    return (cdb.cui2info[cui]["type_ids"].isdisjoint(prefer), status != "P")


def table(path: Path) -> Iterator[Any]:
    """Give the rows of a concept table as pandas frames.

    Raises:
        AnnotateError: Not UTF-8, or without the columns `cui` and `name`.
    """
    import csv

    frame = medcat_import.load("pandas").DataFrame
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file, restval="")
        try:
            names = {str(name): str(name).strip().lower() for name in rows.fieldnames or ()}
            if not {"cui", "name"} <= set(names.values()):
                raise AnnotateError(
                    f"{path}: expected a table with the columns {', '.join(COLUMNS)}, got others"
                )
            taken = [name for name in names if names[name] in COLUMNS]
            batch: list[list[str]] = []
            for row in rows:
                batch.append([row[name] for name in taken])
                if len(batch) == _ROWS_AT_ONCE:
                    yield frame(batch, columns=[names[name] for name in taken])
                    batch = []
            yield frame(batch, columns=[names[name] for name in taken])
        except (UnicodeDecodeError, csv.Error) as error:
            raise AnnotateError(
                f"{path}:{rows.line_num}: expected a CSV table in UTF-8, got {type(error).__name__}"
            ) from None


def model(cdb: Any) -> Any:
    """Return a MedCAT model of a concept database, with the words of its names as its vocabulary.

    The words have counts but no vectors: those serve to tell concepts of the same name apart, which `build` settles.
    """
    vocabulary = medcat_import.load("medcat.vocab").Vocab()
    for word in sorted(cdb.token_counts):
        vocabulary.add_word(word, cdb.token_counts[word])
    return medcat_import.load("medcat.cat").CAT(cdb, vocabulary, cdb.config)
