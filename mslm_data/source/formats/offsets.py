"""Reads tables of mentions beside texts: each row gives a document, a range and a label.

The table is the input file and a single part: only its reader sees a mention whose text is missing.
"""

from __future__ import annotations

import functools
import glob
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from mslm_data.data.document import NotChosen, Part, SetAside
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.source import Guess, Sample
from mslm_data.source.form import Container, Findings, FormSource, Record
from mslm_data.source.reading.cells import Cells, Row
from mslm_data.source.reading.files import ends_with, packed_or_plain, stem
from mslm_data.source.reading.records import RecordError, check_id_column, decode_utf8
from mslm_data.source.reading.splits import fits, sort_by_split
from mslm_data.source.reading.standoff import Annotation, OffsetTextSource
from mslm_data.source.reading.tables import Column, Header, TableLayout, find_layout, read_layout

Chosen = Literal["all", "mentioned"]
"""Texts that become documents: all of them, or only those with a mention in the table."""

_KNOWN = {
    "id": (
        *("filename", "file_name", "file", "document", "document_id", "doc_id", "docid", "pmid"),
        *("article_id", "articleid", "note_id"),
    ),
    "start": ("start", "start_span", "start_offset", "offset_start", "begin", "off0"),
    "end": ("end", "end_span", "end_offset", "offset_end", "stop", "off1"),
    "label": ("label", "type", "entity_type", "class", "tag"),
    "words": ("span", "text", "words", "mention", "term"),
    "concept": ("code", "concept", "concept_id", "cui", "identifier"),
}
"""Role -> known names of its column. The first one in a header is used."""
_TEXT_IDS = (*_KNOWN["id"], "id")

_OFFSET = re.compile(r"\s*([0-9]{1,18})\s*")
_RANGE = re.compile(r"\s*([0-9]{1,18})[\s,:-]+([0-9]{1,18})\s*")
_RANGE_WITHOUT_COMMA = re.compile(r"\s*([0-9]{1,18})[\s:-]+([0-9]{1,18})\s*")
_TRIED_TEXTS = 20
"""Number of texts of a folder whose names are searched in a table."""
_NO_CONCEPT = "-1"
_WITHOUT_MENTIONS = NotChosen("without mentions in this table")


@dataclass
class _Listed:
    """The rows of a table for one document.

    Attributes:
        place: Place of the first row.
        annotations: Mentions of the document.
        problem: The first row that cannot be used, None if there is none.
    """

    place: str
    annotations: list[Annotation] = field(default_factory=list)
    problem: SetAside | None = None


class _TextFiles(NamedTuple):
    """The files with a table's texts, sorted by name, and the same with links resolved."""

    paths: list[Path]
    resolved: Set[Path]

    @classmethod
    def from_paths(cls, paths: Iterable[Path]) -> _TextFiles:
        """Take those of some paths that are files."""
        files = sorted(path for path in paths if path.is_file())
        return cls(files, {file.resolve() for file in files})


@functools.lru_cache(maxsize=8)
def _list_texts(folder: Path, mtime_ns: int) -> _TextFiles:  # noqa: ARG001 - part of the cache key
    """Return the texts in a folder; cached, as many tables may share it."""
    return _TextFiles.from_paths(file for file in folder.iterdir() if ends_with(file, ".txt"))


class _Texts(Container["Offsets"]):
    """A record for each text of a table of mentions.

    Its content is a function that reads the text, and the rows of the document, None if it has
    none. Rows without a document come first, and documents without a text last.
    """

    def records(self, options: Offsets, part: Part, /) -> Iterator[Record | SetAside]:
        path = Path(part.path)

        # The table is read first, as its rows may be in any order.
        listed: dict[str, _Listed] = {}
        yield from options.read_mentions(path, listed)

        seen = set()
        for text in options.list_texts(path):
            seen.add(text.id)
            yield text._replace(content=(text.content, listed.get(text.id)))

        for doc_id, rows in listed.items():
            if doc_id not in seen:
                yield SetAside(
                    doc_id,
                    rows.place,
                    Reason(
                        "expected a text for each document of the table, found none for this one; "
                        "check [source] texts and id_column"
                    ),
                    len(rows.annotations),
                )


class Offsets(FormSource, OffsetTextSource, frozen=True, kw_only=True):
    """Tables of mentions, with texts in separate files or in columns of another table.

    Each text is a document. Mentions without a text are set aside, as one record for each document
    that they name. A document is set aside if its text or a row of its mentions cannot be read, and
    so is a row that names no document. Quotes are supported in `.csv` tables only, which need a
    header.

    Columns are given by name, in any case, or by number from 0. "auto" uses known names, such as
    those of DisTEMIST and SympTEMIST. Tables without a header need `id_column`, `start_column`,
    `end_column` and `label_column` as numbers:

    | corpus | options |
    |---|---|
    | DisTEMIST | `texts = "../text_files"` |
    | SympTEMIST | `texts = "../txt"` |
    | DrugProt | `pattern = "*entities*"`, `texts = "*abstra*"`, columns 0, 3, 4, 2, words 5 |
    | ChemProt | `pattern = "*entities*"`, `texts = "*abstracts*"`, columns 0, 3, 4, 2, words 5 |
    | LINNAEUS | `texts = "txt"`, `label = "Species"`, `concept_column = "species id"` |
    | one table per document | `texts = "{stem}.txt"`, `id_column = ""` |
    | CodiEsp-X | `texts = "text_files"`, columns 0, 4, "", 1, words 3, concept 2 |
    """

    suffixes = (".tsv", ".csv", ".tab")
    segmenter = "clinical"
    container = _Texts()

    pattern: Annotated[
        str, Meta(description="Pattern of the names of tables of mentions, as for `fnmatch`.")
    ] = "*"
    texts: Annotated[
        str,
        Meta(
            description="Texts of a table, relative to its folder: a folder with a file NAME.txt "
            "for each document NAME, or a pattern of files, either texts or tables with one text "
            "per row. `{stem}` stands for the table's name without suffix."
        ),
    ] = "."
    documents: Annotated[
        Chosen,
        Meta(
            description='Which texts become documents. Use "mentioned" for several tables with the '
            "same texts, so that a text without mentions does not become a document of each."
        ),
    ] = "all"
    separator: Annotated[
        str,
        Meta(
            pattern=r'^[^"\r\n]?\Z',
            description='Separator of columns, a character. Default: "", detected.',
        ),
    ] = ""
    header: Annotated[Header, Meta(description="Whether the first row of a table is a header.")] = (
        "auto"
    )
    id_column: Annotated[
        Column,
        Meta(
            description='Column of the document: its name, or the name of its file. Set "" for one '
            'table per document, usually with `texts = "{stem}.txt"`.'
        ),
    ] = "auto"
    start_column: Annotated[
        Column,
        Meta(
            description="Column of the start. Without an `end_column` it holds all ranges of a "
            "mention, as in `3 9;12 15`."
        ),
    ] = "auto"
    end_column: Annotated[Column, Meta(description='Column of the end, "" for none.')] = "auto"
    label_column: Annotated[Column, Meta(description='Column of the label, "" for none.')] = "auto"
    words_column: Annotated[
        Column, Meta(description='Column of the mention\'s text, "" for none.')
    ] = "auto"
    concept_column: Annotated[
        Column,
        Meta(description='Column of the concept, "" for none. The value `-1` means no concept.'),
    ] = "auto"
    label: Annotated[
        str, Meta(description="Label of mentions without a value in `label_column`.")
    ] = ""
    text_id_column: Annotated[
        Column,
        Meta(
            description='Column of the document in a table of texts. "auto" uses a column with a '
            "known name, or else the first."
        ),
    ] = "auto"
    text_columns: Annotated[
        tuple[Column, ...],
        Meta(
            description="Columns of the text, joined by line ends, as in title and abstract. "
            "Default: all columns after the document's."
        ),
    ] = ()

    def __post_init__(self) -> None:
        if os.path.isabs(self.texts):
            raise ValueError("expected texts relative to the table's folder, got an absolute path")
        check_id_column(self.text_id_column, self.text_columns, option="text_id_column")

    def sniff(self, sample: Sample) -> Guess:
        """Recognise a table of mentions beside texts; see `Source.sniff`."""
        layout = find_layout(sample.head, sample.path, self, separator="", header="auto")
        known = {role for role, names in _KNOWN.items() if layout.find(*names) is not None}
        if not known >= {"start", "end", "label"}:
            return Guess()
        own = packed_or_plain(sample.path.with_name(f"{stem(sample.path)}.txt"))
        if own and "id" not in known:
            why = "its header names a start, an end and a label, and a text has its name"
            return Guess(why, {"id_column": "", "texts": "{stem}.txt"})
        if "id" not in known:
            return Guess()
        why = "its header names a document, a start, an end and a label, and texts lie beside it"
        if self._text_files(sample.path).paths:
            return Guess(why)
        folders = _find_texts(sample)
        return Guess(why, {"texts": folders[0]}) if len(folders) == 1 else Guess()

    def find(self, inputs: Sequence[Path]) -> Mapping[str, list[Path]]:
        """Find the tables of mentions of each split; see `Source.find`.

        Raises:
            SourceError: There is no table, a table has no texts, or two tables share texts.
        """
        files = sort_by_split(
            inputs, suffixes=self.suffixes, splits=self.splits, pattern=self.pattern
        )
        by_split = {}
        owners: dict[Path, Path] = {}
        for split, paths in files.items():
            tables = [path for path in paths if self._has_mentions(path)]
            for path in tables:
                self._check_texts(path, owners)
            if tables:
                by_split[split] = tables
        if not by_split:
            names = ", ".join(path.name for path in inputs)
            raise SourceError(
                f"{names}: expected tables of mentions named '{self.pattern}', found none; set "
                f"[source] pattern"
            )
        return by_split

    def files(self, path: Path) -> list[Path]:
        """Return a table of mentions and its texts."""
        return [path, *self._text_files(path).paths]

    def understand(self, record: Record, found: Findings) -> None:
        """Read a text, and take its mentions."""
        read_text, rows = record.content
        if rows is None and self.documents == "mentioned":
            found.not_chosen = _WITHOUT_MENTIONS
            return
        found.text = read_text()
        found.is_file = True
        if rows is None:
            return
        if rows.problem:
            found.place = rows.problem.place
            found.lost = len(rows.annotations) + 1
            raise RecordError(rows.problem.reason)
        found.mentions = rows.annotations

    # Mentions ------------------------------------------------------------------------------------

    def _has_mentions(self, path: Path) -> bool:
        return fits(path, self.pattern) and path.resolve() not in self._text_files(path).resolved

    def read_mentions(self, path: Path, listed: dict[str, _Listed]) -> Iterator[SetAside]:
        """Add the rows of a table to `listed`. Yields rows that name no document.

        Raises:
            SourceError: The table lacks columns that the options name.
        """
        layout = read_layout(path, self, separator=self.separator, header=self.header)
        numbers = self._mention_columns(layout)
        only = self._only_document(path) if self.id_column == "" else ""
        for row in layout.rows(numbers):
            if not row.value:
                continue
            try:
                doc_id = only or _read_id(row)
            except RecordError as error:
                yield SetAside("", row.place, error.reason)
                continue

            rows = listed.setdefault(doc_id, _Listed(row.place))
            try:
                rows.annotations.append(self._annotation(row.value))
            except RecordError as error:
                rows.problem = rows.problem or SetAside(doc_id, row.place, error.reason)

    def _only_document(self, path: Path) -> str:
        """Return the only document of a table.

        Raises:
            SourceError: The table has several texts.
        """
        texts = self._text_files(path).paths
        if len(texts) != 1 or not ends_with(texts[0], ".txt"):
            raise SourceError(
                f"{path}: no column names the document, so exactly one text file is needed, but "
                f"{len(texts)} match '{self.texts}'; set [source] id_column or texts"
            )
        return stem(texts[0])

    def _annotation(self, cells: Cells) -> Annotation:
        start = cells.get("start") or ""
        end = cells.get("end") or ""
        try:
            concept = (cells.get("concept") or "").strip()
        except RecordError:
            concept = ""  # the last column may be missing if it is empty
        return Annotation(
            _ranges(start) if self.end_column == "" else _range(start, end),
            label=(cells.get("label") or "").strip() or self.label,
            words=cells.get("words") or None,
            concept="" if concept == _NO_CONCEPT else concept,
        )

    def _mention_columns(self, layout: TableLayout) -> dict[str, int]:
        """Return role -> column number.

        Raises:
            SourceError: A column is missing.
        """
        options = {
            "id": self.id_column,
            "start": self.start_column,
            "end": self.end_column,
            "label": self.label_column,
            "words": self.words_column,
            "concept": self.concept_column,
        }
        needed = {"id", "start", "end"} if self.label else {"id", "start", "end", "label"}
        numbers: dict[str, int] = {}
        for role, column in options.items():
            if column == "":
                continue
            # A column named by the user must exist; a known name only if the role is needed.
            names: Sequence[Column] = _KNOWN[role] if column == "auto" else (column,)
            number = layout.find(*names)
            if number is not None:
                numbers[role] = number
            elif column != "auto" or role in needed:
                raise SourceError(
                    f"{layout.path.name}:1: expected a column for the mentions' {role}, found "
                    f"none; set [source] {role}_column to its name in the header, or to its "
                    "number from 0"
                )
        return numbers

    # Texts ---------------------------------------------------------------------------------------

    def _text_files(self, path: Path) -> _TextFiles:
        """Find the files with a table's texts."""
        texts = self.texts.replace("{stem}", glob.escape(stem(path)))
        folder = path.parent / texts
        if folder.is_dir():
            return _list_texts(folder, folder.stat().st_mtime_ns)

        # The pattern also matches compressed files.
        names = {
            name
            for pattern in (texts, f"{texts}.gz")
            for name in glob.glob(pattern, root_dir=path.parent)
        }
        return _TextFiles.from_paths(path.parent / name for name in names - {path.name})

    def _check_texts(self, path: Path, owners: dict[Path, Path]) -> None:
        """Check that a table has texts, and does not share them. Adds them to `owners`.

        Args:
            path: The table.
            owners: Text -> its table, for the tables before.

        Raises:
            SourceError: Names the tables.
        """
        texts = self._text_files(path).resolved
        if not texts:
            raise SourceError(
                f"{path}: expected its texts at '{self.texts}', relative to its folder, found "
                f"none; set [source] texts to a folder, or to the name of a table"
            )
        if self.documents == "mentioned":
            return

        owner = next((owners[text] for text in texts if text in owners), None)
        if owner is not None:
            raise SourceError(
                f"{owner} and {path}: expected texts of their own for each table, got the "
                "same for both; choose one with [source] pattern, or set documents = "
                "'mentioned'"
            )
        owners |= dict.fromkeys(texts, path)

    def list_texts(self, path: Path) -> Iterator[Record]:
        """Yield a record for each text of a table: a function that reads the text."""
        for file in self._text_files(path).paths:
            if ends_with(file, ".txt"):
                read_text = functools.partial(self._read_file, file)
                yield Record(stem(file), f"{file.name}:1", read_text, file)
            else:
                yield from self._rows_of_texts(file)

    def _read_file(self, path: Path) -> str:
        return decode_utf8(self.utf8(path))

    def _rows_of_texts(self, path: Path) -> Iterator[Record]:
        layout = read_layout(path, self, separator=self.separator, header=self.header is not False)
        if self.header == "auto" and not self._has_text_header(layout.names):
            layout = replace(layout, names=())
        doc_column, columns = self._find_text_columns(layout)
        numbers = {"id": doc_column, **{str(number): number for number in columns}}
        for row in layout.rows(numbers):
            if not row.value:
                continue
            try:
                doc_id = _read_id(row)
            except RecordError:
                doc_id = ""  # reading the text reports it
            read_text = functools.partial(_read_cells, row, columns)
            yield Record(doc_id, row.place, read_text, path)

    def _has_text_header(self, names: Sequence[str]) -> bool:
        """Return whether the first row of a table of texts is a header.

        Decided by column names, because most texts contain no cell that is a number.

        Args:
            names: The first row in lower case.
        """
        columns = [self.text_id_column, *self.text_columns]
        if columns == ["auto"]:
            return not set(names[:1]).isdisjoint(_TEXT_IDS)
        return any(isinstance(column, str) and column.casefold() in names for column in columns)

    def _find_text_columns(self, layout: TableLayout) -> tuple[int, list[int]]:
        """Return the column numbers of the document and of the text.

        Raises:
            SourceError: A column is missing.
        """
        doc_column = layout.find(self.text_id_column)
        if self.text_id_column == "auto":
            doc_column = layout.find(*_TEXT_IDS, 0)
        columns = [layout.find(column) for column in self.text_columns]
        if not columns and doc_column is not None:
            columns = list(range(doc_column + 1, layout.width))

        numbers = [number for number in columns if number is not None]
        if doc_column is None or len(numbers) != len(columns) or not numbers:
            raise SourceError(
                f"{layout.path.name}:1: expected columns for documents and their texts, found "
                "none; set [source] text_id_column and text_columns"
            )
        return doc_column, numbers


def _find_texts(sample: Sample) -> list[str]:
    """Return the folders within or beside that of a table with texts that it names."""
    head = sample.head.decode(errors="replace")
    for above in ("", "../"):
        found = [
            f"{above}{folder.name}"
            for folder in _folders(sample.path.parent / above)
            if any(
                stem(file) in head for file in itertools.islice(folder.glob("*.txt"), _TRIED_TEXTS)
            )
        ]
        if found:
            return found
    return []


def _folders(folder: Path) -> Iterator[Path]:
    try:
        paths = sorted(folder.iterdir())
    except OSError:
        return iter(())
    return (path for path in paths if path.is_dir())


def _read_id(row: Row) -> str:
    """Return the document of a row.

    Raises:
        RecordError: The row names none.
    """
    doc_id = (row.value["id"] or "").strip().removesuffix(".txt")
    if not doc_id:
        raise RecordError("expected a row that names its document, got none")
    return doc_id


def _read_cells(row: Row, columns: Iterable[int]) -> str:
    """Return the text in the columns of a row."""
    _read_id(row)
    text = "\n".join(row.value[str(number)] or "" for number in columns)
    return text.removesuffix("\n")


def _range(start: str, end: str) -> list[tuple[int, int]]:
    """Return a mention's range, empty if both cells are empty."""
    if not start.strip() and not end.strip():
        return []
    first = _OFFSET.fullmatch(start)
    last = _OFFSET.fullmatch(end)
    if first is None or last is None:
        raise RecordError("expected whole numbers as start and end, got other values")
    return [(int(first[1]), int(last[1]))]


def _ranges(cell: str) -> list[tuple[int, int]]:
    """Return the ranges in a cell such as `3 9;12 15` or `3-9, 12-15`."""
    if not cell.strip():
        return []
    matches = [_RANGE.fullmatch(piece) for piece in cell.split(";")]
    if not all(matches):
        # Commas may separate the ranges, or start and end.
        matches = [_RANGE_WITHOUT_COMMA.fullmatch(piece) for piece in cell.split(",")]
    pairs = [(int(match[1]), int(match[2])) for match in matches if match is not None]
    if len(pairs) != len(matches):
        raise RecordError("expected ranges such as '3 9;12 15', got another value")
    return pairs
