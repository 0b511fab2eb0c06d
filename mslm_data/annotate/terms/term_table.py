"""Reads term tables: names with labels, or concept tables with the columns of MedCAT."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from sys import intern
from typing import NamedTuple

from mslm_data.annotate import semantic_types
from mslm_data.annotate.plurals import plural, singular
from mslm_data.errors import AnnotateError
from mslm_data.io.name_tables import NameTable, read_table

_DISAMBIGUATE = "N"
"""`name_status` of ambiguous names in MedCAT."""

_LAST_WORD = re.compile(r"[^\W\d_][a-z]{3,}\Z")
"""Last word of a name with a plural; not in capitals, as abbreviations are."""

_MIN_PLURAL = 5
"""Minimum number of letters of a plural: `lens` is a singular."""


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

    * A table of names has `name`, `label`, and optionally `concept` or `cui`, as written by
      `mslm-data vocab concepts`.
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
            table = read_table(file, path, AnnotateError, delimiter=delimiter, quoted=not has_tabs)
            terms = [*dict.fromkeys(_read_terms(path, table, types))]
    except (OSError, UnicodeDecodeError) as error:
        raise AnnotateError(
            f"{path}: expected a term table in UTF-8, got {type(error).__name__}"
        ) from None

    if not terms:
        raise AnnotateError(
            f"{path}: expected a term, or a concept with a type of {types}, got none"
        )
    return terms


def _read_terms(path: Path, table: NameTable, types: str) -> Iterator[Term]:
    columns = set(table.columns)
    if {"name", "label"} <= columns:
        for row in _checked(path, table, ("name", "label")):
            concept = row.get("concept") or row.get("cui", "")
            yield Term(row["name"], intern(row["label"]), intern(concept))
    elif {"name", "cui", "type_ids"} <= columns:
        rows = _checked(path, table, ("name", "cui"))
        yield from _read_concept_terms(rows, semantic_types.read(types))
    else:
        raise AnnotateError(
            f"{path}:1: expected the columns name and label, or cui, name and type_ids, got "
            f"{len(table.columns)} column(s) that lack them; files that end in .tsv or .txt are "
            f"separated by TABs, others by commas"
        )


def _checked(path: Path, table: NameTable, required: Iterable[str]) -> Iterator[dict[str, str]]:
    """Yield the rows, and check that the required fields are not empty."""
    for line, row in table.rows:
        for column in required:
            if not row[column]:
                raise AnnotateError(f"{path}:{line}: expected a {column}, got an empty field")
        yield row


def _read_concept_terms(
    rows: Iterable[dict[str, str]], table: semantic_types.SemanticTypes
) -> Iterator[Term]:
    concept_types: dict[str, set[str]] = {}
    named: list[tuple[str, str]] = []
    for row in rows:
        concept = intern(row["cui"])
        known_types = concept_types.setdefault(concept, set())
        known_types.update(type_id.strip() for type_id in row["type_ids"].upper().split("|"))
        if row.get("name_status", "").upper() != _DISAMBIGUATE:
            names = map(str.strip, row["name"].split("|"))
            named += ((name, concept) for name in names if name)

    # Labels are known at the end only: any row may add types to a concept.
    labels = {concept: table.label(types) for concept, types in concept_types.items()}
    for name, concept in named:
        label = labels[concept]
        if label is not None:
            yield Term(name, label, concept)


def add_plurals(terms: Sequence[Term]) -> list[Term]:
    """Return the terms, and each with its last word in the plural and in the singular.

    A form that is a name of the table itself is not added: its own terms are meant.
    """
    known = {term.name.casefold() for term in terms}
    every = [*terms]
    for term in terms:
        last = _LAST_WORD.search(term.name)
        if not last:
            continue
        forms = [plural(last[0])]
        if len(last[0]) >= _MIN_PLURAL:
            forms.append(singular(last[0]))
        for form in forms:
            name = term.name[: last.start()] + form
            if name.casefold() not in known:
                every.append(term._replace(name=name))
    return list(dict.fromkeys(every))
