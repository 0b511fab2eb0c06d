"""The driver of forms: a form says how a file holds records, and what it found in one of them.

A form is a source with two parts. Its container divides the bytes of a file into records. Its
method `understand` reads a record and fills a `Findings`: a text with mentions at offsets, or words
with mentions of words.

The driver owns everything else: where files are cut, encodings, ids, places, records that are set
aside, placing of mentions, and the scheme of tags.

| container | record |
|---|---|
| `FilledLines` | a line that is not blank |
| `Blocks` | the lines between two blank lines |
| `JsonRows` | a line of JSON, or an element of the one array of a file |
| `JsonWithin` | a value within the one JSON value of a file |
| `XmlElements` | an XML element |
| `WholeFile` | a file |
| `ArrowRows` | a row of a parquet or Arrow file |
| `TableRows` | a row of a table |
| `RowGroups` | consecutive rows of a table |
| `ByFile` | chosen by file |
"""

from __future__ import annotations

import functools
import itertools
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import msgspec

from mslm_data.data.document import (
    Document,
    NotChosen,
    Part,
    Placeholder,
    Sentence,
    SetAside,
)
from mslm_data.data.reason import Reason
from mslm_data.errors import PipelineError, SourceError
from mslm_data.source import Source
from mslm_data.source.reading import arrow_rows, json_rows, tags
from mslm_data.source.reading.cells import Cells, Row
from mslm_data.source.reading.elements import elements
from mslm_data.source.reading.encodings import TextReading, TextSource
from mslm_data.source.reading.files import NumberedLine, ends_with, lines, stem
from mslm_data.source.reading.records import RecordError, cut_at_gaps, cut_filled_lines
from mslm_data.source.reading.standoff import (
    Annotation,
    Ends,
    OffsetSource,
    OffsetUnit,
    Placed,
)
from mslm_data.source.reading.tables import TableReader
from mslm_data.source.reading.tags import WordSpan
from mslm_data.source.reading.word_documents import LATE, make_word_document

NO_TEXT = Reason("expected text, got none")
"""Reason for a record without text."""

_SCHEME_BYTES = 1 << 20
_SCHEME_RECORDS = 1000
"""Size of a file's beginning, which shows the scheme of its tags."""

_AS_GIVEN = OffsetSource(offsets="characters", ends="exclusive", newlines="two")
"""Options for placing mentions of forms without such options."""


class Record(NamedTuple):
    """A record of a file.

    Attributes:
        id: `file:number`, for forms without ids.
        place: `file:line`.
        content: Content of the record. Its type depends on the container.
        path: The file.
    """

    id: str
    place: str
    content: Any
    path: Path


@dataclass(slots=True)
class Findings:
    """The text and mentions of a record, or its passages or words. A form fills it.

    Set `id` and `lost` first, so that they are known if the record cannot be read.

    Attributes:
        id: Id of the document. Default: `file:number`.
        place: `file:line` of the document.
        file: Name of the file that `line` of a `RecordError` refers to. Default: "", the file of
            the record.
        lost: Number of mentions that are lost if the record cannot be read. Default: -1, unknown.

        text: Text of the document.
        is_file: Whether the text is a file. Its byte order mark is removed. Some programs count the
            mark as a character, so the convention is used that places more mentions.
        pieces: Instead of `text`: passages and their offsets. Passages are the sentences.
        mentions: Mentions at offsets of the text.
        is_exact: Whether offsets count characters and ends are exclusive, whatever the options say.
        unit: Unit of offsets with "auto", if no mention has words to show it. Default: characters.
        ends: Meaning of ends with "auto", if no mention has words. Default: "exclusive".
        sentences: Sentences of `text`. Default: None, the source has no sentences.
        placeholders: Placeholders of `text`.

        words: Instead of `text`: the words of each sentence, such as `[["Ada", "met"], ["Bo"]]`.
            They are joined by one space, except after `glued` words, and sentences by a newline. No
            sentence is empty. Default: None.
        glued: Indices of words that no space follows, counted over the document.
        spans: Mentions of words, `WordSpan(start, end, label)` of `source.reading.tags`: half-open
            ranges of words, counted over the document.
        late: Number of `spans` that begin with a continuing tag, such as I.
        late_by_i: Number of those that begin with I, as mentions of IOB1 do.

        left_out: Reason -> number of mentions that the form leaves out.
        adjusted: Reason -> number of mentions whose position differs from the source's.
        doc_label: Label of the document. Default: "", none.
        not_chosen: Why the options exclude the record. Default: None, they do not.
    """

    id: str
    place: str
    file: str = ""
    lost: int = -1

    text: str = ""
    is_file: bool = False
    pieces: list[tuple[int, str]] = field(default_factory=list)
    mentions: list[Annotation] = field(default_factory=list)
    is_exact: bool = False
    unit: OffsetUnit | Literal[""] = ""
    ends: Ends | Literal[""] = ""
    sentences: Sequence[Sentence] | None = None
    placeholders: tuple[Placeholder, ...] = ()

    words: list[list[str]] | None = None
    glued: set[int] = field(default_factory=set)
    spans: list[WordSpan] = field(default_factory=list)
    late: int = 0
    late_by_i: int = 0

    left_out: Counter[Reason] = field(default_factory=Counter)
    adjusted: Counter[str] = field(default_factory=Counter)
    doc_label: str = ""
    not_chosen: NotChosen | None = None

    def decode(self, values: Sequence[str], *, untyped: str) -> list[WordSpan]:
        """Decode the tags of a sentence, and count mentions that begin with a continuing tag.

        Forms use it instead of `tags.decode`, because the driver finds out whether I may begin a
        mention in the file.

        Args:
            values: Tags.
            untyped: Label of tags without a label.

        Raises:
            ValueError: As for `tags.decode`.
        """
        spans, late = tags.decode(values, untyped=untyped)
        if late:
            _, late_in_iob1 = tags.decode(values, untyped=untyped, i_opens=True)
            self.late += late
            self.late_by_i += late - late_in_iob1
        return spans

    def document(self, options: object) -> Document:
        """Make the document.

        Args:
            options: Options of the source. Those of an `OffsetSource` place mentions.

        Raises:
            RecordError: There is no text, or passages overlap.
        """
        if self.words is not None:
            document = make_word_document(
                self.id, self.words, self.spans, glued=self.glued, place=self.place
            )
        else:
            document = self._place(options)
        if not (self.left_out or self.adjusted or self.doc_label):
            return document
        return replace(
            document,
            unplaced=dict(Counter(document.unplaced) + self.left_out),
            adjusted=dict(Counter(document.adjusted) + self.adjusted),
            doc_label=self.doc_label,
        )

    def _place(self, options: object) -> Document:
        placing = _AS_GIVEN
        if isinstance(options, OffsetSource) and not self.is_exact:
            placing = options
        if (self.unit or self.ends) and not any(mention.words for mention in self.mentions):
            placing = placing.with_defaults(self.unit, self.ends)

        text = self.text
        sentences = None if self.sentences is None else tuple(self.sentences)
        if self.pieces:
            text, sentences, placed = placing.lay_out(self.pieces, self.mentions)
        elif self.is_file:
            text, placed = placing.place_in_file(text, self.mentions)
        elif self.mentions:
            placed = placing.place(text, self.mentions)
        else:
            placed = Placed((), {}, {})
        if not text:
            raise RecordError(NO_TEXT)
        return Document(
            id=self.id,
            text=text,
            spans=placed.spans,
            sentences=sentences,
            placeholders=self.placeholders,
            unplaced=placed.unplaced,
            adjusted=placed.adjusted,
            place=self.place,
        )


class FormSource:
    """Base class of forms, to be named before that of their options.

    As in `class PubTator(FormSource, OffsetTextSource, frozen=True, kw_only=True)`. Their base is
    `TextSource` for text files, `OffsetSource` or `OffsetTextSource` for mentions at offsets, and
    `Source` for others.

    Attributes:
        container: Records of a file.
    """

    __slots__ = ()

    container: ClassVar[Container[Any]]

    def __init_subclass__(cls) -> None:
        """Check that a form is complete.

        Raises:
            PipelineError: Something is missing, or the bases are in the wrong order.
        """
        if Source not in cls.__mro__[cls.__mro__.index(FormSource) :]:
            raise PipelineError(
                f"class {cls.__name__}: expected FormSource before a base of options, such as "
                "(FormSource, TextSource), got other bases"
            )
        for name in ("suffixes", "container"):
            if not hasattr(cls, name):
                raise PipelineError(f"class {cls.__name__}: expected a value of `{name}`, got none")
        if cls.understand is FormSource.understand:
            raise PipelineError(f"class {cls.__name__}: expected a method `understand`, got none")

    @abstractmethod
    def understand(self, record: Record, found: Findings) -> None:
        """Read a record.

        Args:
            record: The record.
            found: Object to fill.

        Raises:
            RecordError: The record cannot be used. Attributes of `found` that have been set before
                describe the loss.
        """

    def records(self, part: Part) -> Iterator[Record | SetAside | NotChosen]:
        """Yield the records of a part. Forms override it to choose among records."""
        return self.container.records(self, part)

    def for_file(self, path: Path) -> Callable[[Record, Findings], None]:  # noqa: ARG002 - overridden
        """Return `understand` for the records of a file.

        Forms override it if a file's beginning decides how its records are read.
        """
        return self.understand

    def cut(self, part: Part, *, target_bytes: int) -> Iterator[Part]:
        """Cut a file between records; see `Source.cut`."""
        return self.container.cut(self, part, target_bytes=target_bytes)

    def read(self, part: Part) -> Iterator[Document | SetAside | NotChosen]:
        """Read each record; see `Source.read`."""
        path = Path(part.path)
        understand = self.for_file(path)
        # The beginning of the file is read at most once.
        is_iob1 = functools.cache(lambda: self.is_iob1(path))
        for record in self.records(part):
            if isinstance(record, SetAside | NotChosen):
                yield record
                continue

            found = Findings(record.id, record.place)
            try:
                understand(record, found)
                if found.not_chosen:
                    yield found.not_chosen
                    continue
                if found.late:
                    num_regular = found.late_by_i if is_iob1() else 0
                    found.adjusted[LATE] += found.late - num_regular
                yield found.document(self)
            except RecordError as error:
                place = found.place
                if error.line:
                    place = f"{found.file or record.path.name}:{error.line}"
                yield SetAside(found.id, place, error.reason, found.lost)

    def is_iob1(self, path: Path) -> bool:
        """Return whether I may begin mentions, judged by the beginning of a file."""
        return shows_iob1(self._read_beginning(path))

    def _read_beginning(self, path: Path) -> Iterator[Findings]:
        for record in self.container.beginning(self, path):
            if isinstance(record, SetAside):
                continue
            found = Findings(record.id, record.place)
            with suppress(RecordError):
                self.understand(record, found)
            yield found


def shows_iob1(beginning: Iterable[Findings]) -> bool:
    """Return whether the first records of a file show that I may begin mentions."""
    num_mentions = 0
    num_late = 0
    for found in beginning:
        num_mentions += len(found.spans)
        num_late += found.late
    return tags.opens_with_i(mentions=num_mentions, late=num_late)


# Containers ---------------------------------------------------------------------------------------

OptionsT = TypeVar("OptionsT")
TextT = TypeVar("TextT", bound=TextReading)


class Container(ABC, Generic[OptionsT]):
    """How a file holds records. `options` is the form in all methods."""

    @abstractmethod
    def records(self, options: OptionsT, part: Part, /) -> Iterator[Record | SetAside]:
        """Yield the records of a part. Damaged ones are set aside.

        Raises:
            SourceError: As for `Source.read`.
        """

    def beginning(self, options: OptionsT, path: Path, /) -> Iterator[Record | SetAside]:
        """Yield the first records of a file."""
        return itertools.islice(self.records(options, Part(str(path))), _SCHEME_RECORDS)

    def cut(self, _: OptionsT, part: Part, /, *, target_bytes: int) -> Iterator[Part]:  # noqa: ARG002 - overridden
        """Cut a file between records; see `Source.cut`. By default nothing is cut."""
        return iter([part])


class Lines(Container[TextT], ABC):
    """Base class of containers that group the lines of a text file."""

    @abstractmethod
    def group(
        self, options: TextT, path: Path, lines: Iterator[NumberedLine], /
    ) -> Iterator[tuple[int, Any]]:
        """Group lines into records, each with its line number."""

    @abstractmethod
    def divide(self, options: TextT, part: Part, /, *, target_bytes: int) -> Iterator[Part]:
        """Cut a file that may be cut."""

    def records(self, options: TextT, part: Part, /) -> Iterator[Record | SetAside]:
        path = Path(part.path)
        data = options.utf8(path, part.start, part.stop)
        return _numbered(
            self.group(options, path, lines(data, first=part.line)), path, first=part.first
        )

    def beginning(self, options: TextT, path: Path, /) -> Iterator[Record | SetAside]:
        data = options.beginning(path, _SCHEME_BYTES)
        return _numbered(self.group(options, path, lines(data)), path)

    def cut(self, options: TextT, part: Part, /, *, target_bytes: int) -> Iterator[Part]:
        if not options.may_be_cut(part, target_bytes=target_bytes):
            return iter([part])
        return self.divide(options, part, target_bytes=target_bytes)


class FilledLines(Lines[TextT]):
    """A record for each line that is not blank: a `NumberedLine`."""

    def group(
        self, _: TextT, __: Path, lines: Iterator[NumberedLine], /
    ) -> Iterator[tuple[int, Any]]:
        return ((line.number, line) for line in lines if line.data.strip())

    def divide(self, _: TextT, part: Part, /, *, target_bytes: int) -> Iterator[Part]:
        return cut_filled_lines(part, target_bytes=target_bytes)


class Blocks(Lines[TextReading]):
    """A record for each block of lines between blank lines: a list of `NumberedLine`."""

    def __init__(self, begins: Callable[[bytes], object] = lambda _: False) -> None:
        """Name the lines that begin a record without a blank line before them."""
        self._begins = begins

    def group(
        self, _: TextReading, __: Path, lines: Iterator[NumberedLine], /
    ) -> Iterator[tuple[int, list[NumberedLine]]]:
        block: list[NumberedLine] = []
        for line in lines:
            is_blank = not line.data.strip()
            if block and (is_blank or self._begins(line.data)):
                yield block[0].number, block
                block = []
            if not is_blank:
                block.append(line)
        if block:
            yield block[0].number, block

    def divide(self, _: TextReading, part: Part, /, *, target_bytes: int) -> Iterator[Part]:
        return cut_at_gaps(part, target_bytes=target_bytes)


class JsonRows(Container[TextReading]):
    """A record for each line of JSON, or each element of the one array of a file."""

    def __init__(self, are_rows: json_rows.AreRows = lambda _: True) -> None:
        """Set the function that finds rows within an object. By default an object is a row."""
        self._are_rows = are_rows

    def records(self, options: TextReading, part: Part, /) -> Iterator[Record | SetAside]:
        return as_records(json_rows.rows(part, options, self._are_rows), Path(part.path))

    def beginning(self, options: TextReading, path: Path, /) -> Iterator[Record | SetAside]:
        return as_records(json_rows.beginning(path, options, self._are_rows), path)

    def cut(self, options: TextReading, part: Part, /, *, target_bytes: int) -> Iterator[Part]:
        return json_rows.cut(part, options, target_bytes=target_bytes)


class ArrowRows(Container[OptionsT]):
    """A record for each row of a parquet or Arrow file, with some of its columns."""

    def __init__(self, columns: Callable[[OptionsT, Path], Collection[str]]) -> None:
        """Set the function that returns the columns to read."""
        self._columns = columns

    def records(self, options: OptionsT, part: Part, /) -> Iterator[Record | SetAside]:
        path = Path(part.path)
        columns = self._columns(options, path)
        return as_records(arrow_rows.rows(part, columns=columns), path)

    def cut(self, _: OptionsT, part: Part, /, *, target_bytes: int) -> Iterator[Part]:
        return arrow_rows.cut(part, target_bytes=target_bytes)


class JsonWithin(Container[object]):
    """A record for each value that a function finds within the one JSON value of a file.

    JSON is UTF-8, or has a byte order mark, unless the form has an option `encoding`.
    """

    def __init__(self, items: Callable[[bytes], Iterable[msgspec.Raw]]) -> None:
        """Set the function; see `json_rows.rows_within`."""
        self._items = items

    def records(self, options: object, part: Part, /) -> Iterator[Record | SetAside]:
        path = Path(part.path)
        reading = options if isinstance(options, TextReading) else TextSource()
        return as_records(json_rows.rows_within(path, reading, self._items), path)


class XmlElements(Container[object]):
    """A record for each XML element with one of some names: an `Element`.

    A malformed file is an error, because the number of records in its remainder is unknown.
    """

    def __init__(self, *names: str) -> None:
        """Set the names; see `elements`."""
        self._names = names

    def records(self, _: object, part: Part, /) -> Iterator[Record | SetAside]:
        path = Path(part.path)
        try:
            yield from _numbered(elements(path, *self._names), path)
        except RecordError as error:
            raise SourceError(f"{path.name}:{error.line}: {error.reason}") from None


class WholeFile(Container[object]):
    """A record for each file: its path. Its id is the name of the file without suffix."""

    def records(self, _: object, part: Part, /) -> Iterator[Record | SetAside]:
        path = Path(part.path)
        yield Record(stem(path), f"{path.name}:1", path, path)


class TableRows(Container[OptionsT]):
    """A record for each row of a table: its cells by role."""

    def __init__(self, table: Callable[[OptionsT, Path], TableReader]) -> None:
        """Set the function that returns the reader of a file."""
        self._table = table

    def records(self, options: OptionsT, part: Part, /) -> Iterator[Record | SetAside]:
        path = Path(part.path)
        return as_records(self._table(options, path).rows(part), path)

    def cut(self, options: OptionsT, part: Part, /, *, target_bytes: int) -> Iterator[Part]:
        return self._table(options, Path(part.path)).cut(part, target_bytes=target_bytes)


class RowGroups(Container[OptionsT]):
    """A record for each group of rows of a table: its subgroups, each a list of `Row`.

    A group or subgroup continues while its column has the same value, or none. A blank row ends a
    subgroup. In a table without a column of groups, each subgroup is a record.
    """

    def __init__(
        self, rows: Callable[[OptionsT, Part], Iterator[Row]], *, group: str, subgroup: str
    ) -> None:
        """Set the function that reads rows, and the roles of the two columns."""
        self._rows = rows
        self._group = group
        self._subgroup = subgroup

    def records(self, options: OptionsT, part: Part, /) -> Iterator[Record | SetAside]:
        path = Path(part.path)
        for number, subgroups in enumerate(self._divide(self._rows(options, part))):
            yield Record(f"{stem(path)}:{number}", subgroups[0][0].place, subgroups, path)

    def beginning(self, options: OptionsT, path: Path, /) -> Iterator[Record | SetAside]:
        return self.records(options, Part(str(path), 0, _SCHEME_BYTES))

    def _divide(self, rows: Iterable[Row]) -> Iterator[list[list[Row]]]:
        subgroups: list[list[Row]] = []
        group: str | None = None
        subgroup: str | None = None
        for row in rows:
            cells = {role: _cell(row.value, role) for role in row.value}
            new_group = cells.pop(self._group, None)
            new_subgroup = cells.pop(self._subgroup, "")
            others_are_empty = all(cell == "" for cell in cells.values())
            if not new_group and not new_subgroup and others_are_empty:
                subgroup = None
                continue

            begins_group = _begins(new_group, group)
            if begins_group or _begins(new_subgroup, subgroup):
                if subgroups and (begins_group or self._group not in row.value):
                    yield subgroups
                    subgroups = []
                subgroups.append([])
                subgroup = new_subgroup or ""
            if begins_group:
                group = new_group or ""
            subgroups[-1].append(row)
        if subgroups:
            yield subgroups


def _cell(cells: Cells, role: str) -> str | None:
    """Return a stripped value, "" for an empty cell, None for one that cannot be read."""
    try:
        return (cells[role] or "").strip()
    except RecordError:
        return None


def _begins(value: str | None, current: str | None) -> bool:
    """Return whether a value begins a group. `current` is None if there is no group to continue."""
    return current is None or (bool(value) and value != current)


class ByFile(Container[Any]):
    """The container of a file, for forms with several."""

    def __init__(self, choose: Callable[[Any, Path], Container[Any]]) -> None:
        """Set the function from the form and a file to the container."""
        self._choose = choose

    def records(self, options: Any, part: Part, /) -> Iterator[Record | SetAside]:
        return self._choose(options, Path(part.path)).records(options, part)

    def beginning(self, options: Any, path: Path, /) -> Iterator[Record | SetAside]:
        return self._choose(options, path).beginning(options, path)

    def cut(self, options: Any, part: Part, /, *, target_bytes: int) -> Iterator[Part]:
        container = self._choose(options, Path(part.path))
        return container.cut(options, part, target_bytes=target_bytes)


def by_suffix(
    containers: Mapping[tuple[str, ...], Container[Any]], others: Callable[[Any], Container[Any]]
) -> ByFile:
    """Return the container of files with some suffixes, and of others by the form's options."""

    def choose(options: Any, path: Path) -> Container[Any]:
        found = (one for suffixes, one in containers.items() if ends_with(path, suffixes))
        return next(found, None) or others(options)

    return ByFile(choose)


def as_records(rows: Iterable[Row | SetAside], path: Path) -> Iterator[Record | SetAside]:
    """Make records of rows, with their cells."""
    for row in rows:
        if isinstance(row, SetAside):
            yield row
        else:
            yield Record(row.numbered, row.place, row.value, path)


def _numbered(found: Iterable[tuple[int, Any]], path: Path, *, first: int = 0) -> Iterator[Record]:
    """Make records of contents, each with its line number."""
    name = stem(path)
    for number, (line, content) in enumerate(found, start=first):
        yield Record(f"{name}:{number}", f"{path.name}:{line}", content, path)
