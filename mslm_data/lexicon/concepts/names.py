"""Concept names, in the one form that all readers yield, and their filter."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from mslm_data.errors import AnnotateError, SourceError
from mslm_data.source.reading.files import opened

_SNOMED_TAG = re.compile(
    r" \((?:disorder|finding|situation|function|event|procedure|substance|product|"
    r"observable entity|body structure|"
    r"morphologic abnormality|qualifier value)\)$"
)
_LETTER = re.compile("[A-Za-z]")


class Name(NamedTuple):
    """One name of one concept.

    Attributes:
        concept: Its id.
        name: As the file has it.
        status: `P` the concept's primary name, `A` another, `N` one that must be told apart by its
            context.
        types: Ids of semantic types.
        source: The vocabulary it comes from, "" where the file does not say.
    """

    concept: str
    name: str
    status: str
    types: tuple[str, ...]
    source: str


@dataclass(frozen=True, kw_only=True)
class NameChoice:
    """Conditions for names to be kept.

    Attributes:
        types: Semantic types, of which a concept has one at least; empty for all.
        language: Of UMLS rows, such as `ENG`; "" for all.
        sources: Of UMLS rows (`SAB`) and of the column `ontologies`; empty for all.
        xref: Of OBO terms: prefix of the cross reference that becomes the concept's id
            (`UMLS_CUI`), where a term has one; "" for the term's own id.
    """

    types: frozenset[str] = frozenset()
    language: str = "ENG"
    sources: frozenset[str] = frozenset()
    xref: str = ""

    def refusal(self, name: Name) -> str | None:
        """Return why a name is dropped, or None."""
        if self.types and self.types.isdisjoint(name.types):
            return "other semantic type"
        if self.sources and name.source and self.sources.isdisjoint(name.source.split("|")):
            return "other source"
        return None


def clean(name: str) -> str:
    """Remove SNOMED's tag (`(disorder)`) and `|` from a name.

    MedCAT's tables separate names by `|`.
    """
    return _SNOMED_TAG.sub("", " ".join(name.replace("|", " ").split()))


def distinct(names: Iterable[Name], left_out: Counter[str]) -> Iterator[Name]:
    """Yield each name of a concept once, if it has at least two letters.

    The names of a concept must follow each other.
    """
    concept = None
    seen = set[str]()

    for name in names:
        if name.concept != concept:
            concept = name.concept
            seen = set()

        written = clean(name.name)
        if len(_LETTER.findall(written)) < 2:
            left_out["fewer than two letters"] += 1
        elif written.lower() in seen:
            left_out["same name again"] += 1
        else:
            seen.add(written.lower())
            yield name._replace(name=written)


@contextmanager
def open_text(path: Path) -> Iterator[IO[str]]:
    """Open a file of concepts, plain or gzipped, as UTF-8 without newline translation.

    Raises:
        AnnotateError: It cannot be read, is cut off, or is not UTF-8, at the opening or at any
            later read within the block.
    """
    try:
        with opened(path) as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
            yield text
    except UnicodeDecodeError:
        raise AnnotateError(f"{path}: not valid UTF-8; save the file as UTF-8") from None
    except SourceError as error:
        raise AnnotateError(str(error)) from None
