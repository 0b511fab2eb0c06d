"""Reads CoNLL-U and CoNLL-U Plus, with entities in MISC or in a column of their own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from mslm_data.data.document import Document, Part, Sentence, SetAside, Span
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.io import limits
from mslm_data.registry import Help
from mslm_data.source import Source
from mslm_data.source.reading import marks, standoff, tags
from mslm_data.source.reading.candidates import say_taken
from mslm_data.source.reading.encodings import Encoding, TextOptions, opened_utf8
from mslm_data.source.reading.files import NumberedLine, ends_with, lines, stem
from mslm_data.source.reading.records import RecordError, decode_utf8
from mslm_data.source.reading.tagged_lines import not_a_tag
from mslm_data.source.reading.word_documents import LATE

COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
"""The columns of a file that does not name its own."""
ENTITIES = ("ner", "bio", "iob", "ne", "entity", "entities")
"""Names of columns and of keys in MISC that hold entities, most wanted first.

They count in any case, and after any prefix such as `GUM:`.
"""

WIDENED = "widened to whole words"
"""Reason in `Document.adjusted`: a mention covers a part of a word that is written as one."""

_GLOBAL_COLUMNS = re.compile(r"# *global\.columns *= *(.+)")
_GLOBAL_ENTITY = re.compile(r"# *global\.Entity *= *(.+)")
_SENTENCE_ID = re.compile(r"# *sent_id *= *(\S+)")
_ROW_ID = re.compile(r"(?P<first>[0-9]{1,9})(?:-(?P<last>[0-9]{1,9})|\.(?P<empty>[0-9]{1,9}))?")
_BRACKET = re.compile(r"\((?P<opened>[^()]+)(?P<closed>\))?|(?P<last>[^()]+)\)")
_FIRST_ROW = re.compile(rb"(?:\A|\n)1(?:-[0-9]+)?(?:\t[^\t\n]+){9}\r?(?:\n|\Z)")
_NOTHING = ("", "_", "*", "-")
_OUTSIDE = ("", "O")
_HEAD_BYTES = 64 << 10
_CHUNK = 1 << 20
_SCHEME_BYTES = 1 << 20
_TYPES = ("etype", "entity", "type")
"""Names of an entity's type in `# global.Entity`."""


@dataclass(frozen=True, kw_only=True)
class Conllu(TextOptions, Source):
    """Files of CoNLL-U (ten columns) and CoNLL-U Plus (`# global.columns = …`).

    `# newdoc` opens a document, with its id or else `file:ordinal`. In a file without it each
    sentence is a document, with its `sent_id` or else `file:number`.

    The text is rebuilt from the words as they are written: a word in several (`1-2 don't`) stands
    as one, an empty node (`1.1`) does not stand there, and words have a space between them unless
    the first says `SpaceAfter=No`. A mention that covers a part of a word in several is widened to
    the whole, and counted in `Document.adjusted`. If only the row of a word in several says what
    entity it is, as Stanza writes it, that holds for the whole word.

    Entities are tags (`NER=B-PER`), labels, or brackets as in CorefUD (`Entity=(e1-person`), whose
    mentions may overlap; each piece of one in several is a mention. One without words, or without a
    beginning or an end, is counted as unplaced. The type of a bracket stands where
    `# global.Entity` says `etype`, or else second.

    A document with a broken line is set aside whole. So is one with a sentence whose rows are not
    numbered one after the other, as where the blank line between two sentences is missing.
    """

    suffixes = (".conllu", ".conllup")
    by_content = True
    columns_noun = "the keys of MISC"

    tag_column: Annotated[
        str,
        Help(
            'Column or key of MISC that holds entities; "" takes the first of `ner`, `bio`, `iob`, '
            "`ne`, `entity` and `entities` in the file's beginning, or else in the whole file. "
            "Where no file has one, the only key of MISC with tags is taken."
        ),
    ] = ""
    untyped: Annotated[str, Help("Label of entities without a type.")] = "Entity"
    scheme: Annotated[
        Literal["auto", "label"],
        Help(
            '"auto" for tags and brackets; "label" where the tag is the label itself, so that '
            "equal neighbours are one mention."
        ),
    ] = "auto"

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> str:
        """Return what speaks for CoNLL-U; see `Source.recognises`.

        Files that end with anything else must have entities, as other files of ten columns may have
        theirs elsewhere.
        """
        if head.startswith(b"# global.columns"):
            return "its first line is # global.columns"
        if not _FIRST_ROW.search(head):
            return ""
        if ends_with(path, cls.suffixes):
            return "its lines have the ten columns of CoNLL-U"
        whole = head[: head.rfind(b"\n") + 1]
        key = _first_entity_name(_keys(whole, len(COLUMNS) - 1)) or _find_only_tag_key(whole)
        return "its lines have the ten columns of CoNLL-U, with entities in MISC" if key else ""

    def cut(self, part: Part, *, target_bytes: int) -> Iterator[Part]:
        """Cut a file at documents if it marks any, else between sentences; see `Source.cut`."""
        path = Path(part.path)
        if self.is_one_part(path):
            return iter([part])
        layout = self._layout(path)
        return marks.cut(part, target_bytes=target_bytes, is_comment=layout.is_comment)

    def read(self, part: Part) -> Iterator[Document | SetAside]:
        """Read each document; see `Source.read`.

        Raises:
            SourceError: The file has no column FORM.
        """
        path = Path(part.path)
        layout = self._layout(path)
        data = self.utf8(path, part.start, part.stop)
        sentences = _sentences(lines(data, first=part.line), layout)
        reader = _Reader(self, layout, lambda: self._opens_with_i(path, layout))
        for number, document in enumerate(_documents(sentences), start=part.first):
            doc_id = document.id or f"{stem(path)}:{number}"
            try:
                yield reader.document(document, doc_id, path.name)
            except RecordError as error:
                place = f"{path.name}:{error.line or document.line}"
                yield SetAside(doc_id, place, error.reason, reader.count(document))

    def settle(self, paths: Sequence[Path]) -> Mapping[str, Any]:
        """Take the one key of MISC that has tags where none has a usual name; see `Source.settle`.

        Raises:
            SourceError: A file cannot be read, or has no column FORM.
        """
        if self.tag_column:
            return {}
        found: dict[str, None] = {}
        for path in paths:
            layout = self._layout(path)
            if layout.key:
                return {}
            if layout.width == len(COLUMNS):
                key = _find_only_tag_key(self.beginning(path, _HEAD_BYTES))
                found |= {key: None} if key else {}
        if len(found) != 1:
            return {}
        chosen = {"tag_column": next(iter(found))}
        say_taken(chosen)
        return chosen

    def list_columns(self, path: Path) -> list[str]:
        """Return the keys in a file's column MISC; see `Source.list_columns`."""
        return _keys(self.beginning(path, _HEAD_BYTES), self._layout(path).misc)

    def _layout(self, path: Path) -> _Layout:
        """Find a file's columns from its beginning, so that all its parts are read alike."""
        beginning = self.beginning(path, _HEAD_BYTES)
        head = beginning.decode("utf-8", "replace")
        given = _GLOBAL_COLUMNS.search(head)
        names = given[1].split() if given else [*COLUMNS]
        if "FORM" not in names:
            raise SourceError(
                f"{path.name}:1: expected the column FORM in # global.columns, found none; is "
                "this CoNLL-U?"
            )

        of_entities = _GLOBAL_ENTITY.search(head)
        fields = of_entities[1].strip().split("-") if of_entities else []
        kinds = [number for number, name in enumerate(fields) if name in _TYPES]
        misc = names.index("MISC") if "MISC" in names else -1
        wanted = self.tag_column or _first_entity_name([*names, *_keys(beginning, misc)])
        if not wanted and misc >= 0:
            # The first sentences with entities may stand behind many without any.
            status = path.stat()
            wanted = _find_key_in_file(
                path,
                self.encoding,
                misc,
                num_bytes=status.st_size,
                changed=status.st_mtime_ns,
            )
        return _Layout(
            id=names.index("ID") if "ID" in names else -1,
            form=names.index("FORM"),
            misc=misc,
            tag=names.index(wanted) if wanted in names else -1,
            key=wanted,
            width=len(names),
            kind=kinds[0] if kinds else 1,
        )

    def _opens_with_i(self, path: Path, layout: _Layout) -> bool:
        """Return whether I opens mentions in a file; its beginning decides."""
        reader = _Reader(self, layout, lambda: False)
        num_mentions = num_late = 0
        for sentence in _sentences(lines(self.beginning(path, _SCHEME_BYTES)), layout):
            try:
                found = reader.mentions(reader.words(sentence))
            except RecordError:
                continue
            num_mentions += len(found.spans)
            num_late += found.late
        return tags.opens_with_i(mentions=num_mentions, late=num_late)


class _Layout(NamedTuple):
    """The numbers of a file's columns, -1 for one that it does not have.

    Attributes:
        id: Column of the row's number.
        form: Column of the word.
        misc: Column of further keys.
        tag: Column of the entities, -1 where they stand in `misc`.
        key: Their key there, "" where there are none.
        width: Number of columns.
        kind: Which field of a bracket is the type.
    """

    id: int
    form: int
    misc: int
    tag: int
    key: str
    width: int
    kind: int

    def is_row(self, line: bytes) -> bool:
        """Return whether a line that begins with `#` is a row of a word that does.

        Where rows begin with their number, it is not.
        """
        return self.id != 0 and line.count(b"\t") == self.width - 1

    def is_comment(self, line: bytes) -> bool:
        """Return whether a line that begins with `#` is neither a row nor a document's mark."""
        return not self.is_row(line) and not marks.MARK.match(line.decode("utf-8", "replace"))


@dataclass(slots=True)
class _Sentence:
    """The lines of a sentence.

    Attributes:
        rows: Those that are not comments.
        opens: The id of the document that begins here, "" for one without; None where none does.
        id: Its own id, "" where there is none.
        line: Number of the line that opens its document, or else of its first row.
    """

    rows: list[NumberedLine] = field(default_factory=list)
    opens: str | None = None
    id: str = ""
    line: int = 0


class _Sentences(NamedTuple):
    """The sentences of a document."""

    id: str
    line: int
    sentences: list[_Sentence]


def _sentences(lines: Iterable[NumberedLine], layout: _Layout) -> Iterator[_Sentence]:
    """Group lines into sentences; a document without any has one without rows."""
    sentence = _Sentence()
    for line in lines:
        if line.data.startswith(b"#") and not layout.is_row(line.data):
            text = line.data.decode("utf-8", "replace")
            mark = marks.MARK.match(text)
            if mark and (sentence.rows or sentence.opens is not None):
                yield sentence
                sentence = _Sentence()
            if mark:
                sentence.opens = marks.name(mark)
                sentence.line = line.number
            found = _SENTENCE_ID.match(text)
            if found and found[1].isprintable():
                sentence.id = found[1]
        elif line.data.strip():
            sentence.line = sentence.line or line.number
            sentence.rows.append(line)
        elif sentence.rows:
            yield sentence
            sentence = _Sentence()
        else:
            # The file may be cut here, so comments say nothing of the rows behind a blank line.
            sentence.id = ""
    if sentence.rows or sentence.opens is not None:
        yield sentence


def _documents(sentences: Iterable[_Sentence]) -> Iterator[_Sentences]:
    """Group sentences into documents: at marks, or one by one where there are none."""
    given = list(sentences)
    if all(sentence.opens is None for sentence in given):
        for sentence in given:
            yield _Sentences(sentence.id, sentence.line, [sentence])
        return

    document: list[_Sentence] = []
    for sentence in given:
        if document and sentence.opens is not None:
            yield _Sentences(document[0].opens or "", document[0].line, document)
            document = []
        document.append(sentence)
    yield _Sentences(document[0].opens or "", document[0].line, document)


class _Value(NamedTuple):
    """The value of a row, which says what mentions its word is in.

    Attributes:
        start: Number of its word among those of the analysis; for an empty node, of the next one.
        stop: The number after it, the same for an empty node.
        text: The value, "" for nothing.
        line: Number of the line.
    """

    start: int
    stop: int
    text: str
    line: int


class _Words(NamedTuple):
    """The words of a sentence.

    The words of a word in several are one word here if only the row of their range has a value.

    Attributes:
        written: The words as they are written.
        has_space: Whether a space follows each of them.
        row_numbers: For each word of the analysis, which one of `written` it is in.
        values: What says of each of these words whether it is in a mention, "" for nothing.
        lines: The number of each line of `values`.
        empty: What empty nodes say, if anything.
    """

    written: list[str]
    has_space: list[bool]
    row_numbers: list[int]
    values: list[str]
    lines: list[int]
    empty: list[_Value]

    def in_order(self) -> list[_Value]:
        """Return the values of the words and of the empty nodes between them."""
        of_words = zip(self.values, self.lines, strict=True)
        found = [_Value(at, at + 1, text, line) for at, (text, line) in enumerate(of_words)]
        return sorted([*self.empty, *found], key=lambda one: one[:2]) if self.empty else found


class _Row(NamedTuple):
    """The row of a word, of a word in several (`1-2 don't`), or of an empty node (`1.1`).

    Attributes:
        id: As it stands in the file, or the row's place where the file has no such column.
        first: Number of its word, or of the first one.
        last: Number of the last word of a word in several, None for any other row.
        is_empty: Whether it is an empty node.
        form: The word as it is written.
        has_space: Whether a space follows.
        value: What the row says of mentions, "" for nothing.
        line: Number of the line.
    """

    id: str
    first: int
    last: int | None
    is_empty: bool
    form: str
    has_space: bool
    value: str
    line: int


class _Range(NamedTuple):
    """The row of a word in several, such as `1-2 don't`.

    Attributes:
        last: Number of its last word.
        start: The place in `_Words.values` of its first word.
        value: What the row says of mentions, "" for nothing.
        line: Number of the line.
    """

    last: int
    start: int
    value: str
    line: int


class _Found(NamedTuple):
    """The mentions of a sentence, in words of the analysis."""

    spans: list[tags.WordSpan]
    late: int
    unplaced: Mapping[Reason, int]


class _Reader:
    """Makes documents of sentences."""

    def __init__(self, options: Conllu, layout: _Layout, opens_with_i: Callable[[], bool]) -> None:
        self._options = options
        self._layout = layout
        self._ask = opens_with_i
        self._i_opens: bool | None = None

    def document(self, of: _Sentences, doc_id: str, name: str) -> Document:
        """Make a document.

        Raises:
            RecordError: A line is broken.
        """
        text = ""
        words: list[tuple[int, int]] = []
        spans: list[Span] = []
        sentences: list[Sentence] = []
        unplaced: Counter[Reason] = Counter()
        adjusted: Counter[str] = Counter()
        for given in of.sentences:
            if not given.rows:
                continue
            found = self.words(given)
            mentions = self.mentions(found)
            if mentions.late and self._opens_with_i:
                mentions = self.mentions(found, i_opens=True)

            start = len(text) + 1 if text else 0
            bounds = _bounds(found, start)
            text = ("\n" if text else "").join([text, _written(found)])
            sentences.append(Sentence(start, bounds[-1][1]))
            words += bounds
            for first, stop, label in mentions.spans:
                spans.append(
                    Span(
                        bounds[found.row_numbers[first]][0],
                        bounds[found.row_numbers[stop - 1]][1],
                        label,
                    )
                )
                adjusted[WIDENED] += _is_widened(found.row_numbers, first, stop)
            adjusted[LATE] += mentions.late
            unplaced.update(mentions.unplaced)

        return Document(
            id=doc_id,
            text=text,
            spans=tuple(spans),
            sentences=tuple(sentences) or None,
            words=np.array(words, np.int32).reshape(-1, 2),
            unplaced=dict(+unplaced),
            adjusted=dict(+adjusted),
            place=f"{name}:{of.line}",
        )

    def count(self, of: _Sentences) -> int:
        """Count the mentions of a document in the sentences that can be read."""
        count = 0
        for given in of.sentences:
            with suppress(RecordError):
                found = self.mentions(self.words(given)) if given.rows else None
                count += len(found.spans) + sum(found.unplaced.values()) if found else 0
        return count

    @property
    def _opens_with_i(self) -> bool:
        """Return whether a tag I may begin a mention in this file, as in IOB1; found out once."""
        if self._i_opens is None:
            self._i_opens = self._ask()
        return self._i_opens

    def words(self, of: _Sentence) -> _Words:
        """Read the rows of a sentence.

        Raises:
            RecordError: A row is broken.
        """
        found = _Words([], [], [], [], [], [])
        due = -1  # number of the next word; the first may have any
        opened: _Range | None = None  # the word in several whose words are being read
        for position, line in enumerate(of.rows, start=1):
            row = self._row(line, position)
            if row.is_empty:
                if row.value not in _OUTSIDE:
                    at = len(found.values)
                    found.empty.append(_Value(at, at, row.value, row.line))
                continue

            if due < 0:
                due = row.first
            if row.first != due or (opened is not None and row.last is not None):
                raise RecordError(
                    f"expected rows numbered one after the other, the next one {due}, got "
                    f"{row.id}; is a blank line missing?",
                    code="numbers of rows",
                    line=row.line,
                )

            # The words of a word in several are not written themselves.
            if opened is None:
                found.written.append(row.form)
                found.has_space.append(row.has_space)
            if row.last is not None:
                opened = _Range(row.last, len(found.values), row.value, row.line)
                continue

            found.row_numbers.append(len(found.written) - 1)
            found.values.append(row.value)
            found.lines.append(row.line)
            due += 1
            if opened is not None and row.first == opened.last:
                _settle(found, opened)
                opened = None

        if opened is not None:
            raise RecordError(
                "expected the words of each word in several, got fewer", line=opened.line
            )
        if not found.written:
            raise RecordError(
                "expected words in each sentence, got empty nodes alone", line=of.rows[0].number
            )
        return found

    def _row(self, line: NumberedLine, position: int) -> _Row:
        """Return the row that a line holds.

        Args:
            line: The line.
            position: Its place in the sentence, from 1, for files whose rows have no number.

        Raises:
            RecordError: It has too few or too many columns, no number, or no word.
        """
        fields = self._fields(line)
        row_id = fields[self._layout.id] if self._layout.id >= 0 else str(position)
        number = _ROW_ID.fullmatch(row_id)
        form = fields[self._layout.form]
        if number is None or not form.strip():
            raise RecordError(
                "expected a row's number and a word, got another line", line=line.number
            )
        return _Row(
            id=row_id,
            first=int(number["first"]),
            last=int(number["last"]) if number["last"] else None,
            is_empty=number["empty"] is not None,
            form=form,
            has_space="SpaceAfter=No" not in self._misc(fields),
            value=self._value(fields),
            line=line.number,
        )

    def _fields(self, row: NumberedLine) -> list[str]:
        """Return the columns of a row.

        Raises:
            RecordError: There are too few or too many of them.
        """
        fields = decode_utf8(row.data, line=row.number).split("\t")
        if len(fields) != self._layout.width:
            raise RecordError(
                f"expected {self._layout.width} columns between TABs, got {len(fields)}",
                code="columns of a row",
                line=row.number,
            )
        return fields

    def _misc(self, fields: Sequence[str]) -> list[str]:
        return fields[self._layout.misc].split("|") if self._layout.misc >= 0 else []

    def _value(self, fields: Sequence[str]) -> str:
        """Return what a row says about mentions, "" for nothing."""
        value = ""
        if self._layout.tag >= 0:
            value = fields[self._layout.tag]
        elif self._layout.key:
            items = (item.partition("=") for item in self._misc(fields))
            value = next((value for key, _, value in items if key == self._layout.key), "")
        return "" if value in _NOTHING else value

    def mentions(self, of: _Words, *, i_opens: bool = False) -> _Found:
        """Find the mentions of a sentence.

        Raises:
            RecordError: A value is not a tag.
        """
        values = of.in_order()
        texts = [value.text or "O" for value in values]
        if self._options.scheme == "label":
            return _placed(tags.runs(texts, outside="O"), 0, values)
        if any(_BRACKET.search(text) and not tags.is_tag(text) for text in texts):
            return self._brackets(values)

        try:
            spans, late = tags.decode(texts, untyped=self._options.untyped, i_opens=i_opens)
        except ValueError:
            bad = next(at for at, text in enumerate(texts) if not tags.is_tag(text))
            raise RecordError(not_a_tag(self._layout.key), line=values[bad].line) from None
        return _placed(spans, late, values)

    def _brackets(self, values: Sequence[_Value]) -> _Found:
        """Find mentions that are opened by `(id-type` and closed by `id)`."""
        spans: list[tags.WordSpan] = []
        unplaced: Counter[Reason] = Counter()
        opened: dict[str, list[tuple[int, str]]] = {}
        for start, stop, text, _ in values:
            for bracket in _BRACKET.finditer(text):
                fields = (bracket["opened"] or bracket["last"]).split("-")
                if bracket["opened"]:
                    kind = fields[self._layout.kind] if len(fields) > self._layout.kind else ""
                    opened.setdefault(fields[0], []).append((start, kind or self._options.untyped))
                if bracket["opened"] and not bracket["closed"]:
                    continue
                if not opened.get(fields[0]):
                    unplaced[standoff.ONE_END] += 1
                    continue
                first, label = opened[fields[0]].pop()
                if first < stop:
                    spans.append(tags.WordSpan(first, stop, label))
                else:
                    unplaced[standoff.NO_OFFSETS] += 1
        unplaced[standoff.ONE_END] += sum(map(len, opened.values()))
        return _Found(sorted(spans), 0, +unplaced)


def _placed(spans: Sequence[tags.WordSpan], late: int, values: Sequence[_Value]) -> _Found:
    """Turn mentions among values into mentions of words; one of empty nodes alone has no place."""
    of_words = [
        tags.WordSpan(values[span.start].start, values[span.end - 1].stop, span.label)
        for span in spans
    ]
    placed = [span for span in of_words if span.start < span.end]
    num_lost = len(of_words) - len(placed)
    return _Found(placed, late, {standoff.NO_OFFSETS: num_lost} if num_lost else {})


def _settle(words: _Words, opened: _Range) -> None:
    """Make one word of a range's words, the last in `words`, if only the range has an entity.

    The value of the range then keeps its meaning, whether it is a tag, a label or brackets.
    """
    start = opened.start
    values = words.values[start:]
    if opened.value in _OUTSIDE or any(value not in _OUTSIDE for value in values):
        return

    del words.row_numbers[start + 1 :]
    words.values[start:] = [opened.value]
    words.lines[start:] = [opened.line]

    # An empty node between these words comes after the one that they have become.
    words.empty[:] = [
        value._replace(start=min(value.start, start + 1), stop=min(value.stop, start + 1))
        for value in words.empty
    ]


def _keys(data: bytes, misc: int) -> list[str]:
    """Return the keys of MISC in whole lines, each once.

    Args:
        data: UTF-8.
        misc: The number of the column, -1 for none.
    """
    keys = [
        item.partition(b"=")[0]
        for _, line in lines(data)
        if not line.startswith(b"#") and line.count(b"\t") >= misc >= 0
        for item in line.split(b"\t")[misc].split(b"|")
        if b"=" in item
    ]
    return [key.decode("utf-8", "replace") for key in dict.fromkeys(keys)]


def _find_only_tag_key(data: bytes) -> str:
    """Return the one key of MISC whose values are tags of entities, "" for none or several.

    Args:
        data: Whole lines of a file of the usual columns, UTF-8.
    """
    values: dict[str, set[str]] = {}
    for _, line in lines(data):
        fields = line.split(b"\t")
        if line.startswith(b"#") or len(fields) != len(COLUMNS):
            continue
        for item in fields[-1].decode("utf-8", "replace").strip().split("|"):
            key, _, value = item.partition("=")
            values.setdefault(key, set()).add(value)
    found = [
        key
        for key, of_key in values.items()
        if all(map(tags.is_tag, of_key)) and any(len(value) > 1 for value in of_key)
    ]
    return found[0] if len(found) == 1 else ""


@lru_cache(maxsize=64)
def _find_key_in_file(
    path: Path,
    encoding: Encoding,
    misc: int,
    *,
    num_bytes: int,  # noqa: ARG001 - a file that has changed is looked through again
    changed: int,  # noqa: ARG001
) -> str:
    """Return the key of MISC that stands first in `ENTITIES`, "" for none.

    A file is looked through once for all its parts.

    Args:
        path: The file.
        encoding: As of `TextOptions`.
        misc: The number of the column.
        num_bytes: The file's size.
        changed: When the file was changed.

    Raises:
        SourceError: The file cannot be read, or has a line that is too long.
    """
    wanted = [f"{name}=".encode() for name in ENTITIES]
    keys: dict[str, None] = {}
    rest = b""  # the beginning of a line whose end has not been read
    with opened_utf8(path, encoding) as file:
        while piece := file.read(_CHUNK):
            data = rest + piece
            stop = data.rfind(b"\n") + 1
            rest = data[stop:]
            if len(rest) > limits.LARGEST:
                raise SourceError(f"{path.name}: {limits.TOO_LARGE}")

            # Few lines are worth splitting: most chunks do not hold such a word at all.
            lowered = data[:stop].lower()
            if any(key in lowered for key in wanted):
                keys |= dict.fromkeys(_keys(data[:stop], misc))
    return _first_entity_name([*keys, *_keys(rest, misc)])


def _first_entity_name(names: Sequence[str]) -> str:
    """Return the name that stands first in `ENTITIES`, "" for none."""
    known = {name.rpartition(":")[2].casefold(): name for name in reversed(names)}
    return next((known[name] for name in ENTITIES if name in known), "")


def _bounds(words: _Words, start: int) -> list[tuple[int, int]]:
    """Return where the words lie if the sentence begins at character `start`."""
    bounds = []
    for word, has_space in zip(words.written, words.has_space, strict=True):
        bounds.append((start, start + len(word)))
        start += len(word) + has_space
    return bounds


def _written(words: _Words) -> str:
    """Return a sentence as it is written, without a space at its end."""
    pieces = [
        word + " " * has_space
        for word, has_space in zip(words.written, words.has_space, strict=True)
    ]
    return "".join([*pieces[:-1], words.written[-1]])


def _is_widened(row_numbers: Sequence[int], first: int, stop: int) -> bool:
    """Return whether a mention begins or ends within a word as it is written."""
    begins_within = first > 0 and row_numbers[first - 1] == row_numbers[first]
    ends_within = stop < len(row_numbers) and row_numbers[stop] == row_numbers[stop - 1]
    return begins_within or ends_within
