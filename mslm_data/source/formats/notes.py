"""Clinical notes: MIMIC-III's NOTEEVENTS, other tables of notes by naming their columns, folders of text files."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from mslm_data.data.document import Document, NotChosen, Part, SetAside
from mslm_data.errors import SourceError
from mslm_data.source.reading.choice import Choosing, last_of_sample
from mslm_data.source.reading.inputs import SingleFile, by_split
from mslm_data.source.reading.note_rows import Row, Tables
from mslm_data.source.reading.placeholders import Handling, placeholders
from mslm_data.source.reading.records import RecordError, stem

SUFFIXES = (".csv", ".parquet", ".txt")
_LONGEST_ID = 128
_STANDS = frozenset({"", "0", "f", "false"})
_WITHDRAWN = frozenset({"1", "t", "true"})


@dataclass(frozen=True, kw_only=True)
class Notes(Choosing, Tables, SingleFile):
    r"""Reads notes as a stream; what `Tables` and `Choosing` take are its options too, by default those of NOTEEVENTS.

    Files are `.csv`, `.csv.gz` (one part: to build it in parallel it is to be unpacked first), `.parquet`, or `.txt`,
    one note each. Columns stand in any order, their names in any case; "" says that a table has none such. Without an
    id notes are called `{file}:{number}`. A note whose error flag is set is set aside, as is one without text or
    patient. One that is not asked for comes as `NotChosen`: it is counted, and not among those read.

    MIMIC-IV-Note: `id_column = "note_id"`, `category_column = ""`, `error_column = ""`. A folder of text files, such as
    i2b2's: `patient_pattern = '^(\d+)-'`.

    Attributes:
        patient_pattern: Where the id says whose note it is: the pattern's first group, or all that it matches.
        pattern: Which files of a folder are notes, as of `fnmatch`.
        placeholders: What is tokenised for `[** **]`: "keep" its characters, "token" a word for its kind, "drop"
            nothing.
        splits: Split -> patterns of file names, see `inputs.by_split`; not with `shares`.
    """

    patient_pattern: str = ""
    pattern: str = "*"
    placeholders: Handling = "keep"
    splits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Tables.__post_init__(self)
        Choosing.__post_init__(self)
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

    def find(self, inputs: Sequence[Path]) -> dict[str, list[Path]]:
        """Return split -> files; with shares each split has all of them. See `inputs.by_split`."""
        found = by_split(
            inputs, suffixes=SUFFIXES, splits={"all": ("*",)} if self.shares else self.splits
        )
        for split, paths in found.items():
            found[split] = [
                path for path in paths if path in inputs or fnmatch(path.name, self.pattern)
            ]
        if not any(found.values()):
            where = ", ".join(path.name for path in inputs)
            raise SourceError(
                f"{where}: expected files that fit '{self.pattern}', found none; check [source] pattern"
            )
        if self.shares:
            return dict.fromkeys(self.shares, found["all"])
        return {split: paths for split, paths in found.items() if paths}

    def settle(self, paths: Sequence[Path]) -> dict[str, Any]:
        """Read all files once to find the sample, if one is asked for; see `Chooses.settle`.

        Raises:
            SourceError: A file cannot be read.
        """
        if not self.patients or self.patients_last:
            return {}
        everyone = dataclasses.replace(self, patients=0, split="")
        candidates = (
            everyone._candidate(row) for path in paths for row in everyone.rows(Part(str(path)))
        )
        last = last_of_sample(
            (c for c in candidates if c is not None), size=self.patients, seed=self.seed
        )
        return {"patients_last": last}

    def of_split(self, split: str) -> Notes:
        """Return this source, giving only the notes of a split's patients."""
        return dataclasses.replace(self, split=split) if self.shares else self

    def cut(self, path: Path, *, target_bytes: int) -> Iterator[Part]:
        """Cut a table between records, so that a part has about `target_bytes` of the split; see `Source.cut`."""
        return super().cut(path, target_bytes=int(target_bytes / self.shares.get(self.split, 1.0)))

    def read(self, part: Part) -> Iterator[Document | SetAside | NotChosen]:
        """Give each note, and for each that is not asked for why; see `Source.read`.

        Raises:
            SourceError: No table with these columns.
            ValueError: There is a sample, and nobody asked `settle` for it.
        """
        for row in self.rows(part):
            record = self._record(row, f"{stem(Path(part.path))}:{row.number}")
            if record is not None:
                yield record

    def _record(self, row: Row, numbered: str) -> Document | SetAside | NotChosen | None:
        """Return what becomes of a row, None where it is another split's."""
        doc_id, patient = "", None
        try:
            doc_id = _name(row.value("id") or numbered)
            patient = self._patient(row, doc_id)
            if self.is_elsewhere(patient):
                return None
            refused = self.refusal(patient, row.value("category") or "")
            if refused:
                return refused
            if _is_withdrawn(row):
                raise RecordError("expected a note that stands, got one that is marked as an error")
            text = row.value("text")
            if not text:
                raise RecordError("expected a note with text, got none")
        except RecordError as error:
            return None if self.is_elsewhere(patient) else SetAside(doc_id, row.place, str(error))
        return Document(
            id=doc_id,
            text=text,
            place=row.place,
            placeholders=placeholders(text, self.placeholders),
        )

    def _candidate(self, row: Row) -> str | None:
        """Return the patient of a note that could be in a sample."""
        try:
            patient = self._patient(row, row.value("id") or "")
            chosen = self.refusal(patient, row.value("category") or "") is None
            return patient if chosen and not _is_withdrawn(row) and row.value("text") else None
        except RecordError:
            return None

    def _patient(self, row: Row, doc_id: str) -> str:
        """Return whose note a row is."""
        if "patient" in row.roles:
            patient = (row.value("patient") or "").strip()
        else:
            match = re.search(self.patient_pattern or ".+", doc_id)
            patient = (match[1] if match.re.groups else match[0]) or "" if match else ""
        if not patient:
            raise RecordError("expected a note that says whose it is, got none")
        return patient


def _name(doc_id: str) -> str:
    """Return an id as it is, if it can be one: ids stand in messages, text must not."""
    if len(doc_id) > _LONGEST_ID or not doc_id.isprintable():
        raise RecordError(
            f"expected an id of at most {_LONGEST_ID} characters in one line, got another"
        )
    return doc_id


def _is_withdrawn(row: Row) -> bool:
    flag = (row.value("error") or "").strip().casefold()
    if flag not in _STANDS | _WITHDRAWN:
        raise RecordError("expected an error flag that is 1, 0 or empty, got another")
    return flag in _WITHDRAWN
