"""Read OBO ontologies: names and synonyms of terms."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from mslm_data.errors import AnnotateError
from mslm_data.lexicon.concepts.names import Name, NameChoice
from mslm_data.lexicon.text_files import read_lines

_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")
_TRAILER = re.compile(r"\s[{!]")
"""Start of a field's qualifiers or comment."""


def read(
    path: Path,
    types: tuple[str, ...],
    choice: NameChoice,
    left_out: Counter[str],
    *,
    skipped: Mapping[str, str] | None = None,
) -> Iterator[Name]:
    """Yield the names in an OBO ontology; obsolete terms are skipped.

    Args:
        path: The file.
        types: Semantic types of all terms, since OBO has none.
        choice: Selects the cross reference to use as id; the first of several.
        left_out: Reason -> number of names; updated.
        skipped: Id of a term to skip -> reason. Default: none.

    Raises:
        AnnotateError: A term has no id.
    """
    for first, stanza, fields in stanzas(read_lines(path, AnnotateError)):
        if stanza == "[Term]":
            yield from _term_names(path, first, fields, types, choice, left_out, skipped or {})


def stanzas(lines: Iterable[str]) -> Iterator[tuple[int, str, list[tuple[str, str]]]]:
    """Yield each stanza: line number, first line, and fields.

    The header comes first, with an empty first line.
    """
    first = 0
    stanza = ""
    fields: list[tuple[str, str]] = []

    for number, raw in enumerate(lines, start=1):
        line = raw.strip()
        if line.startswith("["):
            yield first, stanza, fields
            first = number
            stanza = line
            fields = []
        elif ": " in line:
            key, _, value = line.partition(": ")
            fields.append((key, value))

    yield first, stanza, fields


def _term_names(
    path: Path,
    line: int,
    fields: list[tuple[str, str]],
    types: tuple[str, ...],
    choice: NameChoice,
    left_out: Counter[str],
    skipped: Mapping[str, str],
) -> Iterator[Name]:
    """Yield the names of one term."""
    term = next((strip_trailer(value) for key, value in fields if key == "id"), "")
    if not term:
        raise AnnotateError(f"{path}:{line}: the term has no id")

    concept = term
    if choice.xref:
        prefix = f"{choice.xref}:"
        references = (
            value.removeprefix(prefix)
            for key, value in fields
            if key == "xref" and value.startswith(prefix)
        )
        concept = next((value.split()[0] for value in references if value.strip()), concept)

    # The name is primary, synonyms are alternatives.
    names = [_unescape(value.split(" {")[0]) for key, value in fields if key == "name"]
    quoted = [_QUOTED.match(value) for key, value in fields if key == "synonym"]
    names += [_unescape(match[1]) for match in quoted if match]
    if not all(quoted):
        left_out["synonym without quotes"] += quoted.count(None)
    if not names:
        left_out["term without a name"] += 1

    if any(key == "is_obsolete" and strip_trailer(value) == "true" for key, value in fields):
        left_out["obsolete term"] += len(names)
        return

    reason = skipped.get(term)
    if reason:
        left_out[reason] += len(names)
        return

    source = concept.partition(":")[0] if ":" in concept else choice.xref
    for number, name in enumerate(names):
        yield Name(concept, name, "A" if number else "P", types, source)


def strip_trailer(value: str) -> str:
    """Remove the qualifiers (`{…}`) and the comment (`! …`) of a field."""
    return _TRAILER.split(value, maxsplit=1)[0].strip()


def _unescape(text: str) -> str:
    """Unescape OBO text."""
    return _ESCAPE.sub(lambda match: " " if match[1] in "nWt" else match[1], text)
