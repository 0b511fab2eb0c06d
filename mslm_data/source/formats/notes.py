"""Reads clinical notes: MIMIC-III, MIMIC-IV, other tables, and folders of text files."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Annotated, ClassVar

from msgspec import Meta, field
from msgspec.structs import replace

from mslm_data.data.document import NotChosen, Part, SetAside
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.source import Guess, Sample
from mslm_data.source.form import Findings, FormSource, Record, TableRows
from mslm_data.source.reading.cells import Cells
from mslm_data.source.reading.cohort import Cohort, find_last_sampled
from mslm_data.source.reading.files import ends_with, read_head
from mslm_data.source.reading.placeholders import Handling, placeholders
from mslm_data.source.reading.records import NAME_THE_ID, WITHDRAWN, RecordError, check_id_column
from mslm_data.source.reading.splits import find_candidates, sort_by_split
from mslm_data.source.reading.tables import TableReader, find_layout

_LONGEST_ID = 128
# Values of the error flag, in lower case.
_STANDS = frozenset({"", "0", "f", "false"})
_WITHDRAWN = frozenset({"1", "t", "true"})
_COLUMNS = {
    "mimic": ("ROW_ID", "SUBJECT_ID", "CATEGORY", "TEXT"),
    "mimic-iv": ("note_id", "subject_id", "note_type", "text"),
}
"""Shipped pipeline -> columns that identify its tables."""


IdColumn = Annotated[str, Meta(description="Column of the note's id.")]
PatientColumn = Annotated[
    str, Meta(description='Column of the patient. If "", the patient is taken from the id.')
]
TextColumn = Annotated[str, Meta(min_length=1, description="Column of the text.")]
CategoryColumn = Annotated[str, Meta(description="Column of the category of the note.")]
ErrorColumn = Annotated[str, Meta(description="Column of the flag for erroneous notes.")]


class Notes(FormSource, Cohort, frozen=True, kw_only=True):
    r"""Tables and folders of notes, read as a stream. Defaults are those of MIMIC-III's NOTEEVENTS.

    Files are `.csv`, `.csv.gz`, `.parquet`, or `.txt` with one note each. A compressed file is one
    part; unpack it to build in parallel. Columns may be in any order, with names in any case; ""
    means that a table does not have the column. Notes without an id are called `{file}:{number}`.

    Notes with an error flag are set aside, and so are notes without text or patient. Notes excluded
    by the options for patients and categories are counted separately.

    The pipeline `mimic-iv` has the options for MIMIC-IV-Note. For a folder of text files such as
    i2b2's, set `patient_pattern = '^(\d+)-'`.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".csv", ".parquet", ".txt")
    segmenter = "clinical"
    container = TableRows(lambda notes, _: notes.tables)

    id_column: IdColumn = "ROW_ID"
    patient_column: PatientColumn = "SUBJECT_ID"
    text_column: TextColumn = "TEXT"
    category_column: CategoryColumn = "CATEGORY"
    error_column: ErrorColumn = "ISERROR"
    separator: Annotated[
        str,
        Meta(
            pattern=r"^[\x00-\x09\x0b\x0c\x0e-\x21\x23-\x7f]\Z",
            description="Separator of columns in `.csv` files, an ASCII character other than a "
            "quote and line ends.",
        ),
    ] = ","
    patient_pattern: Annotated[
        str,
        Meta(
            description="Regular expression for the patient in a note's id: its first group or, "
            "without groups, the match. Default: the whole id."
        ),
    ] = ""
    pattern: Annotated[
        str, Meta(description="Pattern of the names of files in folders, as for `fnmatch`.")
    ] = "*"
    placeholders: Annotated[
        Handling,
        Meta(
            description='Text to tokenise for `[** **]` and `___`: "keep" their characters, '
            '"token" one word for their kind (`_` for `___`), "drop" nothing.'
        ),
    ] = "token"
    splits: Annotated[
        Mapping[str, tuple[str, ...]],
        Meta(
            description="Split -> patterns of file paths below the input, as for `fnmatch`. Cannot "
            "be combined with `shares`."
        ),
    ] = field(default_factory=dict)

    def sniff(self, sample: Sample) -> Guess:
        """Recognise a table of MIMIC notes; see `Source.sniff`."""
        if not ends_with(sample.path, ".csv"):
            return Guess()
        pipeline = _pipeline_with(self._column_names(sample))
        if not pipeline:
            return Guess()
        *names, last = _COLUMNS[pipeline]
        return Guess(f"its header has {', '.join(names)} and {last}", pipeline=pipeline)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_id_column(self.id_column, (self.text_column,))
        if self.shares and self.splits:
            raise ValueError(
                "expected shares (of the patients) or splits (patterns of files), got both"
            )
        if self.categories and not self.category_column:
            raise ValueError(
                "expected category_column to name a column, as categories are set, got ''"
            )
        try:
            re.compile(self.patient_pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(
                f"expected patient_pattern to be a regular expression, got one with {error}"
            ) from None

    @functools.cached_property
    def tables(self) -> TableReader:
        """Reader of files, with the columns of the options."""
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

    def _column_names(self, sample: Sample) -> Sequence[str]:
        separator = self.separator
        layout = find_layout(sample.head, sample.path, self, separator=separator, header=True)
        return layout.names

    def find(self, inputs: Sequence[Path]) -> dict[str, list[Path]]:
        """Find the files of each split. With `shares`, every split has all files.

        Raises:
            SourceError: No file matches, or a table belongs to another release of MIMIC; see
                `Source.find`.
        """
        # With shares, patients decide the split, so every split reads all files.
        splits = {"all": ("*",)} if self.shares else self.splits
        try:
            by_split = sort_by_split(
                inputs,
                suffixes=self.suffixes,
                splits=splits,
                pattern=self.pattern,
                disowns=self.disowns,
            )
        except SourceError:
            # The tables of another release have other names, so the pattern may not fit them.
            self._check_release(file.path for file in find_candidates(inputs, self.suffixes))
            raise
        self._check_release(chain.from_iterable(by_split.values()))
        return dict.fromkeys(self.shares, by_split["all"]) if self.shares else by_split

    def _check_release(self, paths: Iterable[Path]) -> None:
        """Raise if a table needs another shipped pipeline, and lacks the columns of this source."""
        for path in dict.fromkeys(paths):
            sample = Sample(path, read_head(path))
            guess = self.sniff(sample)
            column = self.id_column.casefold()
            if guess.pipeline and column and column not in self._column_names(sample):
                raise SourceError(
                    f"{path}: expected a table with the column {self.id_column}, got one that "
                    f"--source {guess.pipeline} reads: {guess.why}"
                )

    def settle(self, paths: Sequence[Path]) -> dict[str, str]:
        """Find the sample of patients, if one is set. Reads all files; see `Source.settle`."""
        if not self.patients or self.patients_last:
            return {}
        # The sample is drawn from all splits, before any patient is excluded by it.
        everyone = replace(self, patients=0, _split="")
        patients = chain.from_iterable(everyone._list_patients(path) for path in paths)
        return {"patients_last": find_last_sampled(patients, size=self.patients, seed=self.seed)}

    def _list_patients(self, path: Path) -> Iterator[str]:
        """Yield the patient of each usable note of a file."""
        for record in self.container.records(self, Part(str(path))):
            if isinstance(record, SetAside):
                continue
            found = Findings(record.id, record.place)
            with suppress(RecordError):
                patient = self._read_note(record, found)
                if not found.not_chosen:
                    yield patient

    def for_split(self, split: str) -> Notes:
        """Return a source that reads only the patients of a split."""
        return replace(self, _split=split) if self.shares else self

    def estimate_share(self, split: str) -> float:
        """Return the share of patients in a split; see `Source.estimate_share`."""
        return self.shares.get(split, 1.0)

    def cut(self, part: Part, *, target_bytes: int) -> Iterator[Part]:
        """Cut a table between records, so that a part has about `target_bytes` of the split."""
        # A part of the file holds the split's share of its notes, so parts must be longer.
        share = self.estimate_share(self._split)
        return super().cut(part, target_bytes=int(target_bytes / share))

    def records(self, part: Part) -> Iterator[Record | SetAside | NotChosen]:
        """Yield the rows of a part that belong to the split; see `FormSource.records`."""
        rows = super().records(part)
        if not self._split or not self.shares:
            return rows
        return (row for row in rows if self._find_split(row) == self._split)

    def _find_split(self, row: Record | SetAside | NotChosen) -> str:
        """Return the split of a row: that of an unknown patient if the row is damaged."""
        patient = None
        if isinstance(row, Record):
            with suppress(RecordError):
                patient = self._patient(row.content, self._note_id(row.content, row.id))
        return self.assign_split(patient)

    def understand(self, record: Record, found: Findings) -> None:
        """Read a note, or find out why it is not chosen."""
        self._read_note(record, found)
        found.placeholders = placeholders(found.text, self.placeholders)

    def _read_note(self, record: Record, found: Findings) -> str:
        """Read the text of a note if it is chosen, and return the patient.

        Raises:
            RecordError: The note cannot be used.
            ValueError: The largest digest of the sample is unknown; see `Source.settle`.
        """
        cells = record.content
        found.id = ""
        found.id = self._note_id(cells, record.id)
        patient = self._patient(cells, found.id)
        found.not_chosen = self.refusal(patient, cells.get("category") or "")
        if found.not_chosen:
            return patient
        if _is_withdrawn(cells):
            raise RecordError(WITHDRAWN)
        found.text = cells["text"] or ""
        if not found.text:
            raise RecordError("expected a note with text, got none")
        return patient

    def _note_id(self, cells: Cells, numbered: str) -> str:
        """Return an id that may appear in messages.

        Raises:
            RecordError: The id is too long or has several lines, so it may be the note's text.
        """
        doc_id: str = cells.get("id") or numbered
        if len(doc_id) > _LONGEST_ID or not doc_id.isprintable():
            raise RecordError(
                Reason(
                    f"expected an id of at most {_LONGEST_ID} characters in one line, got another",
                    advice=NAME_THE_ID,
                )
            )
        return doc_id

    def _patient(self, cells: Cells, doc_id: str) -> str:
        """Return the patient of a note.

        Raises:
            RecordError: Neither the column nor the id gives a patient.
        """
        if "patient" in cells:
            patient: str = (cells["patient"] or "").strip()
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
                    "expected a note with a patient, got none",
                    advice={
                        "patient_column": "name the column of the patient with "
                        "source.patient_column, or {set} source.patient_column='' and "
                        "source.patient_pattern to find the patient in the id"
                    },
                )
            )
        return patient


def _pipeline_with(names: Iterable[str]) -> str:
    """Return the shipped pipeline for tables with these columns, "" if there is none."""
    present = set(map(str.casefold, names))
    for pipeline, columns in _COLUMNS.items():
        if present.issuperset(map(str.casefold, columns)):
            return pipeline
    return ""


def _is_withdrawn(cells: Cells) -> bool:
    flag = (cells.get("error") or "").strip().casefold()
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
