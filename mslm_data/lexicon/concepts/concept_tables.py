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
_NAME = ("common name", "name", "label", "preferred name", "preferred label")
_SYNONYMS = ("synonyms", "synonym")
_NO_ID = "no concept id"
"""Reason for which names are left out here."""
_NO_NAME = "row without a name"
"""Reason for which a row is left out, counted as one name."""


def read(
    path: Path, types: tuple[str, ...], choice: NameChoice, left_out: Counter[str]
) -> Iterator[Name]:
    """Yield the names in a table.

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
        AnnotateError: Columns are missing, or a row is broken or has not as many fields as the
            first.
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
            yield from _medcat(rows, types, left_out)
        else:
            yield from _named(path, rows, columns, types, left_out)


def _medcat(
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

        # A row without types takes those of its concept's rows above.
        parts = cell.get("type_ids", "").upper().split("|")
        own = tuple(part.strip() for part in parts if part.strip())
        above = concept_types.get(concept, ())
        both = (*above, *(type_id for type_id in own if type_id not in above))
        concept_types[concept] = both

        status = cell.get("name_status", "").upper()
        for name in names:
            known = status if status in ("P", "N") else "A"
            yield Name(concept, name, known, both or types, cell.get("ontologies", "").upper())


def _named(
    path: Path,
    rows: Iterable[Mapping[str, str]],
    columns: Sequence[str],
    types: tuple[str, ...],
    left_out: Counter[str],
) -> Iterator[Name]:
    key = next((name for name in _ID if name in columns), None)
    label = next((name for name in _NAME if name in columns), None)
    more = next((name for name in _SYNONYMS if name in columns), None)
    if key is None or label is None:
        raise AnnotateError(
            f"{path}: expected a table with the columns cui and name (MedCAT's), or with an id and "
            "a name (such as DrugBank ID, Common name, Synonyms), got "
            f"{plain(', '.join(columns) or 'none')}"
        )
    for row in rows:
        written = [row[label], *(row[more].split("|") if more else ())]
        names = [(number, name.strip()) for number, name in enumerate(written) if name.strip()]
        if not names:
            left_out[_NO_NAME] += 1
        concept = row[key].strip()
        if not concept:
            left_out[_NO_ID] += len(names)
            continue
        for number, name in names:
            yield Name(concept, name, "A" if number else "P", types, "")
