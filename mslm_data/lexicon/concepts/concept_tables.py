"""Read tables of concepts: MedCAT's, and tables of names with synonyms as DrugBank's."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mslm_data.errors import AnnotateError
from mslm_data.io.limits import LONGEST_LINE, lines_of
from mslm_data.lexicon.concepts.names import Name, NameChoice, open_text
from mslm_data.log import plain

_ID = ("drugbank id", "id", "concept", "cui", "code")
_NAME = ("common name", "name", "label", "preferred name", "preferred label")
_SYNONYMS = ("synonyms", "synonym")


def read(
    path: Path, types: tuple[str, ...], choice: NameChoice, left_out: Counter[str]
) -> Iterator[Name]:
    """Give the names of a table.

    Commas or tabs separate its columns, which are found by name in any order.

    MedCAT's layout has `cui` and `name` and may have `ontologies`, `name_status`, `type_ids`; names
    and types in a cell are separated by `|`, and a row without types takes those of its concept's
    rows above. The other layout has an id, a name (`Common name`, `name`, `label`) and synonyms
    separated by ` | `.

    Args:
        path: The table.
        types: Semantic types for rows that have none.
        choice: Not looked at: a table has nothing but what is chosen of names afterwards.
        left_out: Reason -> names, counted up.

    Raises:
        AnnotateError: Columns are missing, or it is not such a table.
    """
    del choice
    with open_text(path) as file:
        tabs = "\t" in file.readline(LONGEST_LINE)
        file.seek(0)
        rows = csv.DictReader(
            lines_of(file, path, AnnotateError), delimiter="\t" if tabs else ",", restval=""
        )
        try:
            column = {str(name).strip().lower(): str(name) for name in rows.fieldnames or ()}
            if {"cui", "name"} <= column.keys():
                yield from _medcat(rows, column, types, left_out)
            else:
                yield from _named(path, rows, column, types)
        except (UnicodeDecodeError, csv.Error) as error:
            raise AnnotateError(
                f"{path}:{rows.line_num}: expected a table in UTF-8, got {type(error).__name__}"
            ) from None


def _medcat(
    rows: csv.DictReader[Any],
    column: dict[str, str],
    types: tuple[str, ...],
    left_out: Counter[str],
) -> Iterator[Name]:
    of_concept: dict[str, tuple[str, ...]] = {}
    for row in rows:
        cell = {name: (row[column[name]] or "").strip() for name in column}
        concept = cell["cui"].upper()
        names = [name.strip() for name in cell["name"].split("|") if name.strip()]
        if not concept:
            left_out["no concept id"] += len(names)
            continue

        # A row without types takes those of its concept's rows above.
        parts = cell.get("type_ids", "").upper().split("|")
        own = tuple(part.strip() for part in parts if part.strip())
        above = of_concept.get(concept, ())
        both = (*above, *(type_id for type_id in own if type_id not in above))
        of_concept[concept] = both

        status = cell.get("name_status", "").upper()
        for name in names:
            known = status if status in ("P", "N") else "A"
            yield Name(concept, name, known, both or types, cell.get("ontologies", "").upper())


def _named(
    path: Path, rows: csv.DictReader[Any], column: dict[str, str], types: tuple[str, ...]
) -> Iterator[Name]:
    key = next((column[name] for name in _ID if name in column), None)
    label = next((column[name] for name in _NAME if name in column), None)
    more = next((column[name] for name in _SYNONYMS if name in column), None)
    if key is None or label is None:
        raise AnnotateError(
            f"{path}: expected a table with the columns cui and name (MedCAT's), or with an id and "
            "a name (such as DrugBank ID, Common name, Synonyms), got "
            f"{plain(', '.join(column) or 'none')}"
        )
    for row in rows:
        names = [row[label], *(row[more].split("|") if more and row[more] else ())]
        for number, name in enumerate(names):
            if name and name.strip():
                yield Name(row[key].strip(), name.strip(), "A" if number else "P", types, "")
