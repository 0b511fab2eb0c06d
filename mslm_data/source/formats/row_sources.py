"""Reads rows with named columns, in any shape of `reading/shapes`, under the names that users type.

`jsonl` reads rows of any tool. The other names are those of tools, and read the same rows.
`medcattrainer` and `hub` have files of their own, for their files of other forms.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec
from msgspec import Meta

from mslm_data.data.document import Document, NotChosen, Part, SetAside
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.io.files import JSON_ERRORS
from mslm_data.log import plain
from mslm_data.source import Guess, Sample
from mslm_data.source.form import (
    Container,
    Findings,
    FormSource,
    JsonRows,
    Record,
)
from mslm_data.source.reading import cells, json_rows
from mslm_data.source.reading.cells import Cells
from mslm_data.source.reading.encodings import marked, to_utf8
from mslm_data.source.reading.files import HEAD_BYTES, ends_with, read_head
from mslm_data.source.reading.occurrences import ABSENT, REPEATED, SURPLUS
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.shapes import SHAPES
from mslm_data.source.reading.shapes.base import (
    MENTIONS,
    TEXTS,
    RowOptions,
    RowsFile,
    Shape,
    decode_written,
    find_shape,
    find_written,
    objects_within,
)
from mslm_data.source.reading.shapes.mention_forms import (
    look_like_mentions,
    may_list_words,
)
from mslm_data.source.reading.shapes.texts import PREDICTIONS, TEXT
from mslm_data.source.reading.splits import keep_only
from mslm_data.source.reading.versions import OTHER_VERSION, UNAPPROVED, Version

_ROWS_TRIED = 20
"""Number of rows that must be readable for `find_columns` to suggest columns, and whose texts are
searched for mentions in JSON."""
_FEW_ABSENT = 0.1
"""Maximum number of mentions whose words are not in the text, for each mention with a place."""
_FIRST_SIZE = 1 << 20
"""Maximum size of the first rows that decide how a file is read, in characters."""
_LONGER_HEAD = 1 << 20
"""Size of the beginning that is searched for a row if the first one is long."""
NAMES_FILE = "label.json"
_HOLD_TEXT = frozenset[str]().union(*(shape.texts | {shape.in_file[0]} for shape in SHAPES))
"""Columns of rows that are documents or contain documents. Such a row has at least one of them."""


_NO_MENTIONS = (
    "expected mentions beside the texts, got none in the first rows; an annotator finds them with "
    "--source jsonl and annotate.use"
)


def _are_rows(values: Sequence[object]) -> bool:
    """Return whether values are rows with mentions, and not parts of a row or of another file."""
    rows = _decode_rows(values)
    if len(rows) < len(values):
        return False
    shapes = [find_shape(row, SHAPES) for row in rows]
    if any(shape.in_file[0] for shape in shapes):
        return False
    shown = any(shape.shows(row) for shape, row in zip(shapes, rows, strict=True))
    return shown or bool(find_columns(rows))


JSON_ROWS = JsonRows(_are_rows)


class RowSource(FormSource, RowOptions, frozen=True, kw_only=True):
    """Base class of sources of rows: JSON lines, `.json` files, parquet and Arrow.

    Attributes:
        shapes: Shapes of rows.
        name: Name of the source, to recognise the shapes that name it.
    """

    suffixes: ClassVar[tuple[str, ...]] = json_rows.SUFFIXES
    by_content: ClassVar[bool] = True
    container: ClassVar[Container[Any]] = JSON_ROWS
    shapes: ClassVar[tuple[Shape, ...]] = SHAPES
    name: ClassVar[str]

    def understand(self, record: Record, found: Findings) -> None:
        """Read a row; see `RowsFile.understand`."""
        self.for_file(record.path)(record, found)

    def for_file(self, path: Path) -> Callable[[Record, Findings], None]:
        """Return the function that reads the rows of a file."""
        return self.file(path).understand

    def is_iob1(self, path: Path) -> bool:
        """Return whether I may begin mentions; see `FormSource.is_iob1`."""
        return self.file(path).is_iob1

    def file(self, path: Path) -> RowsFile:
        """Return what the rows of a file share, decided by its first rows."""
        try:
            status = path.stat()
        except OSError:
            return self._settle(path)
        # Options are encoded, because those with a mapping cannot be keys of a cache.
        encoded = msgspec.json.encode(self)
        return _settle(type(self), encoded, str(path), status.st_mtime_ns, status.st_size)

    def first_rows(self, path: Path) -> Iterator[Cells]:
        """Yield the first rows of a file that are objects.

        Raises:
            SourceError: The file cannot be read.
        """
        size = 0
        for record in self.container.beginning(self, path):
            row = None if isinstance(record, SetAside) else _as_columns(record.content)
            if row is None:
                continue
            yield row
            # They are kept in memory, and may have long texts.
            size += len(repr(row))
            if size > _FIRST_SIZE:
                return

    def _settle(self, path: Path) -> RowsFile:
        rows = [*self.first_rows(path)]
        written = find_written(rows)
        return RowsFile(
            options=self,
            shapes=self.shapes,
            first=[decode_written(row, written) for row in rows],
            written=written,
            names=self.names_of(path),
            names_beside=_find_names(path).names,
        )

    def files(self, path: Path) -> list[Path]:
        """Return a file of rows, and the file beside it that names its integers."""
        beside = _find_names(path)
        return [path, *filter(None, [beside.path])]

    def names_of(self, path: Path) -> Mapping[str, Sequence[str]]:  # noqa: ARG002 - overridden
        """Return column -> names of its integers, if the file has names."""
        return {}

    def cut(self, part: Part, *, target_bytes: int) -> Iterator[Part]:
        """Cut a file between rows; see `Source.cut`.

        A file whose rows may annotate the same document is one part: the choice depends on all.
        """
        may_be_cut = self.may_be_cut(part, target_bytes=target_bytes)
        if may_be_cut and self.file(Path(part.path)).has_versions:
            return iter([part])
        return self.container.cut(self, part, target_bytes=target_bytes)

    def records(self, part: Part) -> Iterator[Record | SetAside | NotChosen]:
        """Yield the rows of a part, of several annotations of a document the chosen ones."""
        file = self.file(Path(part.path))
        if not file.has_versions:
            return self.container.records(self, part)
        return self._choose(file, part)

    def _choose(self, file: RowsFile, part: Part) -> Iterator[Record | SetAside | NotChosen]:
        # Read the file twice, so that only the keys of its rows are held in memory.
        versions: list[Version | None] = []
        pieces: dict[Hashable, list[Any]] = {}
        for number, record in enumerate(self.container.records(self, part)):
            row = record.content if isinstance(record, Record) else None
            if not isinstance(row, Mapping):
                versions.append(None)
                continue
            shape = file.shape_of(row)
            versions.append(shape.version(row, number) if shape.version else None)
            key = shape.piece(row)
            if key is not None:
                merged = pieces.setdefault(key, [])
                merged += [span for span in row.get("spans") or () if span not in merged]

        # An annotation in several rows is read with the first chosen one.
        reasons = self.versions.chosen(versions)
        for record, reason in zip(self.container.records(self, part), reasons, strict=True):
            if isinstance(record, SetAside):
                yield record
            elif reason:
                yield NotChosen(reason)
            else:
                yield _merge(record, file, pieces)

    def list_columns(self, path: Path) -> list[str]:
        """Return the columns that most of the first rows have; see `Source.list_columns`."""
        file = self.file(path)
        return [name for name in next(iter(file.first), {}) if file.may_show(name)]

    def disowns(self, path: Path) -> str:
        """Return why a file certainly holds no documents; see `Source.disowns`."""
        row = next(iter(self.first_values(Sample(path, read_head(path)))), None)
        if not isinstance(row, dict) or not _HOLD_TEXT.isdisjoint(row):
            return ""
        has_text = cells.lookup(row, self.text_column) is not None
        return "" if has_text else "its first object holds neither text nor words"

    def settle(self, paths: Sequence[Path]) -> Mapping[str, Any]:
        """Check that all files have the column of mentions if some have; see `Source.settle`.

        Raises:
            SourceError: A file lacks the column, such as a test set without answers.
        """
        column = self.mentions_column
        if column != "auto":
            has_column = {path: self._has_column(path, column) for path in paths}
            others = [path for path in paths if has_column[path]]
            lacking = [path for path in paths if not has_column[path]]
            if lacking and others:
                raise SourceError(
                    f"{plain(lacking[0].name)}: expected rows with column "
                    f"{cells.quote_column(column)}, as other files have, found none in its first "
                    f"rows; if the file has no mentions, {keep_only(others)}"
                )
        return {}

    def _has_column(self, path: Path, column: str) -> bool:
        return any(cells.has_column(row, column) for row in self.file(path).first)

    def sniff(self, sample: Sample) -> Guess:
        """Recognise rows by the shape of the first ones; see `Source.sniff`."""
        rows = _decode_rows(self.first_values(sample))
        guess = self.guess(sample.path, rows)
        # Any program may keep JSON in a file with its own suffix, such as `.ipynb`.
        if guess.problem and not ends_with(sample.path, self.suffixes):
            may_be_read = any(look_like_mentions(value) for row in rows for value in row.values())
            return guess if may_be_read else Guess()
        return guess

    def first_values(self, sample: Sample) -> list[object]:
        """Return the complete JSON values of a file's beginning; if it has none, of more of it.

        Of a single object, the rows within it.
        """
        head = to_utf8(sample.head, marked(sample.head, self.encoding))
        values = [*json_rows.first_rows(sample.path, head)]
        if not values and len(sample.head) >= HEAD_BYTES and sample.path.is_file():
            longer = self.beginning(sample.path, _LONGER_HEAD)
            values = [*json_rows.first_rows(sample.path, longer)]
        if len(values) <= 1 and ends_with(sample.path, ".json") and sample.path.is_file():
            with suppress(SourceError):
                values = [*self.first_rows(sample.path)] or values
        return values

    def guess(self, path: Path, rows: Sequence[Cells]) -> Guess:  # noqa: ARG002 - overridden
        """Recognise rows whose shape names this source."""
        for row in rows:
            shape = find_shape(row, SHAPES)
            if shape.shows(row):
                return shape.guess if shape.source == self.name else Guess()
        return Guess()


def guess_columns(rows: Sequence[Cells]) -> Guess:
    """Recognise rows with unusual names of columns."""
    columns = find_columns(rows) if rows else {}
    if not columns:
        return Guess()
    return Guess(f"its rows have a text and, in {columns['mentions_column']}, mentions", columns)


@functools.lru_cache(maxsize=2)
def _settle(
    kind: type[RowSource],
    options: bytes,
    path: str,
    mtime_ns: int,  # noqa: ARG001 - in the cache key, so that a changed file is read again
    num_bytes: int,  # noqa: ARG001
) -> RowsFile:
    """Return what the rows of a file share. The cache serves the parts of a file."""
    return msgspec.json.decode(options, type=kind)._settle(Path(path))


class _Names(NamedTuple):
    """Names of integers, and the file that lists them, None if there is none."""

    path: Path | None = None
    names: tuple[str, ...] = ()


def _find_names(path: Path) -> _Names:
    """Return the names in `label.json`, in the folder of a file of rows or in its parent.

    It has the integer of each name, as tner's datasets have. The integers must be 0, 1, 2 ….
    """
    for folder in (path.parent, path.parent / ".."):
        file = folder / NAMES_FILE
        if names := read_names(file):
            return _Names(file, names)
    return _Names()


def read_names(file: Path) -> tuple[str, ...]:
    """Return the names in a `label.json`, empty if it has others or does not exist."""
    try:
        numbers = msgspec.json.decode(file.read_bytes(), type=dict[str, int])
    except (OSError, *JSON_ERRORS):
        return ()
    are_all = sorted(numbers.values()) == [*range(len(numbers))]
    return tuple(sorted(numbers, key=numbers.__getitem__)) if are_all else ()


def _merge(record: Record, file: RowsFile, pieces: dict[Hashable, list[Any]]) -> Record | NotChosen:
    """Give a row all mentions of its annotation, if it is the first of the annotation's rows."""
    row = record.content
    key = file.shape_of(row).piece(row) if isinstance(row, Mapping) else None
    if key is None:
        return record
    spans = pieces.pop(key, None)
    if spans is None:
        return NotChosen(OTHER_VERSION)
    return record._replace(content={**row, "spans": spans})


def _decode_rows(values: Sequence[object]) -> list[Cells]:
    """Return those of some values that are rows, with lists that are written as texts decoded."""
    rows = [row for value in values if (row := _as_columns(value)) is not None]
    written = find_written(rows)
    return [decode_written(row, written) for row in rows]


def _as_columns(row: object) -> Cells | None:
    try:
        return cells.named_columns(row)
    except RecordError:
        return None


# Names of sources ---------------------------------------------------------------------------------


class JsonLines(RowSource, frozen=True, kw_only=True):
    """Files with one JSON object per line, and `.json` files with an array of objects.

    A document without an id is called `{file}:{number}`, numbered from 0 without blank lines. Lines
    that are not JSON, or not a document, are set aside. Rows that annotators rejected or skipped
    are counted and not read. Of several annotations of a document, as in Prodigy and Label Studio,
    one is read. A row without mentions is an error if one of its other columns looks like mentions.
    """

    name = "jsonl"

    def guess(self, path: Path, rows: Sequence[Cells]) -> Guess:
        """Recognise rows, also with unusual names of columns, or say why they cannot be read."""
        guess = super().guess(path, rows)
        if guess.why or not rows:
            return guess
        if (unusual := guess_columns(rows)).why:
            return unusual
        # Source `text` reads texts alone, but not in an array.
        is_array = ends_with(path, ".json")
        return Guess(problem=find_problem(rows) or (_NO_MENTIONS if is_array else ""))


class Prodigy(RowSource, frozen=True, kw_only=True):
    """Files of Prodigy's annotations (`ner.manual`, `ner.correct`, `spans.manual` …).

    Rows with the `answer` "accept" are documents, and so are rows without an answer, such as those
    of programs. Rejected and skipped rows are counted. A row without `spans` has no mentions.
    Tokens and relations are ignored.

    Accepted rows with the same input (`_input_hash`, or else the text of rows with a session) are
    annotations of one document; `of_several` selects the one to read. Accepted rows of `ner.teach`,
    each about a single mention, are joined into one annotation. `annotator` is a session or
    annotator, in `_session_id` or `_annotator_id`.
    """

    name = "prodigy"


class LabelStudio(RowSource, frozen=True, kw_only=True):
    """Exports of Label Studio, as JSON or JSON-MIN.

    If a task has several annotations, the one marked as ground truth is read, or else the one
    selected by `of_several`, by creation time. "all" joins their mentions; in JSON-MIN it reads the
    first row of each id and sets the others aside. Cancelled annotations, drafts, relations and
    choices are ignored. Tasks without annotations are counted and not read. `annotator` is the
    number, name or address in `completed_by`.

    Predictions, which are the results of models, are read instead of annotations only with
    `predictions`; `annotator` is then a model, in `model_version`.

    A region with several labels becomes several mentions. Label Studio's offsets count UTF-16 code
    units, as in JavaScript; `offsets = "auto"` detects this from the words in each region.
    """

    name = "label-studio"

    predictions: Annotated[
        bool, Meta(description="Read the predictions of tasks instead of their annotations.")
    ] = False

    @property
    def reads_predictions(self) -> bool:
        """Whether predictions are read instead of annotations."""
        return self.predictions


class Doccano(RowSource, frozen=True, kw_only=True):
    """Exports of doccano's sequence labelling, one document per line.

    Mentions are `[start, end, label]` in `label` or `labels`, or objects in `entities`. Relations
    and comments are ignored. doccano exports one file per annotator; pass one of them.
    """

    name = "doccano"

    approved: Annotated[
        bool, Meta(description="Read only documents with an approver, in `annotation_approver`.")
    ] = False

    def records(self, part: Part) -> Iterator[Record | SetAside | NotChosen]:
        """Yield the rows of a part, with `approved` the approved ones."""
        for record in super().records(part):
            yield NotChosen(UNAPPROVED) if self.approved and _lacks_approver(record) else record


def _lacks_approver(record: Record | SetAside | NotChosen) -> bool:
    if not isinstance(record, Record) or not isinstance(record.content, Mapping):
        return False
    return not record.content.get("annotation_approver")


# Guesses about unusual rows -----------------------------------------------------------------------


def find_columns(rows: Sequence[Cells]) -> dict[str, str]:
    """Find the columns of text and mentions in rows with unusual column names.

    Returns:
        The options for the only pair of columns by which all first rows can be read, empty if there
        is no such pair or several. Of several texts, the one with the words that mentions repeat is
        taken, as in a text beside its masked copy.
    """
    first = rows[:_ROWS_TRIED]
    if any(find_shape(row, SHAPES) is not TEXT for row in first):
        return {}

    # Candidates for the text are columns with several words in some row. Chinese has no spaces.
    texts = {
        name: None
        for row in first
        for name, value in _values_of(row)
        if isinstance(value, str) and (" " in value.strip() or not value.isascii())
    }
    # Predictions may be all that a file has, or suggestions beside what an annotator marked.
    are_alone = all(cells.first_filled(row, MENTIONS) is None for row in first)
    ignored = TEXT.ignored - PREDICTIONS if are_alone else TEXT.ignored
    mentions = {
        name: None
        for row in first
        for name, value in row.items()
        if name not in ignored and (look_like_mentions(value) or may_list_words(value, name))
    }

    # Try every pair of columns: only one may place all mentions.
    pairs = itertools.product(["text"] if "text" in texts else texts, mentions)
    options = [
        {"text_column": text, "mentions_column": column}
        for text, column in pairs
        if text.partition(".")[0] != column
        and all(map(cells.can_be_shown, (text, column)))
        and _are_read(first, text, column)
    ]
    if len(options) > 1:
        options = [one for one in options if _repeat_words(first, **one)]
    return options[0] if len(options) == 1 else {}


def _values_of(row: Cells) -> Iterator[tuple[str, object]]:
    """Yield the columns of a row, and the fields of its objects as `data.text`."""
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{inner}", field) for inner, field in value.items())
        else:
            yield name, value


def _are_read(rows: Sequence[Cells], text: str, column: str) -> bool:
    """Return whether all mentions are within the texts, and at least one has a place.

    In columns of known names, a few mentions without offsets may have words that texts lack.
    """
    options = RowOptions(text_column=text, mentions_column=column)
    try:
        documents = [*_documents(rows, options)]
    except (RecordError, SourceError):
        return False
    unplaced: Counter[Reason] = Counter()
    for document in documents:
        unplaced.update(document.unplaced)
    num_spans = sum(len(document.spans) for document in documents)
    num_absent = unplaced[ABSENT] + unplaced[SURPLUS]
    may_lack = text in TEXTS and column in MENTIONS and num_absent <= _FEW_ABSENT * num_spans
    reasons = {REPEATED, ABSENT, SURPLUS} if may_lack else {REPEATED}
    return num_spans > 0 and unplaced.keys() <= reasons


def _repeat_words(rows: Sequence[Cells], text_column: str, mentions_column: str) -> bool:
    """Return whether all mentions have a value that is their text."""
    options = RowOptions(text_column=text_column, mentions_column=mentions_column)
    for row, document in zip(rows, _documents(rows, options), strict=True):
        values = [value for one in objects_within(row[mentions_column]) for value in one.values()]
        if any(document.text[span.start : span.end] not in values for span in document.spans):
            return False
    return True


def _documents(rows: Iterable[Cells], options: RowOptions) -> Iterator[Document]:
    """Read rows.

    Raises:
        RecordError, SourceError: A row cannot be read.
    """
    file = RowsFile(options=options, shapes=SHAPES, first=[*rows])
    for row in file.first:
        found = Findings("", "")
        file.read_row(row, found)
        yield found.document(options)


def find_problem(rows: Sequence[Cells]) -> str:
    """Return why the first rows cannot be read, and the option that helps; "" if they can."""
    num_absent = 0
    try:
        for document in _documents(rows[:_ROWS_TRIED], RowOptions()):
            num_absent += document.unplaced.get(ABSENT, 0)
    except SourceError as error:
        return str(error)
    except RecordError as error:
        advice = [text for text in error.reason.advice.values() if "{set}" not in text]
        return "; ".join([error.reason.text, *advice])
    if num_absent:
        return (
            f"expected texts with the words of their mentions, got {num_absent} mention(s) whose "
            "words are not in the first texts; --source jsonl counts these, and reads the others"
        )
    return ""
