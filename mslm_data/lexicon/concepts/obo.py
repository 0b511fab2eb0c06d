"""OBO ontologies: names and synonyms of terms."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from mslm_data.errors import AnnotateError
from mslm_data.io.limits import iter_lines
from mslm_data.lexicon.concepts.names import Name, NameChoice, open_text

_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")
_BEHIND = re.compile(r"\s[{!]")


def read(
    path: Path,
    types: tuple[str, ...],
    choice: NameChoice,
    left_out: Counter[str],
    *,
    refused: Mapping[str, str] | None = None,
) -> Iterator[Name]:
    """Yield the names in an OBO ontology; obsolete terms are skipped.

    Args:
        path: The file.
        types: Semantic types of all its terms, as OBO has none.
        choice: Which cross reference becomes the id; of several the first.
        left_out: Reason -> names, counted up.
        refused: Ids of terms that are left out, each with the reason why; None for no term.

    Raises:
        AnnotateError: A term without an id.
    """
    with open_text(path) as file:
        for first, stanza, fields in stanzas(iter_lines(file, path, AnnotateError)):
            if stanza == "[Term]":
                yield from _names(path, first, fields, types, choice, left_out, refused or {})


def stanzas(file: Iterable[str]) -> Iterator[tuple[int, str, list[tuple[str, str]]]]:
    """Yield each stanza: line number, first line, and fields.

    The header comes first, with an empty line.
    """
    first = 0
    stanza = ""
    fields: list[tuple[str, str]] = []

    for number, raw in enumerate(file, start=1):
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


def _names(
    path: Path,
    line: int,
    fields: list[tuple[str, str]],
    types: tuple[str, ...],
    choice: NameChoice,
    left_out: Counter[str],
    refused: Mapping[str, str],
) -> Iterator[Name]:
    """Yield the names of one term."""
    term = next((bare(value) for key, value in fields if key == "id"), "")
    if not term:
        raise AnnotateError(f"{path}:{line}: the term has no id")

    concept = term
    if choice.xref:
        prefix = f"{choice.xref}:"
        found = (
            value.removeprefix(prefix)
            for key, value in fields
            if key == "xref" and value.startswith(prefix)
        )
        concept = next((value.split()[0] for value in found if value.strip()), concept)

    names = [_plain(value.split(" {")[0]) for key, value in fields if key == "name"]
    quoted = [_QUOTED.match(value) for key, value in fields if key == "synonym"]
    names += [_plain(match[1]) for match in quoted if match]
    if not all(quoted):
        left_out["synonym without quotes"] += quoted.count(None)
    if not names:
        left_out["term without a name"] += 1

    if any(key == "is_obsolete" and bare(value) == "true" for key, value in fields):
        left_out["obsolete term"] += len(names)
        return

    reason = refused.get(term)
    if reason:
        left_out[reason] += len(names)
        return

    source = concept.partition(":")[0] if ":" in concept else choice.xref
    for number, name in enumerate(names):
        yield Name(concept, name, "A" if number else "P", types, source)


def bare(value: str) -> str:
    """Strip the qualifiers (`{…}`) and the comment (`! …`) of a field."""
    return _BEHIND.split(value, maxsplit=1)[0].strip()


def _plain(text: str) -> str:
    """Unescape OBO text."""
    return _ESCAPE.sub(lambda match: " " if match[1] in "nWt" else match[1], text)
