"""The forms of lines that `mslm-data annotate` writes: JSON, and NOTE_NLP of OMOP CDM."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from mslm_data._version import __version__
from mslm_data.data.context import decode_flags
from mslm_data.data.document import Document, Span
from mslm_data.data.documents import Documents
from mslm_data.data.reason import Reason
from mslm_data.io.files import canonical_json
from mslm_data.log import plain

_COLUMNS = (
    *("note_nlp_id", "note_id", "section_concept_id", "snippet", "offset", "lexical_variant"),
    *("note_nlp_concept_id", "note_nlp_source_concept_id", "nlp_system", "nlp_date"),
    *("nlp_datetime", "term_exists", "term_temporal", "term_modifiers"),
)
_LONGEST_VARIANT = 250
"""Maximum length of `lexical_variant` in OMOP CDM."""
_TOO_LONG = Reason(f"longer than {_LONGEST_VARIANT} characters, the most of lexical_variant")
_NO_CONCEPT = "0"
_ABSENT = frozenset({"negated", "hypothetical", "family"})
"""Flags of terms that the patient does not have."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


class WrittenLines(NamedTuple):
    """The lines of some documents.

    Attributes:
        text: The lines.
        entities: Number of entities in them.
        left_out: Reason -> number of entities that the form cannot hold.
    """

    text: str
    entities: int
    left_out: Mapping[Reason, int]


class LineForm(Protocol):
    """A form of lines."""

    @property
    def header(self) -> bytes:
        """First line of the file, with its line end; empty for none."""
        ...

    def lines(self, documents: Documents) -> WrittenLines:
        """Return the lines of documents, independent of those before."""
        ...

    def number(self, lines: bytes, first: int) -> bytes:
        """Give lines their numbers in the file, counted from 1.

        Args:
            lines: Lines without numbers.
            first: Number of the first of them.
        """
        ...

    def identity(self) -> dict[str, Any]:
        """Return everything that decides the lines besides documents, as plain values."""
        ...


class Numbering:
    """Makes a file of lines that are given one piece after the other."""

    def __init__(self, form: LineForm) -> None:
        """Begin a file."""
        self._form = form
        self._header = form.header
        self._next = 1

    def __call__(self, lines: bytes) -> bytes:
        """Return lines as they stand in the file, the first time after the header."""
        header, self._header = self._header, b""
        numbered = self._form.number(lines, self._next)
        self._next += lines.count(b"\n")
        return header + numbered


def _with_flags(documents: Documents) -> Iterator[tuple[Document, list[list[str]] | None]]:
    """Yield documents with the context flags of each mention, None if they were not detected."""
    contexts = documents.mentions.contexts
    begin = 0
    for document in documents:
        end = begin + len(document.spans)
        flags = None if contexts is None else [*map(decode_flags, contexts[begin:end].tolist())]
        yield document, flags
        begin = end


@dataclass(frozen=True, kw_only=True)
class EntityLines:
    """A line of JSON per document, with its id and entities.

    Attributes:
        show_text: Whether to write the text of each entity.
    """

    show_text: bool = False

    header = b""

    def lines(self, documents: Documents) -> WrittenLines:
        """Return a line for each document; see `LineForm.lines`."""
        text = "".join(self._line(document, flags) for document, flags in _with_flags(documents))
        return WrittenLines(text, len(documents.mentions), {})

    def _line(self, document: Document, flags: list[list[str]] | None) -> str:
        entities = []
        for number, span in enumerate(document.spans):
            entity: dict[str, Any] = {
                "start": span.start,
                "end": span.end,
                "label": span.label,
                "score": span.score,
            }
            if flags is not None:
                entity["context"] = flags[number]
            if self.show_text:
                entity["text"] = document.text[span.start : span.end]
            entities.append(entity)
        line = json.dumps({"id": document.id, "entities": entities}, ensure_ascii=False)
        return f"{plain(line)}\n"

    def number(self, lines: bytes, first: int) -> bytes:  # noqa: ARG002 - lines have no numbers
        """Return the lines; see `LineForm.number`."""
        return lines

    def identity(self) -> dict[str, Any]:
        """Return the options; see `LineForm.identity`."""
        return {"show_text": self.show_text}


@dataclass(frozen=True, kw_only=True)
class NoteNlp:
    """A row of NOTE_NLP of OMOP CDM 5.4 per entity, as CSV. Control characters become spaces.

    `term_exists` and `term_temporal` are empty without context flags. Otherwise a term that is
    negated, hypothetical or of the family does not exist, and a historical one is of the past.
    `term_modifiers` has the label, the score, the concept and the flags.

    Attributes:
        date: Value of `nlp_date`.
        concepts: CUI, or label of entities without one -> `note_nlp_concept_id`. Default: 0
            for all.
    """

    date: str
    concepts: Mapping[str, str] = field(default_factory=dict)

    header = (",".join(_COLUMNS) + "\n").encode()

    def lines(self, documents: Documents) -> WrittenLines:
        """Return a row for each entity; see `LineForm.lines`."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        num_rows = 0
        for document, flags in _with_flags(documents):
            for number, span in enumerate(document.spans):
                if span.end - span.start > _LONGEST_VARIANT:
                    continue
                row = self._row(document, span, None if flags is None else flags[number])
                writer.writerow([_CONTROL.sub(" ", value) for value in row])
                num_rows += 1
        num_left_out = len(documents.mentions) - num_rows
        left_out = {_TOO_LONG: num_left_out} if num_left_out else {}
        return WrittenLines(file.getvalue(), num_rows, left_out)

    def _row(self, document: Document, span: Span, flags: list[str] | None) -> list[str]:
        modifiers = [f"label={_escape(span.label)}", f"score={span.score}"]
        if span.concept:
            modifiers.append(f"concept={_escape(span.concept)}")
        modifiers += [f"{flag}=true" for flag in flags or ()]
        ids = span.concept.split("|") if span.concept else [span.label]
        concept = next((self.concepts[one] for one in ids if one in self.concepts), _NO_CONCEPT)
        exists = temporal = ""
        if flags is not None:
            exists = "Y" if _ABSENT.isdisjoint(flags) else "N"
            temporal = "past" if "historical" in flags else "present"
        return [
            *("", document.id, "", "", str(span.start), document.text[span.start : span.end]),
            *(concept, _NO_CONCEPT, f"mslm-data {__version__}", self.date),
            *("", exists, temporal, ";".join(modifiers)),
        ]

    def number(self, lines: bytes, first: int) -> bytes:
        """Put the number of each row into its empty first column; see `LineForm.number`."""
        rows = lines.splitlines(keepends=True)
        return b"".join(b"%d%s" % (number, row) for number, row in enumerate(rows, start=first))

    def identity(self) -> dict[str, Any]:
        """Return the date and a digest of the concepts; see `LineForm.identity`."""
        digest = hashlib.sha256(canonical_json(dict(self.concepts))).hexdigest()
        return {"note_nlp": {"date": self.date, "concepts": digest}}


def _escape(value: str) -> str:
    """Escape the separator of modifiers."""
    return value.replace("%", "%25").replace(";", "%3B")
