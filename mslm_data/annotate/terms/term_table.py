"""Reads term tables: names with labels, or concept tables with the columns of MedCAT."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from sys import intern
from typing import NamedTuple

from mslm_data.annotate import semantic_types
from mslm_data.errors import AnnotateError
from mslm_data.io.name_tables import NameRow, read_rows

_DISAMBIGUATE = "N"
"""`name_status` of ambiguous names in MedCAT."""


class Term(NamedTuple):
    """A name with its label and concept.

    A row::

        name     label     concept
        aspirin  Chemical  C0004057
    """

    name: str
    label: str
    concept: str


def read_terms(path: Path, types: str) -> list[Term]:
    """Read a term table, without duplicate terms.

    The first row has the names of the columns, in any order. Other columns are ignored.

    * A table of names has `name`, `label`, and optionally `concept`.
    * A table of concepts has `cui`, `name`, `type_ids`, and optionally `name_status`, as in MedCAT.
      `|` separates several names or types. The types of a concept determine its label. Concepts
      without a label and ambiguous names (status N) are left out.

    Args:
        path: CSV file in UTF-8. With the suffix `.tsv` or `.txt`, fields are separated by TABs and
            not quoted.
        types: For a table of concepts: table of semantic types, see `semantic_types.read`.

    Raises:
        AnnotateError: The table is missing, malformed or empty. The message has file and line, but
            no names.
    """
    has_tabs = path.suffix in (".tsv", ".txt")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            delimiter = "\t" if has_tabs else ","
            rows = read_rows(file, path, AnnotateError, delimiter=delimiter, quoted=not has_tabs)
            terms = _terms(path, rows, types)
    except (OSError, UnicodeDecodeError) as error:
        raise AnnotateError(
            f"{path}: expected a term table in UTF-8, got {type(error).__name__}"
        ) from None

    if not terms:
        raise AnnotateError(
            f"{path}: expected a term, or a concept with a type of {types}, got none"
        )
    return terms


def _terms(path: Path, table: Iterator[NameRow], types: str) -> list[Term]:
    header = next(table, NameRow(1, []))
    columns = [column.strip().lower() for column in header.fields]
    terms: Iterable[Term]
    if {"name", "label"} <= set(columns):
        rows = _rows(path, table, columns, ("name", "label", "concept"))
        terms = (Term(name, intern(label), intern(concept)) for name, label, concept in rows)
    elif {"name", "cui", "type_ids"} <= set(columns):
        rows = _rows(path, table, columns, ("name", "cui", "type_ids", "name_status"))
        terms = _read_concept_terms(rows, semantic_types.read(types))
    else:
        raise AnnotateError(
            f"{path}:1: expected the columns name and label, or cui, name and type_ids, got "
            f"{len(columns)} column(s) that lack them; files that end in .tsv or .txt are "
            f"separated by TABs, others by commas"
        )
    return list(dict.fromkeys(terms))


def _rows(
    path: Path, table: Iterable[NameRow], columns: Sequence[str], wanted: Sequence[str]
) -> Iterator[tuple[str, ...]]:
    """Yield the `wanted` fields of each row, "" for missing columns.

    Args:
        path: Path of the table, for messages.
        table: Rows after the header.
        columns: Columns of the table.
        wanted: Columns of the result. The first two must not be empty.
    """
    places = [columns.index(column) if column in columns else -1 for column in wanted]
    for line, fields in table:
        row = tuple(fields[place].strip() if place >= 0 else "" for place in places)
        if "" in row[:2]:
            raise AnnotateError(
                f"{path}:{line}: expected a {wanted[row.index('')]}, got an empty field"
            )
        yield row


def _read_concept_terms(
    rows: Iterable[tuple[str, ...]], table: semantic_types.SemanticTypes
) -> Iterator[Term]:
    concept_types: dict[str, set[str]] = {}
    named: list[tuple[str, str]] = []
    for names, concept, types, status in rows:
        known_types = concept_types.setdefault(concept, set())
        known_types.update(type_id.strip() for type_id in types.upper().split("|"))
        if status.upper() != _DISAMBIGUATE:
            named += ((name.strip(), concept) for name in names.split("|") if name.strip())

    # Labels are known at the end only: any row may add types to a concept.
    labels = {concept: table.label(types) for concept, types in concept_types.items()}
    for name, concept in named:
        label = labels[concept]
        if label is not None:
            yield Term(name, label, concept)
