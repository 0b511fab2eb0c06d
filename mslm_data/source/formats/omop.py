"""Reads OMOP CDM: texts of the table NOTE, with mentions of NOTE_NLP if it lies beside."""

from __future__ import annotations

import functools
import io
import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, NamedTuple
from urllib.parse import unquote

from msgspec import Meta
from msgspec.structs import replace

from mslm_data.data.context import REASONS
from mslm_data.data.document import NotChosen, Part, SetAside
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.io.name_tables import read_table
from mslm_data.source import Guess, Sample
from mslm_data.source.form import Findings, Record
from mslm_data.source.formats.notes import (
    CategoryColumn,
    ErrorColumn,
    IdColumn,
    Notes,
    PatientColumn,
    TextColumn,
)
from mslm_data.source.reading import arrow_rows
from mslm_data.source.reading.cells import Cells
from mslm_data.source.reading.files import ends_with, opened, read_head
from mslm_data.source.reading.occurrences import OccurrencesOption, place_words
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.standoff import (
    Annotation,
    NegatedOption,
    OffsetUnit,
    in_characters,
)
from mslm_data.source.reading.tables import TableReader, find_layout

_TABLE = "note_nlp*"
_CONCEPTS = "concept.csv"
_OFFSET = re.compile(r"\s*([0-9]{1,18})(?:\.0)?(?:\s*[-,:;]\s*[0-9]{1,18})?\s*")
"""An offset, alone or as the start of a range."""
_CONCEPT = re.compile(r"([0-9]{1,18})(?:\.0)?")
_NO_CONCEPT = "0"
_OPTIONAL = {
    "offset": "offset",
    "exists": "term_exists",
    "modifiers": "term_modifiers",
    "concept": "note_nlp_concept_id",
}
"""Role -> column of NOTE_NLP that a table may lack."""
_ABSENT = ("n", "0", "f", "no", "false")
"""Values of `term_exists` of terms that the patient does not have, in lower case."""
_LABELS = ("label", "domain_id")
_NO_WORDS = Reason("without words in lexical_variant")
_NO_NOTE = Reason(
    "expected a note for each note_id of NOTE_NLP, found none for this one; check that both "
    "tables are of one export"
)


class _Listed(NamedTuple):
    """A row of NOTE_NLP: the offset, -1 for none, the words, the label and the concept, or ""."""

    offset: int
    words: str
    label: str
    concept: str


@dataclass(slots=True)
class _OfNote:
    """The rows of NOTE_NLP for a note.

    Attributes:
        place: Place of the first row.
        listed: Rows with mentions.
        left_out: Reason -> number of other rows.
    """

    place: str
    listed: list[_Listed] = field(default_factory=list)
    left_out: Counter[Reason] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self.listed) + self.left_out.total()


class _Mentions(NamedTuple):
    """The rows of tables NOTE_NLP.

    Attributes:
        by_note: Note -> its rows.
        damaged: Rows that cannot be read.
        labels: Concept -> its label, of the concepts in the rows.
    """

    by_note: Mapping[str, _OfNote]
    damaged: Sequence[SetAside]
    labels: Mapping[str, str]


_LOADED: dict[object, _Mentions] = {}
"""Cache of the last tables NOTE_NLP of this process: at most one key."""


class Omop(Notes, frozen=True, kw_only=True):
    """Tables NOTE of OMOP CDM 5.4 or earlier, alone or with NOTE_NLP, as `.csv` or `.parquet`.

    Notes are read as by `notes`: with patients, splits by patient, and categories, for which
    `category_column` names a column such as `note_title`. Other tables in the folder are ignored.

    If a table NOTE_NLP lies beside NOTE, its rows are mentions: the words of `lexical_variant` at
    `offset`, in any case and with any white space. Offsets count the unit in which most words of a
    note fit: characters, UTF-16 code units or bytes. Rows without an offset, or with one at which
    the text has other words, are placed by their words, and counted. Rows whose words are not found
    are counted too, and rows without a note are set aside.

    The label is the first of these: the value of `label_column`; `label=…` in `term_modifiers`, as
    `mslm-data annotate` writes it; that of the concept in `label_table`; `label`. The concept is
    `note_nlp_concept_id`, or else `concept=…` in `term_modifiers`.

    Every process keeps the rows of NOTE_NLP in memory, about 200 bytes for each. One table NOTE
    can have several of NOTE_NLP, but not several tables NOTE the same.
    """

    suffixes = (".csv", ".parquet")

    id_column: IdColumn = "note_id"
    patient_column: PatientColumn = "person_id"
    text_column: TextColumn = "note_text"
    category_column: CategoryColumn = ""
    error_column: ErrorColumn = ""
    mentions: Annotated[
        str,
        Meta(
            description="Tables NOTE_NLP, relative to the folder of NOTE: a pattern of files, or "
            'of folders with such files, in any case; "" for none.'
        ),
    ] = _TABLE
    label: Annotated[
        str, Meta(min_length=1, description="Label of mentions without another label.")
    ] = "Concept"
    label_column: Annotated[str, Meta(description="Column of NOTE_NLP with the label.")] = ""
    label_table: Annotated[
        str,
        Meta(
            description="Table of labels of concepts, relative to the folder of NOTE, with the "
            "columns `concept_id` and `label` or `domain_id`, such as the CONCEPT.csv of Athena."
        ),
    ] = ""
    occurrences: OccurrencesOption = "once"
    negated: NegatedOption = "keep"

    def __post_init__(self) -> None:
        super().__post_init__()
        if os.path.isabs(self.mentions) or os.path.isabs(self.label_table):
            raise ValueError(
                "expected mentions and label_table relative to the folder of NOTE, got an "
                "absolute path"
            )

    # Tables --------------------------------------------------------------------------------------

    def sniff(self, sample: Sample) -> Guess:
        """Recognise NOTE, alone or with NOTE_NLP, by their columns; see `Source.sniff`."""
        names = self._column_names(sample)
        if {"note_id", "lexical_variant"}.issubset(names):
            return Guess(problem="it is NOTE_NLP, which is read with the table NOTE beside it")
        if not {"note_id", "person_id", "note_text"}.issubset(names):
            return Guess()
        why = "its columns note_id, person_id and note_text are those of NOTE"
        if not self.list_mentions(sample.path):
            return Guess(why)
        concepts = [
            path.name
            for path in sorted(sample.path.parent.iterdir())
            if path.name.casefold() == _CONCEPTS
        ]
        options = {"label_table": concepts[0]} if concepts else {}
        return Guess(f"{why}, and NOTE_NLP lies beside it", options)

    def _column_names(self, sample: Sample) -> Sequence[str]:
        """Return the names of a table's columns in lower case, none if it cannot be read."""
        if ends_with(sample.path, ".parquet"):
            with suppress(SourceError):
                return [name.casefold() for name in arrow_rows.schema(sample.path).names]
            return []
        layout = find_layout(sample.head, sample.path, self, separator=self.separator, header=True)
        return layout.names

    def disowns(self, path: Path) -> str:
        """Return that a file is another table than NOTE; see `Source.disowns`."""
        names = self._column_names(Sample(path, read_head(path)))
        return "" if self.text_column.casefold() in names else "it is another table than NOTE"

    def find(self, inputs: Sequence[Path]) -> dict[str, list[Path]]:
        """Find the tables NOTE of each split; see `Source.find`.

        Raises:
            SourceError: No file is one, a table NOTE_NLP is not beside one, or several share it.
        """
        found = super().find(inputs)
        kept = {
            split: [path for path in paths if not self.disowns(path)]
            for split, paths in found.items()
        }
        every = dict.fromkeys(itertools.chain.from_iterable(found.values()))
        notes = dict.fromkeys(itertools.chain.from_iterable(kept.values()))
        if not notes:
            raise SourceError(
                f"{next(iter(every))}: expected a table NOTE with the column {self.text_column}, "
                "got another table; pass the folder with NOTE and NOTE_NLP, or name the column "
                "with [source] text_column"
            )

        owners: dict[Path, Path] = {}
        for note in notes:
            for table in self.list_mentions(note):
                owner = owners.setdefault(table, note)
                if owner != note:
                    raise SourceError(
                        f"{owner} and {note}: expected one table NOTE for {table.name}, got two; "
                        "join them, or set [source] mentions to '' to read texts alone"
                    )
        strays = [path for path in every if path not in owners and self._has_mentions(path)]
        if self.mentions and (strays or (self.mentions != _TABLE and not owners)):
            raise SourceError(
                f"{(strays or [*notes])[0]}: expected NOTE_NLP at '{self.mentions}', relative to "
                f"the folder of NOTE, found {'it elsewhere' if strays else 'none'}; set [source] "
                "mentions to its place, or to '' to read texts alone"
            )
        return {split: paths for split, paths in kept.items() if paths}

    def _has_mentions(self, path: Path) -> bool:
        return "lexical_variant" in self._column_names(Sample(path, read_head(path)))

    def list_mentions(self, path: Path) -> list[Path]:
        """Return the tables NOTE_NLP of a table NOTE."""
        at = path.parent / self.mentions
        if not self.mentions or not at.parent.is_dir():
            return []
        named = sorted(
            file
            for file in at.parent.iterdir()
            if fnmatchcase(file.name.casefold(), at.name.casefold())
        )
        files = [
            inner for one in named for inner in (sorted(one.iterdir()) if one.is_dir() else [one])
        ]
        return [file for file in files if ends_with(file, self.suffixes) and file != path]

    def files(self, path: Path) -> list[Path]:
        """Return a table NOTE, its tables NOTE_NLP, and the table of labels.

        Raises:
            SourceError: The table of labels is missing.
        """
        if not self.label_table:
            return [path, *self.list_mentions(path)]
        labels = path.parent / self.label_table
        if not labels.is_file():
            raise SourceError(
                f"{labels}: expected a table of labels, found none; check [source] label_table"
            )
        return [path, *self.list_mentions(path), labels]

    # Mentions ------------------------------------------------------------------------------------

    def records(self, part: Part) -> Iterator[Record | SetAside | NotChosen]:
        """Yield the notes of a part; with the first part, rows of NOTE_NLP without a note."""
        yield from super().records(part)
        # With shares, every split reads the same tables.
        if part.first == 0 and self._split == self.assign_split(None):
            yield from self._list_lost(Path(part.path))

    def _list_lost(self, path: Path) -> Iterator[SetAside]:
        mentions = self._load(path)
        yield from mentions.damaged
        missing = dict(mentions.by_note)
        for record in self.container.records(self, Part(str(path))):
            if not missing:
                return
            if isinstance(record, Record):
                with suppress(RecordError):
                    missing.pop(self._note_id(record.content, record.id), None)
        for doc_id, rows in missing.items():
            yield SetAside(doc_id, rows.place, _NO_NOTE, len(rows))

    def for_file(self, path: Path) -> Callable[[Record, Findings], None]:
        """Return the reader of a file's notes; see `FormSource.for_file`."""
        return functools.partial(self._understand, self._load(path))

    def understand(self, record: Record, found: Findings) -> None:
        """Read a note, and place its mentions."""
        self._understand(self._load(record.path), record, found)

    def _understand(self, mentions: _Mentions, record: Record, found: Findings) -> None:
        rows = None
        with suppress(RecordError):
            rows = mentions.by_note.get(self._note_id(record.content, record.id))
            if mentions.by_note:
                found.lost = len(rows or ())
        super().understand(record, found)
        if rows is not None and not found.not_chosen:
            found.left_out += rows.left_out
            found.mentions = self._place(rows.listed, mentions.labels, found)

    def _place(
        self, listed: Sequence[_Listed], labels: Mapping[str, str], found: Findings
    ) -> list[Annotation]:
        """Place mentions at their offsets, and the others by their words."""
        text = found.text
        units: Sequence[OffsetUnit] = ("characters", "utf-16", "bytes")
        places: list[tuple[int, int] | None] = []
        # The unit with most words at their offsets; the first of equals.
        for unit in units[:1] if text.isascii() else units:
            found_here = _find_at_offsets(listed, text, unit)
            if not places or found_here.count(None) < places.count(None):
                places = found_here
            if None not in places:
                break

        placed = []
        alone = []
        for row, place in zip(listed, places, strict=True):
            label = row.label or labels.get(row.concept) or self.label
            if place is None:
                alone.append(Annotation((), label, row.words, row.concept))
            else:
                placed.append(Annotation([place], label, concept=row.concept))
        taken = {place for place in places if place is not None}
        return placed + place_words(alone, found, self.occurrences, taken=taken)

    def _load(self, path: Path) -> _Mentions:
        """Return the rows of NOTE_NLP for a table NOTE. A process reads them once."""
        files = self.files(path)[1:]
        options = repr(replace(self, _split=""))
        key = (options, path, *((file, file.stat().st_mtime_ns) for file in files))
        if key not in _LOADED:
            _LOADED.clear()
            _LOADED[key] = self._read_mentions(path)
        return _LOADED[key]

    def _read_mentions(self, path: Path) -> _Mentions:
        """Read the tables NOTE_NLP of a table NOTE.

        Raises:
            SourceError: A table lacks a column, or cannot be read.
        """
        by_note: dict[str, _OfNote] = {}
        damaged = []
        known: dict[str, str] = {}
        for file in self.list_mentions(path):
            for row in self._mention_table(file).rows(Part(str(file))):
                try:
                    doc_id = self._note_id(row.value, row.numbered)
                    listed = self._read_row(row.value)
                except RecordError as error:
                    damaged.append(SetAside("", row.place, error.reason, 1))
                    continue
                of_note = by_note.setdefault(doc_id, _OfNote(row.place))
                if isinstance(listed, Reason):
                    of_note.left_out[listed] += 1
                    continue
                # Rows share most of their values.
                offset, *texts = listed
                shared = (known.setdefault(text, text) for text in texts)
                of_note.listed.append(_Listed(offset, *shared))

        labels = {}
        if self.label_table:
            concepts = {row.concept for of_note in by_note.values() for row in of_note.listed}
            labels = _read_labels(path.parent / self.label_table, concepts)
        return _Mentions(by_note, damaged, labels)

    def _mention_table(self, path: Path) -> TableReader:
        """Return the reader of a table NOTE_NLP.

        Raises:
            SourceError: It lacks a column that the options name.
        """
        columns = {"id": "note_id", "words": "lexical_variant"}
        present = self._column_names(Sample(path, read_head(path)))
        columns |= {role: name for role, name in _OPTIONAL.items() if name in present}
        if self.label_column:
            columns["label"] = self.label_column
        return TableReader(columns=columns, keys=("id",), separator=self.separator, text=self)

    def _read_row(self, cells: Cells) -> _Listed | Reason:
        """Return a row of NOTE_NLP, or why it is left out."""
        exists = (cells.get("exists") or "").strip().casefold()
        if self.negated == "leave_out" and exists in _ABSENT:
            return REASONS["negated"]
        words = (cells.get("words") or "").strip()
        if not words:
            return _NO_WORDS
        offset = _OFFSET.fullmatch(cells.get("offset") or "")
        modifiers = read_modifiers(cells.get("modifiers") or "")
        concept = (cells.get("concept") or "").strip()
        if number := _CONCEPT.fullmatch(concept):
            concept = number[1]
        if concept in ("", _NO_CONCEPT):
            concept = modifiers.get("concept", "")
        label = (cells.get("label") or "").strip() or modifiers.get("label", "")
        return _Listed(int(offset[1]) if offset else -1, words, label, concept)


def read_modifiers(text: str) -> dict[str, str]:
    """Return name -> value of modifiers such as `label=Disease;score=0.98`.

    `%3B` stands for a semicolon in a value, and `%25` for a percent sign.
    """
    if not text:
        return {}
    pairs = (modifier.partition("=") for modifier in text.split(";"))
    return {name.strip(): unquote(value.strip()) for name, _, value in pairs}


def _find_at_offsets(
    listed: Sequence[_Listed], text: str, unit: OffsetUnit
) -> list[tuple[int, int] | None]:
    """Return the place of each row's words in a text, None if they are not at its offset."""
    at = in_characters(text, unit=unit)
    return [_match(row.words, text, at(row.offset)) for row in listed]


def _match(words: str, text: str, start: int) -> tuple[int, int] | None:
    """Return the range of words that begin at a position, in any case and with any white space."""
    if start < 0 or start >= len(text):
        return None
    if text.startswith(words, start):
        return start, start + len(words)
    pattern = r"\s+".join(map(re.escape, words.split()))
    match = re.compile(pattern, re.IGNORECASE).match(text, start)
    return match.span() if match else None


def _read_labels(path: Path, concepts: Collection[str]) -> dict[str, str]:
    """Return concept -> label, of some concepts.

    Args:
        path: A table with a header. With TABs, as of Athena, quotes are characters.
        concepts: The concepts.

    Raises:
        SourceError: The table is damaged, or lacks a column.
    """
    has_tabs = b"\t" in read_head(path).partition(b"\n")[0]
    with opened(path) as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
        table = read_table(
            text, path, SourceError, delimiter="\t" if has_tabs else ",", quoted=not has_tabs
        )
        label = next((name for name in _LABELS if name in table.columns), "")
        if "concept_id" not in table.columns or not label:
            raise SourceError(
                f"{path}:1: expected the columns concept_id and {' or '.join(_LABELS)}, found "
                "others; check [source] label_table"
            )
        rows = ((row["concept_id"], row[label]) for _, row in table.rows)
        return {concept: value for concept, value in rows if concept in concepts}
