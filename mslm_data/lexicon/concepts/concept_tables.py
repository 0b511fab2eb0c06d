"""Read concept tables: MedCAT's, and tables of names with synonyms such as DrugBank's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from mslm_data.errors import AnnotateError
from mslm_data.io.limits import LONGEST_LINE
from mslm_data.io.name_tables import NameRow, read_rows
from mslm_data.lexicon.concepts.names import Name, NameChoice, open_text
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
    path: Path, types: tuple[str, ...], choice: NameChoice, left_out: Counter[str]
) -> Iterator[Name]:
    """Yield the names in a table, separated by commas or tabs, with columns in any order.

    MedCAT's format has the columns `cui` and `name`, and optionally `ontologies`, `name_status` and
    `type_ids`. Names and types within a cell are separated by `|`; a row without types has those of
    earlier rows of its concept. The other format has an id, a name (`Common name`, `name`, `label`)
    and synonyms separated by ` | `.

    Args:
        path: The table.
        types: Semantic types of rows without types.
        choice: Ignored; names are filtered afterwards.
        left_out: Reason -> number of names; updated.

    Raises:
        AnnotateError: Columns are missing, a row is malformed, or rows have different numbers of
            fields.
    """
    del choice
    with open_text(path) as file:
        tabs = "\t" in file.readline(LONGEST_LINE)
        file.seek(0)
        table = read_rows(file, path, AnnotateError, delimiter="\t" if tabs else ",")
        header = next(table, NameRow(1, []))
        columns = [name.strip().lower() for name in header.fields]
        rows = (dict(zip(columns, row.fields, strict=True)) for row in table)
        if {"cui", "name"} <= set(columns):
            yield from _read_medcat(rows, types, left_out)
        else:
            yield from _read_named(path, rows, columns, types, left_out)


def _read_medcat(
    rows: Iterable[Mapping[str, str]], types: tuple[str, ...], left_out: Counter[str]
) -> Iterator[Name]:
    concept_types: dict[str, tuple[str, ...]] = {}
    for row in rows:
        cell = {name: value.strip() for name, value in row.items()}
        concept = cell["cui"].upper()
        names = [name.strip() for name in cell["name"].split("|") if name.strip()]
        if not names:
            left_out[_NO_NAME] += 1
        if not concept:
            left_out[_NO_ID] += len(names)
            continue

        # Rows without types have those of earlier rows of the concept.
        parts = cell.get("type_ids", "").upper().split("|")
        row_types = tuple(part.strip() for part in parts if part.strip())
        earlier_types = concept_types.get(concept, ())
        all_types = (
            *earlier_types,
            *(type_id for type_id in row_types if type_id not in earlier_types),
        )
        concept_types[concept] = all_types

        status = cell.get("name_status", "").upper()
        for name in names:
            name_status = status if status in ("P", "N") else "A"
            yield Name(
                concept, name, name_status, all_types or types, cell.get("ontologies", "").upper()
            )


def _read_named(
    path: Path,
    rows: Iterable[Mapping[str, str]],
    columns: Sequence[str],
    types: tuple[str, ...],
    left_out: Counter[str],
) -> Iterator[Name]:
    id_column = next((name for name in _ID if name in columns), None)
    name_column = next((name for name in _NAME if name in columns), None)
    synonym_column = next((name for name in _SYNONYMS if name in columns), None)
    if id_column is None or name_column is None:
        raise AnnotateError(
            f"{path}: expected a table with the columns cui and name (MedCAT's), or with an id and "
            "a name (such as DrugBank ID, Common name, Synonyms), got "
            f"{plain(', '.join(columns) or 'none')}"
        )
    for row in rows:
        all_names = [row[name_column], *(row[synonym_column].split("|") if synonym_column else ())]
        names = [(number, name.strip()) for number, name in enumerate(all_names) if name.strip()]
        if not names:
            left_out[_NO_NAME] += 1
        concept = row[id_column].strip()
        if not concept:
            left_out[_NO_ID] += len(names)
            continue
        for number, name in names:
            yield Name(concept, name, "A" if number else "P", types, "")
