"""Reads clinical notes: MIMIC-III's, MIMIC-IV's, other tables, folders of text files."""

from __future__ import annotations

import dataclasses
import functools
import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Annotated

from mslm_data.data.document import Document, NotChosen, Part, SetAside
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.registry import Help
from mslm_data.source import Source
from mslm_data.source.reading.cohort import Cohort, find_last_sampled
from mslm_data.source.reading.encodings import TextOptions
from mslm_data.source.reading.files import ends_with, stem
from mslm_data.source.reading.placeholders import Handling, placeholders
from mslm_data.source.reading.records import NAME_THE_ID, WITHDRAWN, RecordError
from mslm_data.source.reading.splits import fits, sort_by_split
from mslm_data.source.reading.tables import TableReader, TableRow

_LONGEST_ID = 128
_STANDS = frozenset({"", "0", "f", "false"})
_WITHDRAWN = frozenset({"1", "t", "true"})
_COLUMNS = {
    "mimic": ("ROW_ID", "SUBJECT_ID", "CATEGORY", "TEXT"),
    "mimic-iv": ("note_id", "subject_id", "note_type", "text"),
}
"""Shipped pipeline -> columns that its tables have, and no others."""


@dataclass(frozen=True, kw_only=True)
class Notes(Cohort, TextOptions, Source):
    r"""Tables and folders of notes, read as a stream; the defaults are those of NOTEEVENTS.

    Files are `.csv`, `.csv.gz` (one part: unpack it to build it in parallel), `.parquet`, or `.txt`
    with one note each. Columns stand in any order, their names in any case; "" says that a table
    does not have such a column. Notes without an id are called `{file}:{number}`.

    A note whose error flag is set is set aside, as is one without text or patient. A note that the
    options of patients and categories leave out is counted, but not as read.

    The pipeline `mimic-iv` has the options for MIMIC-IV-Note. A folder of text files, such as
    i2b2's: `patient_pattern = '^(\d+)-'`.
    """

    suffixes = (".csv", ".parquet", ".txt")
    segmenter = "clinical"

    id_column: Annotated[str, Help("Column of each note's id.")] = "ROW_ID"
    patient_column: Annotated[
        str, Help('Column of the patient; "" takes the patient from the id.')
    ] = "SUBJECT_ID"
    text_column: Annotated[str, Help("Column of the text.")] = "TEXT"
    category_column: Annotated[str, Help("Column of the kind of note.")] = "CATEGORY"
    error_column: Annotated[str, Help("Column of the flag that withdraws a note.")] = "ISERROR"
    separator: Annotated[str, Help("What stands between columns of `.csv`.")] = ","
    patient_pattern: Annotated[
        str,
        Help(
            "Where an id names its patient: the pattern's first group, or else all that it matches."
        ),
    ] = ""
    pattern: Annotated[str, Help("Which files of a folder are notes, as of `fnmatch`.")] = "*"
    placeholders: Annotated[
        Handling,
        Help(
            'What is tokenised for `[** **]` and `___`: "keep" their characters, "token" a word '
            'for the kind, which is `_` for `___`, "drop" nothing.'
        ),
    ] = "keep"
    splits: Annotated[
        Mapping[str, tuple[str, ...]],
        Help(
            "Split -> patterns of file paths below the input, as of `fnmatch`; not with `shares`."
        ),
    ] = field(default_factory=dict)

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> str:
        """Return what speaks for a table of notes of MIMIC; see `Source.recognises`."""
        pipeline = cls.suggest_pipeline(head) if ends_with(path, ".csv") else ""
        if not pipeline:
            return ""
        *names, last = _COLUMNS[pipeline]
        return f"its header has {', '.join(names)} and {last}"

    @classmethod
    def suggest_pipeline(cls, head: bytes) -> str:
        """Return `mimic` or `mimic-iv`, by the columns; see `Source.suggest_pipeline`."""
        header = head.removeprefix(BOM_UTF8).partition(b"\n")[0].decode("utf-8", errors="replace")
        return _pipeline_with(name.strip(' "\r') for name in header.split(","))

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.text_column:
            raise ValueError("expected text_column to name a column, got ''")
        if len(self.separator.encode()) != 1 or self.separator in '"\r\n':
            raise ValueError(
                "expected separator to be one character of ASCII, and no quote or line end"
            )
        if self.shares and self.splits:
            raise ValueError("expected shares of the patients or splits of the files, got both")
        if self.categories and not self.category_column:
            raise ValueError(
                "expected category_column to name a column, as categories are asked for, got ''"
            )
        try:
            re.compile(self.patient_pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(
                f"expected patient_pattern to be a regular expression, got one with {error}"
            ) from None

    @functools.cached_property
    def _tables(self) -> TableReader:
        columns = {
            "id": self.id_column,
            "patient": self.patient_column,
            "text": self.text_column,
            "category": self.category_column,
            "error": self.error_column,
        }
        return TableReader(
            columns={role: column for role, column in columns.items() if column},
            keys=("id", "patient"),
            separator=self.separator,
            text=self,
        )

    def find(self, inputs: Sequence[Path]) -> dict[str, list[Path]]:
        """Find the files of each split; with `shares`, each split has all of them.

        Raises:
            SourceError: No file fits, or one is a table of another release of MIMIC; see
                `Source.find`.
        """
        splits = {"all": ("*",)} if self.shares else self.splits
        every = sort_by_split(inputs, suffixes=self.suffixes, splits=splits)
        by_split = {
            split: [path for path in paths if path in inputs or fits(path, self.pattern)]
            for split, paths in every.items()
        }
        self._check_release(by_split if any(by_split.values()) else every)
        if not any(by_split.values()):
            names = ", ".join(path.name for path in inputs)
            raise SourceError(
                f"{names}: expected files that fit '{self.pattern}', found none; "
                f"check [source] pattern"
            )
        if self.shares:
            return dict.fromkeys(self.shares, by_split["all"])
        return {split: paths for split, paths in by_split.items() if paths}

    def _check_release(self, files: Mapping[str, Sequence[Path]]) -> None:
        """Raise for a table that another pipeline reads, and these options do not."""
        for path in dict.fromkeys(chain.from_iterable(files.values())):
            if not ends_with(path, ".csv"):
                continue
            names = self._tables.names(path)
            other = _pipeline_with(names)
            if other and self.id_column.casefold() not in names:
                *first, last = _COLUMNS[other]
                raise SourceError(
                    f"{path}: expected a table with the column {self.id_column}, got one with "
                    f"{', '.join(first)} and {last}; --source {other} reads it"
                )

    def settle(self, paths: Sequence[Path]) -> dict[str, str]:
        """Read all files once to find the sample, if one is asked for; see `Source.settle`."""
        if not self.patients or self.patients_last:
            return {}
        everyone = dataclasses.replace(self, patients=0, split="")
        rows = (row for path in paths for row in self._tables.rows(Part(str(path))))
        candidates = map(everyone._candidate, rows)
        patients = (patient for patient in candidates if patient is not None)
        return {"patients_last": find_last_sampled(patients, size=self.patients, seed=self.seed)}

    def for_split(self, split: str) -> Notes:
        """Return a source that reads only the notes of a split's patients."""
        return dataclasses.replace(self, split=split) if self.shares else self

    def estimate_share(self, split: str) -> float:
        """Return the share of the patients that a split has; see `Source.estimate_share`."""
        return self.shares.get(split, 1.0)

    def cut(self, part: Part, *, target_bytes: int) -> Iterator[Part]:
        """Cut a table between records, so that a part has about `target_bytes` of the split."""
        share = self.shares.get(self.split, 1.0)
        return self._tables.cut(part, target_bytes=int(target_bytes / share))

    def read(self, part: Part) -> Iterator[Document | SetAside | NotChosen]:
        """Read each note, or why it is not chosen; see `Source.read`.

        Raises:
            SourceError: It is not a table with these columns.
            ValueError: There is a sample whose largest digest is unknown; see `Source.settle`.
        """
        file_stem = stem(Path(part.path))
        for row in self._tables.rows(part):
            record = self._record(row, file_stem)
            if record is not None:
                yield record

    def _record(self, row: TableRow, file_stem: str) -> Document | SetAside | NotChosen | None:
        """Return the record that a row makes, None where it belongs to another split."""
        doc_id = ""
        patient = None
        try:
            doc_id = _checked_id(row.value("id") or f"{file_stem}:{row.number}")
            patient = self._patient(row, doc_id)
            if self.is_elsewhere(patient):
                return None
            refused = self.refusal(patient, row.value("category") or "")
            if refused:
                return refused
            if _is_withdrawn(row):
                raise RecordError(WITHDRAWN)
            text = row.value("text")
            if not text:
                raise RecordError("expected a note with text, got none")
        except RecordError as error:
            # A damaged record belongs to one split too, so that it is counted once.
            return None if self.is_elsewhere(patient) else SetAside(doc_id, row.place, error.reason)
        return Document(
            id=doc_id,
            text=text,
            place=row.place,
            placeholders=placeholders(text, self.placeholders),
        )

    def _candidate(self, row: TableRow) -> str | None:
        """Return the patient of a note that could be in a sample, None for other notes."""
        try:
            patient = self._patient(row, row.value("id") or "")
            is_chosen = self.refusal(patient, row.value("category") or "") is None
            is_usable = is_chosen and not _is_withdrawn(row) and row.value("text")
            return patient if is_usable else None
        except RecordError:
            return None

    def _patient(self, row: TableRow, doc_id: str) -> str:
        """Return the patient of a note.

        Raises:
            RecordError: Neither the column nor the id names one.
        """
        if "patient" in row.roles:
            patient = (row.value("patient") or "").strip()
        else:
            match = re.search(self.patient_pattern or ".+", doc_id)
            if match is None:
                patient = ""
            elif match.re.groups:
                patient = match[1] or ""
            else:
                patient = match[0]
        if not patient:
            raise RecordError(
                Reason(
                    "expected a note that says whose it is, got none",
                    advice={
                        "patient_column": "name the column of the patient with "
                        "source.patient_column, or {set} source.patient_column='' and "
                        "source.patient_pattern to find the patient in the id"
                    },
                )
            )
        return patient


def _pipeline_with(names: Iterable[str]) -> str:
    """Return the shipped pipeline for tables with columns of these names, "" for none."""
    there = set(map(str.casefold, names))
    for pipeline, columns in _COLUMNS.items():
        if there.issuperset(map(str.casefold, columns)):
            return pipeline
    return ""


def _checked_id(doc_id: str) -> str:
    """Return an id that can stand in messages, as it is.

    Raises:
        RecordError: It is too long, or has several lines: it may be text, which messages must not
            hold.
    """
    if len(doc_id) > _LONGEST_ID or not doc_id.isprintable():
        raise RecordError(
            Reason(
                f"expected an id of at most {_LONGEST_ID} characters in one line, got another",
                advice=NAME_THE_ID,
            )
        )
    return doc_id


def _is_withdrawn(row: TableRow) -> bool:
    flag = (row.value("error") or "").strip().casefold()
    if flag in _STANDS:
        return False
    if flag in _WITHDRAWN:
        return True
    raise RecordError(
        Reason(
            "expected an error flag that is 1, 0 or empty, got another",
            advice={
                "error_column": "name the column of the flag with source.error_column, or {set} "
                "source.error_column='' if notes have none"
            },
        )
    )
