"""Read concept tables: MedCAT's, and tables of names with synonyms such as DrugBank's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from mslm_data.errors import AnnotateError
from mslm_data.io.limits import LONGEST_LINE
from mslm_data.io.name_tables import read_table
from mslm_data.lexicon.concepts.names import Name, NameChoice, NameTally
from mslm_data.lexicon.text_files import open_text
from mslm_data.log import plain

_ID = ("drugbank id", "id", "concept", "cui", "code")
"""Column names for the id, in order of preference."""
_NAME = ("common name", "name", "label", "preferred name", "preferred label")
_SYNONYMS = ("synonyms", "synonym")
_NO_ID = "no concept id"
"""Reason for names without an id."""
_NO_NAME = "row without a name"
"""Reason for a row without a name, counted as one name."""


def read(
    path: Path, types: tuple[str, ...], choice: NameChoice, tally: NameTally
) -> Iterator[Name]:
    """Yield the names in a table, separated by commas or tabs, with columns in any order.

    A table has an id and a name (`Common name`, `name`, `label`), and optionally the columns
    `synonyms`, `type_ids`, `name_status` and `ontologies`. Synonyms and types within a cell are
    separated by `|`; a row without types has those of earlier rows of its concept.

    In MedCAT's format, with the columns `cui` and `name`, `|` separates names too. There, a name
    without a status is an alternative name, elsewhere the primary one.

    Args:
        path: The table.
        types: Semantic types of concepts without types.
        choice: Ignored; names are filtered afterwards.
        tally: Counts of names left out; updated.

    Raises:
        AnnotateError: Columns are missing, a row is malformed, or rows have different numbers of
            fields.
    """
    del choice
    with open_text(path, AnnotateError) as file:
        tabs = "\t" in file.readline(LONGEST_LINE)
        file.seek(0)
        table = read_table(file, path, AnnotateError, delimiter="\t" if tabs else ",")
        columns = table.columns

        is_medcat = {"cui", "name"} <= set(columns)
        id_column = "cui" if is_medcat else _find_first(_ID, columns)
        name_column = "name" if is_medcat else _find_first(_NAME, columns)
        synonym_column = _find_first(_SYNONYMS, columns)
        if id_column is None or name_column is None:
            raise AnnotateError(
                f"{path}: expected a table with the columns cui and name (MedCAT's), or with an id "
                "and a name (such as DrugBank ID, Common name, Synonyms), got "
                f"{plain(', '.join(columns) or 'none')}"
            )

        concept_types: dict[str, tuple[str, ...]] = {}
        for _, cell in table.rows:
            concept = cell[id_column].upper() if is_medcat else cell[id_column]
            names = cell[name_column].split("|") if is_medcat else [cell[name_column]]
            synonyms = cell[synonym_column].split("|") if synonym_column else []

            status = cell.get("name_status", "").upper() or ("" if is_medcat else "P")
            status = status if status in ("P", "N") else "A"
            named = [*((name, status) for name in names), *((name, "A") for name in synonyms)]
            named = [(name.strip(), status) for name, status in named if name.strip()]
            if not named:
                tally.left_out[_NO_NAME] += 1
            if not concept:
                tally.left_out[_NO_ID] += len(named)
                continue

            # Rows without types have those of earlier rows of the concept.
            own_types = filter(None, map(str.strip, cell.get("type_ids", "").upper().split("|")))
            all_types = tuple(dict.fromkeys((*concept_types.get(concept, ()), *own_types)))
            if all_types:
                concept_types[concept] = all_types

            source = cell.get("ontologies", "").upper()
            for name, status in named:
                yield Name(concept, name, status, all_types or types, source)


def _find_first(wanted: Sequence[str], columns: Sequence[str]) -> str | None:
    """Return the first of the wanted columns that a table has."""
    return next((name for name in wanted if name in columns), None)
