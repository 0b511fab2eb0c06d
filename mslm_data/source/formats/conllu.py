"""Reads CoNLL-U and CoNLL-U Plus, with entities in MISC or in a column of their own.

Words are the written ones, `1-2 don't` is one word: no tokenizer knows `du` as `de le`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta

from mslm_data.data.document import Part
from mslm_data.errors import SourceError
from mslm_data.io import limits
from mslm_data.source import Guess, Sample
from mslm_data.source.form import Findings, FormSource, Lines, Record
from mslm_data.source.reading import marks, standoff, tags
from mslm_data.source.reading.candidates import say_taken
from mslm_data.source.reading.columns import FirstRows
from mslm_data.source.reading.encodings import Encoding, TextSource, opened_utf8
from mslm_data.source.reading.files import NumberedLine, ends_with, lines
from mslm_data.source.reading.records import RecordError, decode_utf8
from mslm_data.source.reading.tagged_lines import not_a_tag
from mslm_data.source.reading.tags import WordSpan

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
_TYPES = ("etype", "entity", "type")
"""Names of an entity's type in `# global.Entity`."""


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

    def find_value(self, fields: Sequence[str]) -> str:
        """Return the value of a row with the mentions of its word, "" for none."""
        value = ""
        if self.tag >= 0:
            value = fields[self.tag]
        elif self.key:
            items = (item.partition("=") for item in self.split_misc(fields))
            value = next((value for key, _, value in items if key == self.key), "")
        return "" if value in _NOTHING else value

    def split_misc(self, fields: Sequence[str]) -> list[str]:
        """Return the items of a row's column MISC."""
        return fields[self.misc].split("|") if self.misc >= 0 else []


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


class _Document(NamedTuple):
    """The sentences of a document.

    Attributes:
        id: Id of the document, "" if it has none.
        layout: Columns of the file.
        sentences: Rows of each sentence.
    """

    id: str
    layout: _Layout
    sentences: list[list[NumberedLine]]


class _Documents(Lines["Conllu"]):
    """A record for each document, or for each sentence in files without marks: a `_Document`."""

    def group(
        self, options: Conllu, path: Path, lines: Iterator[NumberedLine], /
    ) -> Iterator[tuple[int, _Document]]:
        layout = options.find_layout(path)
        sentences = list(_group_rows(lines, layout))
        if all(sentence.opens is None for sentence in sentences):
            for sentence in sentences:
                yield sentence.line, _Document(sentence.id, layout, [sentence.rows])
            return

        # Sentences before the first mark are a document too.
        starts = [n for n, sentence in enumerate(sentences) if n == 0 or sentence.opens is not None]
        for start, stop in itertools.pairwise([*starts, len(sentences)]):
            first = sentences[start]
            rows = [sentence.rows for sentence in sentences[start:stop] if sentence.rows]
            yield first.line, _Document(first.opens or "", layout, rows)

    def divide(self, options: Conllu, part: Part, /, *, target_bytes: int) -> Iterator[Part]:
        layout = options.find_layout(Path(part.path))
        return marks.cut(part, target_bytes=target_bytes, is_comment=layout.is_comment)


def _group_rows(lines: Iterable[NumberedLine], layout: _Layout) -> Iterator[_Sentence]:
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
        glued: Indices in `written` of words that no space follows.
        row_numbers: `[A]`, index in `written` of each word of the analysis.
        values: Values of the words of the analysis, and of empty nodes that have one, in order.
    """

    written: list[str]
    glued: list[int]
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
        is_glued: Whether no space follows.
        value: Value with the mentions of the word or token, "" for none.
        line: Line number.
    """

    id: str
    first: int
    last: int | None
    is_empty: bool
    form: str
    is_glued: bool
    value: str
    line: int


class Conllu(FormSource, TextSource, frozen=True, kw_only=True):
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
    container = _Documents()

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

    def sniff(self, sample: Sample) -> Guess:
        """Recognise CoNLL-U; see `Source.sniff`.

        Files with another suffix must have entities, because tables with ten columns may have them
        elsewhere.
        """
        if sample.head.startswith(b"# global.columns"):
            return Guess("its first line is # global.columns")
        if not _FIRST_ROW.search(sample.head):
            return Guess()
        head = sample.head[: sample.head.rfind(b"\n") + 1]
        if ends_with(sample.path, self.suffixes):
            # The last column may be replaced by tags, as in CoNLL.
            has_tags = FirstRows.from_bytes(head).column(len(COLUMNS) - 1).has_tags
            return Guess("" if has_tags else "its lines have the ten columns of CoNLL-U")
        values = _read_misc(head, len(COLUMNS) - 1)
        key = _first_entity_name([*values]) or _find_only_tag_key(values)
        why = "its lines have the ten columns of CoNLL-U, with entities in MISC"
        return Guess(why if key else "")

    def understand(self, record: Record, found: Findings) -> None:
        """Read the sentences of a document."""
        document: _Document = record.content
        found.id = document.id or record.id
        found.words = []
        num_words = 0
        problem: RecordError | None = None
        for rows in document.sentences:
            try:
                words = _read_words(rows, document.layout)
                spans = self._find_mentions(words.values, document.layout, found)
            except RecordError as error:
                # Read on, to count the mentions that are lost.
                problem = problem or error
                continue

            numbers = words.row_numbers
            for first, stop, label in spans:
                span = WordSpan(numbers[first], numbers[stop - 1] + 1, label)
                found.spans.append(span.shifted(num_words))
                if _is_widened(numbers, first, stop):
                    found.adjusted[WIDENED] += 1
            found.words.append(words.written)
            found.glued.update(num_words + number for number in words.glued)
            num_words += len(words.written)
        if problem is not None:
            found.lost = len(found.spans) + found.left_out.total()
            raise problem

    def _find_mentions(
        self, values: Sequence[_Value], layout: _Layout, found: Findings
    ) -> list[WordSpan]:
        """Find the mentions of a sentence, in words of the analysis. Counts those without a place.

        Raises:
            RecordError: A value is not a tag.
        """
        texts = [value.text or "O" for value in values]
        if self.scheme == "label":
            return _place(tags.runs(texts, outside="O"), values, found)

        # Brackets are recognised by content: a file may use them in any key.
        if any(_BRACKET.search(text) and not tags.is_tag(text) for text in texts):
            return self._find_brackets(values, layout, found)

        try:
            spans = found.decode(texts, untyped=self.untyped)
        except ValueError:
            bad = next(at for at, text in enumerate(texts) if not tags.is_tag(text))
            raise RecordError(not_a_tag(layout.key), line=values[bad].line) from None
        return _place(spans, values, found)

    def _find_brackets(
        self, values: Sequence[_Value], layout: _Layout, found: Findings
    ) -> list[WordSpan]:
        """Find mentions opened by `(id-type` and closed by `id)`."""
        spans: list[WordSpan] = []
        opened: dict[str, list[tuple[int, str]]] = {}  # id -> starts and labels, innermost last
        for start, stop, text, _ in values:
            for bracket in _BRACKET.finditer(text):
                fields = (bracket["opened"] or bracket["last"]).split("-")
                if bracket["opened"]:
                    kind = fields[layout.kind] if len(fields) > layout.kind else ""
                    opened.setdefault(fields[0], []).append((start, kind or self.untyped))
                if bracket["opened"] and not bracket["closed"]:
                    continue
                if not opened.get(fields[0]):
                    found.left_out[standoff.ONE_END] += 1
                    continue
                first, label = opened[fields[0]].pop()
                if first < stop:
                    spans.append(WordSpan(first, stop, label))
                else:
                    found.left_out[standoff.NO_OFFSETS] += 1
        if num_open := sum(map(len, opened.values())):
            found.left_out[standoff.ONE_END] += num_open
        return sorted(spans)

    def settle(self, paths: Sequence[Path]) -> Mapping[str, Any]:
        """Choose the only key of MISC with tags if no file has a known name; see `Source.settle`.

        Raises:
            SourceError: A file cannot be read, or has no column FORM.
        """
        if self.tag_column:
            return {}
        keys: dict[str, None] = {}
        for path in paths:
            layout = self.find_layout(path)
            if layout.key:
                return {}
            if layout.width == len(COLUMNS):
                key = _find_only_tag_key(_read_misc(self.beginning(path, _HEAD_BYTES), layout.misc))
                keys |= {key: None} if key else {}
        if len(keys) != 1:
            return {}
        chosen = {"tag_column": next(iter(keys))}
        say_taken(chosen)
        return chosen

    def list_columns(self, path: Path) -> list[str]:
        """Return the keys in a file's column MISC; see `Source.list_columns`."""
        return [*_read_misc(self.beginning(path, _HEAD_BYTES), self.find_layout(path).misc)]

    def find_layout(self, path: Path) -> _Layout:
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
        key = self.tag_column or _first_entity_name([*names, *_read_misc(beginning, misc)])
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


def _read_words(rows: Sequence[NumberedLine], layout: _Layout) -> _Words:
    """Read the rows of a sentence.

    Raises:
        RecordError: A row is malformed.
    """
    words = _Words([], [], [], [])
    expected = -1  # number of the next word; the first may have any number
    token: _Row | None = None  # the multi-word token whose words are being read
    token_start = 0  # its first word in the analysis
    token_values = 0  # number of values before its own
    for position, line in enumerate(rows, start=1):
        row = _read_row(line, position, layout)
        if row.is_empty:
            if row.value not in _OUTSIDE:
                at = len(words.row_numbers)
                words.values.append(_Value(at, at, row.value, row.line))
            continue

        if expected < 0:
            expected = row.first
        if row.first != expected or (token is not None and row.last is not None):
            raise RecordError(
                f"expected rows with consecutive numbers, the next {expected}, got {row.id}; "
                "is a blank line missing?",
                code="numbers of rows",
                line=row.line,
            )

        # Words of a multi-word token have no surface form of their own.
        if token is None:
            if row.is_glued:
                words.glued.append(len(words.written))
            words.written.append(row.form)
        if row.last is not None:
            token = row
            token_start = len(words.row_numbers)
            token_values = len(words.values)
            continue

        at = len(words.row_numbers)
        words.row_numbers.append(len(words.written) - 1)
        words.values.append(_Value(at, at + 1, row.value, row.line))
        expected += 1
        if token is not None and row.first == token.last:
            _merge_token(words, token, start=token_start, past=token_values)
            token = None

    if token is not None:
        raise RecordError("expected all words of a multi-word token, got fewer", line=token.line)
    if not words.written:
        raise RecordError(
            "expected words in each sentence, got only empty nodes", line=rows[0].number
        )
    return words


def _read_row(line: NumberedLine, position: int, layout: _Layout) -> _Row:
    """Read the row in a line.

    Args:
        line: The line.
        position: Position of the row in the sentence, from 1, for files without numbers.
        layout: Columns of the file.

    Raises:
        RecordError: The number of columns is wrong, or the row has no number or no word.
    """
    fields = decode_utf8(line.data, line=line.number).split("\t")
    if len(fields) != layout.width:
        raise RecordError(
            f"expected {layout.width} columns between TABs, got {len(fields)}",
            code="columns of a row",
            line=line.number,
        )

    row_id = fields[layout.id] if layout.id >= 0 else str(position)
    number = _ROW_ID.fullmatch(row_id)
    form = fields[layout.form]
    if number is None or not form.strip():
        raise RecordError("expected a row's number and a word, got another line", line=line.number)
    return _Row(
        id=row_id,
        first=int(number["first"]),
        last=int(number["last"]) if number["last"] else None,
        is_empty=number["empty"] is not None,
        form=form,
        is_glued="SpaceAfter=No" in layout.split_misc(fields),
        value=layout.find_value(fields),
        line=line.number,
    )


def _merge_token(words: _Words, token: _Row, *, start: int, past: int) -> None:
    """Merge the words of a multi-word token, the last in `words`, if only its row has an entity.

    The value of the token keeps its meaning, whether it is a tag, a label or brackets.

    Args:
        words: Words of the sentence up to the token's last.
        token: Row of the token.
        start: First word of the token in the analysis.
        past: Number of values before those of the token.
    """
    values = words.values[past:]
    has_own = any(value.text not in _OUTSIDE for value in values if value.start < value.stop)
    if token.value in _OUTSIDE or has_own:
        return

    # An empty node between the merged words comes after the token.
    empty = [value for value in values if value.start == value.stop]
    before = [value for value in empty if value.start == start]
    after = [value._replace(start=start + 1, stop=start + 1) for value in empty[len(before) :]]
    del words.row_numbers[start + 1 :]
    merged = _Value(start, start + 1, token.value, token.line)
    words.values[past:] = [*before, merged, *after]


def _place(spans: Sequence[WordSpan], values: Sequence[_Value], found: Findings) -> list[WordSpan]:
    """Convert mentions of values to mentions of words. Empty nodes alone have no place."""
    placed = []
    for first, stop, label in spans:
        span = WordSpan(values[first].start, values[stop - 1].stop, label)
        if span.start < span.end:
            placed.append(span)
        else:
            found.left_out[standoff.NO_OFFSETS] += 1
    return placed


def _read_misc(data: bytes, misc: int) -> dict[str, set[str]]:
    """Return the keys of MISC in whole lines, each with its values.

    Args:
        data: UTF-8.
        misc: Number of the column, -1 if there is none.
    """
    values: dict[str, set[str]] = {}
    for _, line in lines(data):
        if line.startswith(b"#") or not line.count(b"\t") >= misc >= 0:
            continue
        for item in line.split(b"\t")[misc].decode("utf-8", "replace").split("|"):
            key, equals, value = item.partition("=")
            if equals:
                values.setdefault(key, set()).add(value.strip())
    return values


def _find_only_tag_key(values: Mapping[str, set[str]]) -> str:
    """Return the only key of MISC whose values are entity tags, "" if there is none or several."""
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
                keys |= dict.fromkeys(_read_misc(data[:stop], misc))
    return _first_entity_name([*keys, *_read_misc(partial, misc)])


def _first_entity_name(names: Sequence[str]) -> str:
    """Return the name that comes first in `ENTITIES`, "" if there is none."""
    known = {name.rpartition(":")[2].casefold(): name for name in reversed(names)}
    return next((known[name] for name in ENTITIES if name in known), "")


def _is_widened(row_numbers: Sequence[int], first: int, stop: int) -> bool:
    """Return whether a mention begins or ends within a surface word."""
    begins_within = first > 0 and row_numbers[first - 1] == row_numbers[first]
    ends_within = stop < len(row_numbers) and row_numbers[stop] == row_numbers[stop - 1]
    return begins_within or ends_within
