"""Read OBO ontologies: names and synonyms of terms, by branch."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from mslm_data.errors import AnnotateError
from mslm_data.lexicon.concepts.names import Name, NameChoice, NameTally
from mslm_data.lexicon.text_files import read_lines

Fields: TypeAlias = list[tuple[str, str]]
"""Keys and values of a stanza."""

_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")
_TRAILER = re.compile(r"\s[{!]")
"""Start of a field's qualifiers or comment."""


def read(
    path: Path, types: tuple[str, ...], choice: NameChoice, tally: NameTally
) -> Iterator[Name]:
    """Yield the names in an OBO ontology; obsolete terms are skipped.

    Args:
        path: The file.
        types: Semantic types of all terms, since OBO has none.
        choice: Branches to keep, and the cross reference to use as id; the first of several.
        tally: Counts of names left out, and the chosen terms that occur; updated.

    Raises:
        AnnotateError: A term has no id.
    """
    skipped: Mapping[str, str] = {}
    if choice.under or choice.not_under:
        skipped = _find_skipped_terms(path, choice, tally)
    for first, stanza, fields in _stanzas(read_lines(path, AnnotateError)):
        if stanza == "[Term]":
            yield from _term_names(path, first, fields, types, choice, skipped, tally)


def _find_skipped_terms(path: Path, choice: NameChoice, tally: NameTally) -> dict[str, str]:
    """Return the current terms outside of the chosen branches, with the reason."""
    below: defaultdict[str, list[str]] = defaultdict(list)  # term -> children by `is_a`
    current: set[str] = set()
    alternatives: dict[str, str] = {}  # alternative id -> current id
    for _, stanza, fields in _stanzas(read_lines(path, AnnotateError)):
        if stanza != "[Term]" or _is_obsolete(fields):
            continue

        # Terms without an id raise an error when their names are read.
        for term in _values(fields, "id")[:1]:
            current.add(term)
            for parent in _values(fields, "is_a"):
                below[parent].append(term)
            for other in _values(fields, "alt_id"):
                alternatives.setdefault(other, term)

    ids = {term: term for term in current} | alternatives
    under = [ids[term] for term in choice.under if term in ids]
    not_under = [ids[term] for term in choice.not_under if term in ids]
    tally.occurring.update(ids.keys() & (choice.under | choice.not_under))

    skipped: dict[str, str] = {}
    if under:
        others = current - _branch(under, below)
        skipped |= dict.fromkeys(others, "not under a chosen term")
    for term in _branch(not_under, below):
        skipped.setdefault(term, "under a term left out")
    return skipped


def _branch(roots: Iterable[str], below: Mapping[str, Sequence[str]]) -> set[str]:
    """Return terms with all their descendants. Terms may have several parents."""
    branch = set(roots)
    pending = [*branch]
    while pending:
        new = [term for term in below.get(pending.pop(), ()) if term not in branch]
        branch.update(new)
        pending += new
    return branch


def _stanzas(lines: Iterable[str]) -> Iterator[tuple[int, str, Fields]]:
    """Yield each stanza: line number, first line, and fields.

    The header comes first, with an empty first line.
    """
    first = 0
    stanza = ""
    fields: Fields = []

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
    fields: Fields,
    types: tuple[str, ...],
    choice: NameChoice,
    skipped: Mapping[str, str],
    tally: NameTally,
) -> Iterator[Name]:
    """Yield the names of one term."""
    term = next(iter(_values(fields, "id")), "")
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
        tally.left_out["synonym without quotes"] += quoted.count(None)
    if not names:
        tally.left_out["term without a name"] += 1

    if _is_obsolete(fields):
        tally.left_out["obsolete term"] += len(names)
        return

    reason = skipped.get(term)
    if reason:
        tally.left_out[reason] += len(names)
        return

    source = concept.partition(":")[0] if ":" in concept else choice.xref
    for number, name in enumerate(names):
        yield Name(concept, name, "A" if number else "P", types, source)


def _is_obsolete(fields: Fields) -> bool:
    return "true" in _values(fields, "is_obsolete")


def _values(fields: Fields, key: str) -> list[str]:
    """Return the values of a key, without qualifiers (`{…}`) and comments (`! …`)."""
    return [_TRAILER.split(value, maxsplit=1)[0].strip() for name, value in fields if name == key]


def _unescape(text: str) -> str:
    """Unescape OBO text."""
    return _ESCAPE.sub(lambda match: " " if match[1] in "nWt" else match[1], text)
