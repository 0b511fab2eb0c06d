"""Reads CoNLL-U and CoNLL-U Plus, with entities in MISC or in a column of their own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from msgspec import Meta

from mslm_data.data.document import Document, Part, Sentence, SetAside, Span
from mslm_data.data.reason import Reason
from mslm_data.errors import SourceError
from mslm_data.io import limits
from mslm_data.source.reading import marks, standoff, tags
from mslm_data.source.reading.candidates import say_taken
from mslm_data.source.reading.encodings import Encoding, TextSource, opened_utf8
from mslm_data.source.reading.files import NumberedLine, ends_with, lines, stem
from mslm_data.source.reading.records import RecordError, decode_utf8
from mslm_data.source.reading.tagged_lines import not_a_tag
from mslm_data.source.reading.word_documents import LATE

COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
"""Columns of a file without `# global.columns`."""
ENTITIES = ("ner", "bio", "iob", "ne", "entity", "entities")
"""Names of entity columns and of entity keys in MISC, in order of preference.

They match in any case, and after any prefix such as `GUM:`.
"""

WIDENED = "widened to whole words"
"""Reason in `Document.adjusted`: a mention covers only a part of a multi-word token."""

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


class Conllu(TextSource, frozen=True, kw_only=True):
    """Files of CoNLL-U (ten columns) and CoNLL-U Plus (`# global.columns = …`).

    `# newdoc` opens a document, with its id or else `file:ordinal`. In files without it each
    sentence is a document, with its `sent_id` or else `file:number`.

    The text is rebuilt from surface words: multi-word tokens (`1-2 don't`) instead of their words,
    no empty nodes (`1.1`), and a space between words unless the first has `SpaceAfter=No`. A
    mention of a part of a multi-word token is widened to the token and counted in
    `Document.adjusted`. If only the row of a multi-word token has an entity, as Stanza writes it,
    the entity covers the token.

    Entities are tags (`NER=B-PER`), labels, or brackets as in CorefUD (`Entity=(e1-person`).
    Brackets may overlap, and each part of a discontinuous entity is a mention. Entities without
    words, or without a beginning or an end, count as unplaced. The type in a bracket is the field
    that `# global.Entity` calls `etype`, or else the second field.

    A document with a malformed line is set aside, and so is a document with a sentence whose rows
    are not numbered consecutively, such as when a blank line between sentences is missing.
    """

    suffixes = (".conllu", ".conllup")
    by_content = True
    columns_noun = "the keys of MISC"

    tag_column: Annotated[
        str,
        Meta(
            description="Column or key of MISC with entities. By default the first of `ner`, "
            "`bio`, `iob`, `ne`, `entity` and `entities` at the file's beginning, or else in the "
            "whole file. If no file has one, the only key of MISC with tags is used."
        ),
    ] = ""
    untyped: Annotated[str, Meta(description="Label of entities without a type.")] = "Entity"
    scheme: Annotated[
        Literal["auto", "label"],
        Meta(
            description='"auto" for tags and brackets; "label" for labels without prefixes, of '
            "which equal neighbours form one mention."
        ),
    ] = "auto"

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> str:
        """Return the evidence for CoNLL-U; see `Source.recognises`.

        Files with another suffix must have entities, because tables with ten columns may have them
        elsewhere.
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
        """Cut a file at document marks if it has any, else between sentences; see `Source.cut`."""
        if not self.may_be_cut(part, target_bytes=target_bytes):
            return iter([part])
        layout = self._layout(Path(part.path))
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
        reader = _Reader(
            self,
            layout,
            beginning=lambda: _sentences(lines(self.beginning(path, _SCHEME_BYTES)), layout),
        )
        for number, document in enumerate(_documents(sentences), start=part.first):
            doc_id = document.id or f"{stem(path)}:{number}"
            try:
                yield reader.document(document, doc_id, path.name)
            except RecordError as error:
                place = f"{path.name}:{error.line or document.line}"
                yield SetAside(doc_id, place, error.reason, reader.count(document))

    def settle(self, paths: Sequence[Path]) -> Mapping[str, Any]:
        """Choose the only key of MISC with tags if no file has a known name; see `Source.settle`.

        Raises:
            SourceError: A file cannot be read, or has no column FORM.
        """
        if self.tag_column:
            return {}
        keys: dict[str, None] = {}
        for path in paths:
            layout = self._layout(path)
            if layout.key:
                return {}
            if layout.width == len(COLUMNS):
                key = _find_only_tag_key(self.beginning(path, _HEAD_BYTES))
                keys |= {key: None} if key else {}
        if len(keys) != 1:
            return {}
        chosen = {"tag_column": next(iter(keys))}
        say_taken(chosen)
        return chosen

    def list_columns(self, path: Path) -> list[str]:
        """Return the keys in a file's column MISC; see `Source.list_columns`."""
        return _keys(self.beginning(path, _HEAD_BYTES), self._layout(path).misc)

    def _layout(self, path: Path) -> _Layout:
        """Find the columns of a file from its beginning, so that all parts use the same columns."""
        beginning = self.beginning(path, _HEAD_BYTES)
        head = beginning.decode("utf-8", "replace")
        header = _GLOBAL_COLUMNS.search(head)
        names = header[1].split() if header else [*COLUMNS]
        if "FORM" not in names:
            raise SourceError(
                f"{path.name}:1: expected the column FORM in # global.columns, found none; is "
                "this CoNLL-U?"
            )

        entity_header = _GLOBAL_ENTITY.search(head)
        fields = entity_header[1].strip().split("-") if entity_header else []
        kinds = [number for number, name in enumerate(fields) if name in _TYPES]
        misc = names.index("MISC") if "MISC" in names else -1
        key = self.tag_column or _first_entity_name([*names, *_keys(beginning, misc)])
        if not key and misc >= 0:
            # The first sentences with entities may come after many without any.
            status = path.stat()
            key = _find_key_in_file(
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
            tag=names.index(key) if key in names else -1,
            key=key,
            width=len(names),
            kind=kinds[0] if kinds else 1,
        )


class _Layout(NamedTuple):
    """The column numbers of a file, -1 for a missing column.

    Attributes:
        id: Column of the row's number.
        form: Column of the word.
        misc: Column of further keys.
        tag: Column of the entities, -1 if they are in `misc`.
        key: Key of the entities in `misc`, "" if there are none.
        width: Number of columns.
        kind: Index of the type among the fields of a bracket.
    """

    id: int
    form: int
    misc: int
    tag: int
    key: str
    width: int
    kind: int

    def is_row(self, line: bytes) -> bool:
        """Return whether a line that begins with `#` is the row of a word that does.

        Rows that begin with their number never are.
        """
        return self.id != 0 and line.count(b"\t") == self.width - 1

    def is_comment(self, line: bytes) -> bool:
        """Return whether a line that begins with `#` is neither a row nor a document mark."""
        return not self.is_row(line) and not marks.MARK.match(line.decode("utf-8", "replace"))


@dataclass(slots=True)
class _Sentence:
    """The lines of a sentence.

    Attributes:
        rows: Lines that are not comments.
        opens: Id of the document that begins with this sentence, "" without an id; None if no
            document begins.
        id: Id of the sentence, "" if it has none.
        line: Line number of the document's mark, or else of the first row.
    """

    rows: list[NumberedLine] = field(default_factory=list)
    opens: str | None = None
    id: str = ""
    line: int = 0


class _Sentences(NamedTuple):
    """The sentences of a document. Each has rows."""

    id: str
    line: int
    sentences: list[_Sentence]


def _sentences(lines: Iterable[NumberedLine], layout: _Layout) -> Iterator[_Sentence]:
    """Group lines into sentences. A document without words gives a sentence without rows."""
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
            match = _SENTENCE_ID.match(text)
            if match and match[1].isprintable():
                sentence.id = match[1]
        elif line.data.strip():
            sentence.line = sentence.line or line.number
            sentence.rows.append(line)
        elif sentence.rows:
            yield sentence
            sentence = _Sentence()
        else:
            # Comments before a blank line do not belong to the next rows: the file may be cut here.
            sentence.id = ""
    if sentence.rows or sentence.opens is not None:
        yield sentence


def _documents(sentences: Iterable[_Sentence]) -> Iterator[_Sentences]:
    """Group sentences into documents: at marks, or one by one if there are no marks."""
    listed = list(sentences)
    if all(sentence.opens is None for sentence in listed):
        for sentence in listed:
            yield _Sentences(sentence.id, sentence.line, [sentence])
        return

    document: list[_Sentence] = []
    for sentence in listed:
        if document and sentence.opens is not None:
            yield _marked(document)
            document = []
        document.append(sentence)
    yield _marked(document)


def _marked(document: list[_Sentence]) -> _Sentences:
    """Make a document of the sentences from a mark to the next. It may have no words."""
    first = document[0]
    return _Sentences(first.opens or "", first.line, [each for each in document if each.rows])


class _Value(NamedTuple):
    """The value of a row, which gives the mentions of its word.

    Attributes:
        start: Index of the word in the analysis; for an empty node, of the next word.
        stop: `start` + 1; for an empty node, `start`.
        text: The value, "" for none.
        line: Line number.
    """

    start: int
    stop: int
    text: str
    line: int


class _Words(NamedTuple):
    """The words of a sentence: W surface words and A words of the analysis.

    A multi-word token is one word of the analysis if only its own row has a value.

    Attributes:
        written: `[W]`, surface words.
        has_space: `[W]`, whether a space follows the word.
        row_numbers: `[A]`, index in `written` of each word of the analysis.
        values: Values of the words of the analysis, and of empty nodes that have one, in order.
    """

    written: list[str]
    has_space: list[bool]
    row_numbers: list[int]
    values: list[_Value]


class _Row(NamedTuple):
    """The row of a word, of a multi-word token (`1-2 don't`), or of an empty node (`1.1`).

    Attributes:
        id: Id in the file, or position of the row in files without ids.
        first: Number of the word, or of the first word of a multi-word token.
        last: Number of the last word of a multi-word token, else None.
        is_empty: Whether it is an empty node.
        form: Surface form.
        has_space: Whether a space follows.
        value: Value with the mentions of the word, "" for none.
        line: Line number.
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
    """The row of a multi-word token, such as `1-2 don't`.

    Attributes:
        last: Number of its last word.
        start: Index of its first word in the analysis.
        past: Number of values before its own.
        value: Value with the mentions of the token, "" for none.
        line: Line number.
    """

    last: int
    start: int
    past: int
    value: str
    line: int


class _Mentions(NamedTuple):
    """The mentions of a sentence, in words of the analysis."""

    spans: list[tags.WordSpan]
    late: int
    unplaced: Mapping[Reason, int]


class _Reader:
    """Makes documents of sentences."""

    def __init__(
        self, options: Conllu, layout: _Layout, *, beginning: Callable[[], Iterable[_Sentence]]
    ) -> None:
        """Read sentences of a file.

        Args:
            options: Options of the source.
            layout: Columns of the file.
            beginning: Function that returns the file's first sentences.
        """
        self._options = options
        self._layout = layout
        self._beginning = beginning

    def document(self, group: _Sentences, doc_id: str, name: str) -> Document:
        """Make a document from its sentences.

        Raises:
            RecordError: A line is malformed.
        """
        pieces: list[str] = []
        start = 0
        words: list[tuple[int, int]] = []
        spans: list[Span] = []
        sentences: list[Sentence] = []
        unplaced: Counter[Reason] = Counter()
        adjusted: Counter[str] = Counter()
        for sentence in group.sentences:
            sentence_words = self.words(sentence)
            mentions = self.mentions(sentence_words)
            if mentions.late and self._opens_with_i:
                mentions = self.mentions(sentence_words, i_opens=True)

            bounds = _bounds(sentence_words, start)
            pieces.append(_written(sentence_words))
            sentences.append(Sentence(start, bounds[-1][1]))
            start = bounds[-1][1] + 1  # sentences are separated by one newline
            row_numbers = sentence_words.row_numbers
            words += bounds
            for first, stop, label in mentions.spans:
                spans.append(
                    Span(bounds[row_numbers[first]][0], bounds[row_numbers[stop - 1]][1], label)
                )
                adjusted[WIDENED] += _is_widened(row_numbers, first, stop)
            adjusted[LATE] += mentions.late
            unplaced.update(mentions.unplaced)

        return Document(
            id=doc_id,
            text="\n".join(pieces),
            spans=tuple(spans),
            sentences=tuple(sentences) or None,
            words=np.array(words, np.int32).reshape(-1, 2),
            unplaced=dict(+unplaced),
            adjusted=dict(+adjusted),
            place=f"{name}:{group.line}",
        )

    def count(self, group: _Sentences) -> int:
        """Count the mentions of a document in the sentences that can be read."""
        count = 0
        for sentence in group.sentences:
            with suppress(RecordError):
                mentions = self.mentions(self.words(sentence))
                count += len(mentions.spans) + sum(mentions.unplaced.values())
        return count

    @cached_property
    def _opens_with_i(self) -> bool:
        """Whether this file is in IOB1, the scheme in which an I tag may begin a mention.

        Decided from the readable sentences at the file's beginning; see `tags.opens_with_i`.
        """
        num_mentions = num_late = 0
        for document in _documents(self._beginning()):
            for sentence in document.sentences:
                with suppress(RecordError):
                    mentions = self.mentions(self.words(sentence))
                    num_mentions += len(mentions.spans)
                    num_late += mentions.late
        return tags.opens_with_i(mentions=num_mentions, late=num_late)

    def words(self, sentence: _Sentence) -> _Words:
        """Read the rows of a sentence.

        Raises:
            RecordError: A row is malformed.
        """
        words = _Words([], [], [], [])
        expected = -1  # number of the next word; the first may have any number
        opened: _Range | None = None  # the multi-word token whose words are being read
        for position, line in enumerate(sentence.rows, start=1):
            row = self._row(line, position)
            if row.is_empty:
                if row.value not in _OUTSIDE:
                    at = len(words.row_numbers)
                    words.values.append(_Value(at, at, row.value, row.line))
                continue

            if expected < 0:
                expected = row.first
            if row.first != expected or (opened is not None and row.last is not None):
                raise RecordError(
                    f"expected rows with consecutive numbers, the next {expected}, got {row.id}; "
                    "is a blank line missing?",
                    code="numbers of rows",
                    line=row.line,
                )

            # Words of a multi-word token have no surface form of their own.
            if opened is None:
                words.written.append(row.form)
                words.has_space.append(row.has_space)
            if row.last is not None:
                start = len(words.row_numbers)
                opened = _Range(row.last, start, len(words.values), row.value, row.line)
                continue

            at = len(words.row_numbers)
            words.row_numbers.append(len(words.written) - 1)
            words.values.append(_Value(at, at + 1, row.value, row.line))
            expected += 1
            if opened is not None and row.first == opened.last:
                _settle(words, opened)
                opened = None

        if opened is not None:
            raise RecordError(
                "expected all words of a multi-word token, got fewer", line=opened.line
            )
        if not words.written:
            raise RecordError(
                "expected words in each sentence, got only empty nodes",
                line=sentence.rows[0].number,
            )
        return words

    def _row(self, line: NumberedLine, position: int) -> _Row:
        """Read the row in a line.

        Args:
            line: The line.
            position: Position of the row in the sentence, from 1, for files without numbers.

        Raises:
            RecordError: The number of columns is wrong, or the row has no number or no word.
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
        """Split a row into columns.

        Raises:
            RecordError: The number of columns is wrong.
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
        """Return the value of a row with the mentions of its word, "" for none."""
        value = ""
        if self._layout.tag >= 0:
            value = fields[self._layout.tag]
        elif self._layout.key:
            items = (item.partition("=") for item in self._misc(fields))
            value = next((value for key, _, value in items if key == self._layout.key), "")
        return "" if value in _NOTHING else value

    def mentions(self, words: _Words, *, i_opens: bool = False) -> _Mentions:
        """Find the mentions of a sentence.

        Raises:
            RecordError: A value is not a tag.
        """
        values = words.values
        texts = [value.text or "O" for value in values]
        if self._options.scheme == "label":
            return _placed(tags.runs(texts, outside="O"), 0, values)

        # Brackets are recognised by content: a file may use them in any key.
        if any(_BRACKET.search(text) and not tags.is_tag(text) for text in texts):
            return self._brackets(values)

        try:
            spans, late = tags.decode(texts, untyped=self._options.untyped, i_opens=i_opens)
        except ValueError:
            bad = next(at for at, text in enumerate(texts) if not tags.is_tag(text))
            raise RecordError(not_a_tag(self._layout.key), line=values[bad].line) from None
        return _placed(spans, late, values)

    def _brackets(self, values: Sequence[_Value]) -> _Mentions:
        """Find mentions opened by `(id-type` and closed by `id)`."""
        spans: list[tags.WordSpan] = []
        unplaced: Counter[Reason] = Counter()
        opened: dict[str, list[tuple[int, str]]] = {}  # id -> starts and labels, innermost last
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
        return _Mentions(sorted(spans), 0, +unplaced)


def _placed(spans: Sequence[tags.WordSpan], late: int, values: Sequence[_Value]) -> _Mentions:
    """Convert mentions of values to mentions of words. Empty nodes alone have no place."""
    word_spans = [
        tags.WordSpan(values[span.start].start, values[span.end - 1].stop, span.label)
        for span in spans
    ]
    placed = [span for span in word_spans if span.start < span.end]
    num_lost = len(word_spans) - len(placed)
    return _Mentions(placed, late, {standoff.NO_OFFSETS: num_lost} if num_lost else {})


def _settle(words: _Words, opened: _Range) -> None:
    """Merge the words of a multi-word token, the last in `words`, if only its row has an entity.

    The value of the token keeps its meaning, whether it is a tag, a label or brackets.
    """
    values = words.values[opened.past :]
    has_own = any(value.text not in _OUTSIDE for value in values if value.start < value.stop)
    if opened.value in _OUTSIDE or has_own:
        return

    # An empty node between the merged words comes after the token.
    start = opened.start
    empty = [value for value in values if value.start == value.stop]
    before = [value for value in empty if value.start == start]
    after = [value._replace(start=start + 1, stop=start + 1) for value in empty[len(before) :]]
    del words.row_numbers[start + 1 :]
    token = _Value(start, start + 1, opened.value, opened.line)
    words.values[opened.past :] = [*before, token, *after]


def _keys(data: bytes, misc: int) -> list[str]:
    """Return the distinct keys of MISC in whole lines.

    Args:
        data: UTF-8.
        misc: Number of the column, -1 if there is none.
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
    """Return the only key of MISC whose values are entity tags, "" if there is none or several.

    Args:
        data: Whole lines of a file with the ten columns, UTF-8.
    """
    values: dict[str, set[str]] = {}
    for _, line in lines(data):
        fields = line.split(b"\t")
        if line.startswith(b"#") or len(fields) != len(COLUMNS):
            continue
        for item in fields[-1].decode("utf-8", "replace").strip().split("|"):
            key, _, value = item.partition("=")
            values.setdefault(key, set()).add(value)
    keys = [
        key
        for key, key_values in values.items()
        if all(map(tags.is_tag, key_values)) and any(len(value) > 1 for value in key_values)
    ]
    return keys[0] if len(keys) == 1 else ""


@lru_cache(maxsize=64)
def _find_key_in_file(
    path: Path,
    encoding: Encoding,
    misc: int,
    *,
    num_bytes: int,  # noqa: ARG001 - in the cache key, so that a changed file is read again
    changed: int,  # noqa: ARG001
) -> str:
    """Return the key of MISC that comes first in `ENTITIES`, "" if there is none.

    Cached, so that a file is searched once for all its parts.

    Args:
        path: The file.
        encoding: Encoding of the file.
        misc: Number of the column.
        num_bytes: Size of the file.
        changed: Time of the file's last change.

    Raises:
        SourceError: The file cannot be read, or has a line that is too long.
    """
    needles = [f"{name}=".encode() for name in ENTITIES]
    keys: dict[str, None] = {}
    partial = b""  # beginning of a line that continues in the next chunk
    with opened_utf8(path, encoding) as file:
        while piece := file.read(_CHUNK):
            data = partial + piece
            stop = data.rfind(b"\n") + 1
            partial = data[stop:]
            if len(partial) > limits.LARGEST:
                raise SourceError(f"{path.name}: {limits.TOO_LARGE}")

            # Splitting lines is slow, and most chunks contain no such key.
            lowered = data[:stop].lower()
            if any(needle in lowered for needle in needles):
                keys |= dict.fromkeys(_keys(data[:stop], misc))
    return _first_entity_name([*keys, *_keys(partial, misc)])


def _first_entity_name(names: Sequence[str]) -> str:
    """Return the name that comes first in `ENTITIES`, "" if there is none."""
    known = {name.rpartition(":")[2].casefold(): name for name in reversed(names)}
    return next((known[name] for name in ENTITIES if name in known), "")


def _bounds(words: _Words, start: int) -> list[tuple[int, int]]:
    """Return the character ranges of the words of a sentence that begins at `start`."""
    bounds = []
    for word, has_space in zip(words.written, words.has_space, strict=True):
        bounds.append((start, start + len(word)))
        start += len(word) + has_space
    return bounds


def _written(words: _Words) -> str:
    """Return the text of a sentence, without a space at its end."""
    pieces = [
        word + " " * has_space
        for word, has_space in zip(words.written, words.has_space, strict=True)
    ]
    return "".join([*pieces[:-1], words.written[-1]])


def _is_widened(row_numbers: Sequence[int], first: int, stop: int) -> bool:
    """Return whether a mention begins or ends within a surface word."""
    begins_within = first > 0 and row_numbers[first - 1] == row_numbers[first]
    ends_within = stop < len(row_numbers) and row_numbers[stop] == row_numbers[stop - 1]
    return begins_within or ends_within
