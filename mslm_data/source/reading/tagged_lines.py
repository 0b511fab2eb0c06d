"""Reads lines of columns, a word and its tag in each, into arrays of words, tags and sentences.

Any dialect of CoNLL files is read: columns between TABs or spaces, the tag in any of them, blank
lines between sentences. `kernels.lines.scan_lines` does the work; this module prepares its arrays,
and looks again, slowly, at lines that it found broken.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from mslm_data.data.reason import Reason
from mslm_data.kernels.lines import NEWLINE, scan_lines
from mslm_data.source.reading import tags
from mslm_data.source.reading.cells import can_be_shown
from mslm_data.source.reading.comments import CERTAIN, LIKELY
from mslm_data.source.reading.files import plain_lines
from mslm_data.source.reading.marks import BLANKS, MARK
from mslm_data.source.reading.records import NOT_UTF8, RecordError
from mslm_data.source.reading.tags import Ints

_NAME_THE_TAGS = {"tag_column": "say which column has the tags with source.tag_column"}


def not_a_tag(column: str | int) -> Reason:
    """Return why a sentence with a word in place of a tag is set aside."""
    return Reason(
        f"expected a tag in column {column}, got another word; where the tags are labels without "
        'B- and I-, set [source] scheme = "label"',
        advice=_NAME_THE_TAGS,
    )


HEAD_BYTES = 64 << 10
HEAD_LINES = 1000
"""How much of a file's beginning decides where its columns are."""

_DAMAGED = "\udcff"
"""Stands for a line that is not UTF-8. A lone surrogate cannot come from any line that is."""
_DAMAGED_LINE = re.compile(rf"^(?!{MARK.pattern}).*[\udc80-\udcff].*$", re.MULTILINE)
CHUNKS = frozenset(re.findall(r"\w+", "ADJP ADVP CONJP INTJ LST NC NP PC PP PRT SBAR UCP VC VP"))
"""Labels of chunks, in CoNLL-2000 and the German part of CoNLL-2003."""
_NOT_ALL_NUMBERS = 20
"""So many words of a text are never all without a letter."""
_FEWEST_STEPS = 2
"""Rows that must go on counting in a column of numbers."""
_FEW_COLUMNS = 4
"""Columns of a word with its part of speech, chunk and tag; the first may be a number."""
_MOST_OF = 0.9
"""Share of the rows that must; others may be words in several pieces, or broken."""
_MOST_DIGITS = 9
_HEADER = frozenset({"token", "tokens", "word", "words", "form"})
"""Names of the column of words, in any case, by which a row of names is known."""
_PREFIX = re.compile(r"[a-z]{2,3}(?:-[a-z]+)?:")
_FEWEST_NESTED = 3
_MOST_NESTED = 0.8
"""Share of the mentions of inner layers that must lie within longer ones."""
_LABEL = re.compile(r"[^\W\d_][\w./:+-]*")
_MOST_LABELS = 40
_MANY = 10
"""Lines that must speak for another form before a file is refused for it."""
_FEW_TAGS = 1 << 9
"""Distinct tags that a scan makes room for at first."""


class BrokenLine(NamedTuple):
    """The first line of a sentence that cannot be used, and why."""

    line: int
    reason: Reason


@dataclass(frozen=True, slots=True, eq=False)
class TaggedSentences:
    """S consecutive sentences of W words in flat arrays.

    They are int32, or int64 for a text of 2 GiB and more.

    Attributes:
        text: The words, one space between words and one newline between sentences.
        bounds: `[W, 2]`, the characters of each word in `text`, half open.
        tags: `[W]`, the number of each word's tag, -1 where the line is broken.
        names: The tag of each number, as it stands in the lines.
        offsets: `[S + 1]`, the words of each sentence; no sentence is empty.
        lines: `[S]`, the number of each sentence's first line.
        broken: Sentence -> its first broken line, in the order of sentences. The words of broken
            lines are meaningless.
    """

    text: str
    bounds: Ints
    tags: Ints
    names: list[str]
    offsets: Ints
    lines: Ints
    broken: dict[int, BrokenLine]


@dataclass(frozen=True, slots=True)
class TagColumns:
    """The columns, from 0, that hold the word and its tag, and which words can be tags.

    Attributes:
        word: Column of the word.
        tag: Column of the tag.
        is_tag: Whether a word can be a tag.
        tabs: Whether a line that begins like a comment needs a TAB to be a row. It is for files in
            which nearly any word can be a tag.
        header: Number of the line that names the columns, 0 where there is none.
    """

    word: int
    tag: int
    is_tag: Callable[[str], bool]
    tabs: bool = False
    header: int = 0

    def parse(self, line: str) -> tuple[str, str] | Reason:
        """Return a line's word and tag, or else the reason why it is broken."""
        if line == _DAMAGED:
            return NOT_UTF8
        fields = split_fields(line)
        if len(fields) <= max(self.word, self.tag):
            return Reason(
                f"expected a token and a tag, got {len(fields)} field(s)",
                code="fields of a token",
                advice=_NAME_THE_TAGS,
            )
        if not fields[self.word].strip(BLANKS):
            return Reason(f"expected a token in column {self.word}, got an empty field")
        tag = fields[self.tag].strip(BLANKS)
        if not self.is_tag(tag):
            return not_a_tag(self.tag)
        return fields[self.word], tag

    def are_in(self, lines: Sequence[tuple[int, str]]) -> bool:
        """Return whether a file surely has them.

        So it does if its first line and nearly all others have them and the same number of columns,
        and some tag is not O. One line with spaces may be any sentence.
        """
        rows = [
            line
            for number, line in lines
            if line.strip(BLANKS)
            and number != self.header
            and not MARK.match(line)
            and not (line.startswith("#") and self.is_comment(line.encode()))
        ]
        parsed = [self.parse(line) for line in rows]
        pairs = [pair for pair in parsed if isinstance(pair, tuple)]
        return (
            any(tag != "O" for _, tag in pairs)
            and isinstance(parsed[0], tuple)
            and len(pairs) >= _MOST_OF * len(rows)
            and _Rows.from_lines(lines).are_even()
            and (len(rows) < _NOT_ALL_NUMBERS or any(_has_letter(word) for word, _ in pairs))
        )

    def is_comment(self, line: bytes) -> bool:
        """Return whether a line that begins with `#` is a comment.

        It is if it has the form of one. It also is if it does not have a word and a tag, and begins
        with `#` and a space, or stands in a file whose rows do not begin with the word. A line that
        opens a document is not a comment.
        """
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if MARK.match(text):
            return False
        if CERTAIN.match(text):
            return True
        is_row = isinstance(self.parse(text), tuple) and ("\t" in text or not self.tabs)
        return not is_row and (self.word != 0 or LIKELY.match(text) is not None)

    def without_header(self, lines: bytes, *, first: int = 1) -> bytes:
        """Return lines with an empty one for that which names the columns.

        Args:
            lines: Whole lines.
            first: Number of the first one.
        """
        if self.header < first:
            return lines
        start, stop = _line_bounds(lines, self.header - first + 1)
        return lines[:start] + lines[stop:]

    def header_bytes(self, beginning: bytes) -> int:
        """Return how many bytes of a file come before its first row, with the names of columns."""
        return _line_bounds(beginning, self.header)[1] if self.header else 0


def _line_bounds(lines: bytes, number: int) -> tuple[int, int]:
    """Return where a line begins and ends, without its line end; lines count from 1."""
    start = 0
    for _ in range(number - 1):
        start = lines.find(b"\n", start) + 1
        if not start:
            return len(lines), len(lines)
    stop = lines.find(b"\n", start)
    return start, len(lines) if stop < 0 else stop


def split_fields(line: str) -> list[str]:
    """Split a line at TABs or, where it has none, at runs of spaces.

    A leading space makes an empty first field.
    """
    if "\t" in line:
        return line.split("\t")
    fields = [field for field in line.split(" ") if field]
    return ["", *fields] if line.startswith(" ") else fields


def clean(data: bytes, *, first: int = 1) -> bytes:
    """Make lines ready for `scan`.

    CRLF becomes LF, and so does CR in a file without an LF. A line that is not UTF-8 becomes one
    that `TagColumns.parse` refuses.

    Args:
        data: Whole lines.
        first: Number of the first line. If it is 1, a byte order mark before it is dropped.
    """
    data = plain_lines(data, first=first)
    try:
        data.isascii() or data.decode("utf-8")
    except UnicodeDecodeError:
        text = _DAMAGED_LINE.sub(_DAMAGED, data.decode("utf-8", errors="surrogateescape"))
        data = text.encode("utf-8", "surrogatepass")
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").removesuffix(b"\r")
    return data


def head(beginning: bytes, *, max_lines: int = HEAD_LINES) -> list[tuple[int, str]]:
    """Return numbers and texts of a file's first lines, which decide how all of it is read.

    Args:
        beginning: The whole lines of the file's first `HEAD_BYTES`.
        max_lines: Number of lines.
    """
    lines = _lines(clean(beginning), max_lines)
    return list(enumerate(lines[:max_lines], start=1))


def _lines(data: bytes, max_lines: int = -1) -> list[str]:
    """Split into lines; what follows the first `max_lines` of them stays in one piece."""
    return data.decode("utf-8", "surrogatepass").split("\n", max_lines)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The first lines of a file that may hold a word and a tag.

    Attributes:
        numbers: The number of each line.
        fields: The fields of each line.
        sentences: The first row of each sentence, and the number of rows.
        tabs: Whether most of the lines have TABs.
        header: The number of the line before them that names the columns, 0 for none.
        names: The names there.
    """

    numbers: list[int]
    fields: list[list[str]]
    sentences: list[int]
    tabs: bool
    header: int
    names: list[str]

    @classmethod
    def from_lines(cls, lines: Iterable[tuple[int, str]]) -> _Rows:
        """Take the lines that are not blank, marks, like comments, or names of columns.

        A token may begin like a comment, but few do.
        """
        found = [
            (number, line)
            for number, line in lines
            if not line.startswith(("# ", "#\t")) and not CERTAIN.match(line)
        ]
        widths = Counter(len(split_fields(line)) for _, line in found if line.strip(BLANKS))
        usual = widths.most_common(1)[0][0] if widths else 0

        numbers: list[int] = []
        fields: list[list[str]] = []
        sentences: list[int] = []
        num_tabs = 0
        header = 0
        names: list[str] = []
        is_inside = False
        for number, line in found:
            row = split_fields(line)
            if not line.strip(BLANKS) or MARK.match(line):
                is_inside = False
            elif line.startswith("#") and len(row) != usual:
                continue
            elif not numbers and not header and _are_names(row):
                header = number
                names = row
            else:
                if not is_inside:
                    sentences.append(len(numbers))
                is_inside = True
                numbers.append(number)
                fields.append(row)
                num_tabs += "\t" in line
        is_tabbed = 2 * num_tabs > len(numbers)
        return cls(numbers, fields, [*sentences, len(numbers)], is_tabbed, header, names)

    def named(self, columns: Sequence[int]) -> str:
        """Return the names of columns in brackets, "" where nothing names them."""
        if len(self.names) <= max(columns) or not all(map(can_be_shown, self.names)):
            return ""
        return f" ({', '.join(self.names[column] for column in columns)})"

    def column(self, column: int) -> list[str]:
        """Return the values of a column, "" where a row does not have it."""
        return [row[column].strip(BLANKS) if column < len(row) else "" for row in self.fields]

    def counts(self, column: int) -> bool:
        """Return whether a column numbers the rows of each sentence.

        Nearly all rows hold the number after the one before, and there are at least two such rows.
        In a shorter file with more columns than a word, its part of speech, chunk and tag take, the
        rows are numbered from 1.
        """
        values = self.column(column)
        starts = set(self.sentences)
        steps = [row for row in range(len(values)) if row not in starts]
        if len(steps) < _FEWEST_STEPS and min(map(len, self.fields)) > _FEW_COLUMNS:
            return all(
                values[start:stop] == [str(1 + row) for row in range(stop - start)]
                for start, stop in itertools.pairwise(self.sentences)
            )
        good = sum(_follows(values[row - 1], values[row]) for row in steps)
        return good >= _FEWEST_STEPS and good >= _MOST_OF * len(steps)

    def are_even(self) -> bool:
        """Return whether nearly all of several rows have the same number of columns, above one.

        One row with spaces may be any sentence.
        """
        widths = Counter(len(fields) - (not fields[-1]) for fields in self.fields)
        width, number = widths.most_common(1)[0] if widths else (0, 0)
        is_one = len(self.numbers) == 1 and not self.tabs
        return width > 1 and number >= _MOST_OF * len(self.numbers) and not is_one

    def are_tags(self, column: int, is_tag: Callable[[str], bool]) -> bool:
        """Return whether a column holds tags in most rows.

        I and B alone, never with a label or an O beside them, are words where spaces part columns.
        """
        values = self.column(column)
        if 2 * sum(map(is_tag, values)) <= len(values):
            return False
        if self.tabs or is_tag is not tags.is_tag:
            return True
        return any(len(value) > 1 or value == "O" for value in values)

    def are_numbers(self, column: int) -> bool:
        """Return whether a column has no letters in most rows, as numbers and offsets have none."""
        return 2 * sum(map(_has_letter, self.column(column))) <= len(self.numbers)

    def offsets_measure(self, start: int, word: int) -> bool:
        """Return whether a column of starts and the next, of ends, measure nearly all words."""
        ranges = zip(self.column(start), self.column(start + 1), self.column(word), strict=True)
        good = sum(
            first.isdecimal()
            and stop.isdecimal()
            and max(len(first), len(stop)) <= _MOST_DIGITS
            and int(stop) - int(first) == len(value)
            for first, stop, value in ranges
        )
        return good >= _MOST_OF * len(self.numbers)

    def is_constant(self, column: int) -> bool:
        """Return whether a column has one value in each sentence, as the id of a document does.

        Sentences of one row say nothing of that.
        """
        values = self.column(column)
        return len(self.sentences) <= len(values) and all(
            len(set(values[start:stop])) == 1 and values[start]
            for start, stop in itertools.pairwise(self.sentences)
        )


def _are_names(row: Sequence[str]) -> bool:
    """Return whether a file's first row has a name of the column of words, and no tag."""
    values = [value.strip(BLANKS) for value in row]
    is_named = len(values) > 1 and not _HEADER.isdisjoint(map(str.casefold, values))
    return is_named and not any(map(tags.is_tag, values))


def _follows(before: str, value: str) -> bool:
    return (
        before.isdecimal()
        and value.isdecimal()
        and max(len(before), len(value)) <= _MOST_DIGITS
        and int(value) == int(before) + 1
    )


def find_columns(
    lines: Iterable[tuple[int, str]],
    *,
    word: int | None,
    tag: int | None,
    is_tag: Callable[[str], bool],
) -> TagColumns:
    """Find the columns of words and of tags; see `Conll` for the rules.

    Args:
        lines: Numbers and texts of a file's first lines.
        word: Column of the word where it is known.
        tag: Column of the tag where it is known.
        is_tag: Which words can be tags.

    Raises:
        RecordError: Most lines have another form, or several columns may hold the tags.
    """
    rows = _Rows.from_lines(lines)
    width = max(map(len, rows.fields), default=0)

    tagged = [column for column in range(width) if rows.are_tags(column, is_tag)]
    if word is None:
        # Of labels, anything can be one: that says nothing of where the words are.
        of_tags = tagged if is_tag is tags.is_bracket else _find_tag_columns(rows, width)
        word = _find_words(rows, of_tags)
        _check_letters(rows, word, of_tags)
    candidates = [column for column in tagged if column != word and tag in (None, column)]

    if not rows.numbers:
        found = 1 + word if tag is None else tag
        return TagColumns(word, found, is_tag, header=rows.header)
    if not candidates:
        raise _no_tags_error(rows)
    if is_tag is tags.is_bracket and len(candidates) > 1:
        raise _several_columns_error(rows, candidates)
    if is_tag is not tags.is_tag:
        return TagColumns(word, candidates[-1], is_tag, rows.tabs, rows.header)

    found = candidates[0] if tag is not None else _choose_column(rows, candidates)
    _check_are_tags(rows, found)
    return TagColumns(word, found, is_tag, header=rows.header)


class Labels(NamedTuple):
    """The columns of a file whose tags are labels, and the one of words in no mention."""

    columns: TagColumns
    outside: str


def find_labels(lines: Iterable[tuple[int, str]]) -> Labels | None:
    """Find a column of labels without B- and I-, None where there is not just one.

    It is one where most rows have O or 0 and the others one of a few words, as in Stanford's files.
    """
    rows = _Rows.from_lines(lines)
    if not rows.are_even():
        return None
    found = []
    for column in range(1, min(map(len, rows.fields))):
        counts = Counter(rows.column(column))
        outside, most = counts.most_common(1)[0]
        labels = [value for value in counts if value != outside]
        if any(len(value) > 1 and tags.is_tag(value) for value in labels):
            return None
        are_labels = all(map(_LABEL.fullmatch, labels)) and len(labels) <= _MOST_LABELS
        # Nearly each word has a value of its own where a column holds anything else.
        repeat = 0 < 2 * len(labels) <= len(rows.numbers) - most
        if outside in ("O", "0") and are_labels and repeat:
            found.append((column, outside))
    if len(found) != 1:
        return None
    [(column, outside)] = found
    return Labels(TagColumns(_find_words(rows, []), column, bool, rows.tabs, rows.header), outside)


def find_layers(lines: Iterable[tuple[int, str]]) -> list[int]:
    """Return the columns of tags of nested layers, none where they may be anything else.

    Nearly all mentions of a layer lie within a longer one of the layers before it or around a
    shorter one, and have labels of these. So no second opinion counts as one, nor what a model has
    found.
    """
    rows = _Rows.from_lines(lines)
    width = min(map(len, rows.fields), default=0)
    columns = [column for column in _find_tag_columns(rows, width) if column]
    if len(columns) < 2 or rows.names or not rows.are_even():
        return []

    outer: list[set[tags.WordSpan]] = [set() for _ in rows.sentences[:-1]]
    labels: set[str] = set()
    num_inner = num_nested = 0
    for column in columns:
        values = rows.column(column)
        layer_labels: set[str] = set()
        for outer_spans, (start, stop) in zip(
            outer, itertools.pairwise(rows.sentences), strict=True
        ):
            try:
                spans, _ = tags.decode(values[start:stop], untyped="", i_opens=True)
            except ValueError:
                return []
            layer_labels.update(span.label for span in spans)
            if column != columns[0]:
                num_inner += len(spans)
                num_nested += sum(_is_nested(span, outer_spans) for span in spans)
            outer_spans.update(spans)
        if column != columns[0] and not layer_labels <= labels:
            return []
        labels |= layer_labels
    is_nested = num_inner >= _FEWEST_NESTED and num_nested >= _MOST_NESTED * num_inner
    return columns if is_nested and not labels <= CHUNKS else []


def _is_nested(span: tags.WordSpan, spans: Iterable[tags.WordSpan]) -> bool:
    """Return whether a mention lies within a longer one, or around a shorter one, or both."""
    touching = [other for other in spans if other.start < span.end and span.start < other.end]
    if any(other[:2] == span[:2] for other in touching):
        return False
    return any(
        (other.start <= span.start and span.end <= other.end)
        or (span.start <= other.start and other.end <= span.end)
        for other in touching
    )


def find_prefix(lines: Iterable[tuple[int, str]]) -> str:
    """Return what nearly all words begin with, as `en:` in WikiANN; "" for nothing."""
    words = _Rows.from_lines(lines).column(0)
    prefixes = Counter(match[0] for word in words if (match := _PREFIX.match(word)))
    if len(words) < _NOT_ALL_NUMBERS or not prefixes:
        return ""
    prefix, number = prefixes.most_common(1)[0]
    return prefix if number >= _MOST_OF * len(words) else ""


def falls_short(lines: Iterable[tuple[int, str]]) -> str:
    """Return why columns of words and tags cannot be found in lines that surely have tags.

    It is "" where they can be found, and for lines of any other kind.
    """
    listed = [*lines]
    rows = _Rows.from_lines(listed)
    if not rows.are_even() or not _find_tag_columns(rows, max(map(len, rows.fields))):
        return ""
    try:
        find_columns(listed, word=None, tag=None, is_tag=tags.is_tag)
    except RecordError as error:
        return str(error)
    return ""


def have_no_tags(
    lines: Iterable[tuple[int, str]], tag: int | None, is_tag: Callable[[str], bool]
) -> bool:
    """Return whether lines surely hold no words with tags: a list, a text, or other columns.

    Args:
        lines: Numbers and texts of a file's first lines.
        tag: Column of the tag where it is known.
        is_tag: Which words can be tags.
    """
    rows = _Rows.from_lines(lines)
    alone = sum(len(fields) < 2 for fields in rows.fields)
    if not rows.numbers or alone >= _MOST_OF * len(rows.numbers):
        return True
    columns = range(max(map(len, rows.fields))) if tag is None else [tag]
    return not any(rows.are_tags(column, is_tag) for column in columns)


def are_names(lines: Iterable[tuple[int, str]], outside: str) -> bool:
    """Return whether lines are names of some words each, and no words with labels.

    Their numbers of words differ, and none ends with the label of words in no mention.

    Args:
        lines: Numbers and texts of a file's first lines.
        outside: That label.
    """
    fields = _Rows.from_lines(lines).fields
    return len(set(map(len, fields))) > 1 and all(row[-1] != outside for row in fields)


def _find_tag_columns(rows: _Rows, width: int) -> list[int]:
    return [column for column in range(width) if rows.are_tags(column, tags.is_tag)]


def _find_words(rows: _Rows, tagged: Sequence[int]) -> int:
    """Return the column of words: the first one, or one behind numbers of rows or behind tags.

    Raises:
        RecordError: Tags come first, and several columns behind them may hold the words.
    """
    width = min(map(len, rows.fields), default=0)
    for column in range(width):
        others = [other for other in range(column + 1, width) if other not in tagged]
        if column in tagged and (others or not column):
            return _words_behind_tags(rows, column, others)
        if rows.counts(column):
            return others[0] if others else 0
        if not rows.is_constant(column):
            break
    return 0


def _words_behind_tags(rows: _Rows, tag: int, others: Sequence[int]) -> int:
    """Return the column of words where that of tags comes first.

    It is the one whose words are as long as the offsets before it say, as in columns of nersuite,
    or the only one.

    Raises:
        RecordError: There are several, or none.
    """
    texts = [column for column in others if not rows.are_numbers(column)]
    measured = [
        word
        for start, word in itertools.product(others, others)
        if start + 1 in others
        and word not in (start, start + 1)
        and rows.offsets_measure(start, word)
    ]
    candidates = measured[:1] or texts or [*others]
    if len(candidates) != 1:
        got = f"columns {_join_columns(candidates)}" if candidates else "none"
        raise RecordError(
            f"expected one column of words behind the tags in column {tag}, got {got}; set "
            "[source] word_column to the one that is to be read",
            line=rows.numbers[0],
        )
    return candidates[0]


def _check_letters(rows: _Rows, word: int, tagged: Sequence[int]) -> None:
    """Raise if the column found for words never holds a letter.

    Numbers of sentences and offsets stand before words in some files, and in some there are no
    words. A few words of a file may all be numbers.
    """
    width = min(map(len, rows.fields), default=0)
    if len(rows.numbers) < _NOT_ALL_NUMBERS or width <= word:
        return
    if any(map(_has_letter, rows.column(word))):
        return
    got = f"expected words in column {word}, got values without any letter"
    for column in range(word + 1, width):
        with_letters = sum(map(_has_letter, rows.column(column)))
        if column not in tagged and 2 * with_letters > len(rows.numbers):
            raise RecordError(
                f"{got}, while column {column} has some; set [source] word_column to the one that "
                "has the words",
                line=rows.numbers[0],
            )
    if width > word + 1 + len(tagged):
        raise RecordError(
            f"{got}, and no other column with some; check that the file has words",
            line=rows.numbers[0],
        )


def _has_letter(word: str) -> bool:
    return any(map(str.isalpha, word))


def _no_tags_error(rows: _Rows) -> RecordError:
    """Return what is wrong with lines of which most do not hold a tag."""
    for number, fields in zip(rows.numbers, rows.fields, strict=True):
        if len(fields) < 2:
            return RecordError(
                Reason(
                    f"expected a token and a tag, got {len(fields)} field(s), as in most lines; "
                    "check [source] use",
                    code="fields of most lines",
                    advice=_NAME_THE_TAGS,
                ),
                line=number,
            )
    return RecordError(
        Reason(
            "expected a token and a tag, got no column of tags, as in most lines; check [source] "
            "use, or name the columns with word_column and tag_column; where the tags are labels "
            'without B- and I-, set scheme = "label"; where they are brackets such as (ORG*, '
            '"brackets"',
            advice=_NAME_THE_TAGS,
        ),
        line=rows.numbers[0],
    )


def _choose_column(rows: _Rows, candidates: Sequence[int]) -> int:
    """Return which of some columns of tags holds those of entities.

    Raises:
        RecordError: Several may, or all of them hold chunks.
    """
    labels = {
        column: {label for value in set(rows.column(column)) for label in _parse_label(value)}
        for column in candidates
    }
    not_chunks = [column for column in candidates if not labels[column] or labels[column] - CHUNKS]
    if not not_chunks:
        raise RecordError(
            f"expected tags of entities, got chunks such as NP alone in column "
            f"{_join_columns(candidates)}; set [source] tag_column to read them",
            line=rows.numbers[0],
        )
    with_labels = [column for column in not_chunks if labels[column]]
    if len(with_labels) <= 1 and not_chunks[-1] in (with_labels or not_chunks):
        return not_chunks[-1]
    raise _several_columns_error(rows, not_chunks)


def _several_columns_error(rows: _Rows, columns: Sequence[int]) -> RecordError:
    got = f"columns {_join_columns(columns)} with tags{rows.named(columns)}"
    return RecordError(
        f"expected one column of tags, got {got}; set [source] tag_column to the one that is to be "
        f"read, or to {[*columns]} if they are layers of mentions",
        line=rows.numbers[0],
    )


def _parse_label(value: str) -> list[str]:
    """Return the label of a tag in a list, "" for a bare one; nothing for O and other words."""
    parsed = tags.parse(value)
    return [parsed[1]] if parsed and parsed[0] != "O" else []


def _check_are_tags(rows: _Rows, column: int) -> None:
    """Raise if the words of a column that are not O are not tags either, as labels are not.

    Raises:
        RecordError: Most of many such words are not tags.
    """
    values = [value for value in rows.column(column) if value != "O"]
    num_others = sum(not tags.is_tag(value) for value in values)
    if num_others >= _MANY and 2 * num_others > len(values):
        raise RecordError(
            f"expected tags such as B-X, I-X and O in column {column}, got other words in most "
            f'lines without O; where these are labels, set [source] scheme = "label"',
            line=rows.numbers[0],
        )


def _join_columns(columns: Sequence[int]) -> str:
    return " and ".join(map(str, columns))


def scan(
    data: bytes, *, first: int, columns: TagColumns, keep_empty: bool = False
) -> TaggedSentences:
    """Read lines into sentences.

    Args:
        data: Whole lines without document marks, as `clean` and `marks.divide` give them.
        first: Number of the first line.
        columns: Where word and tag stand.
        keep_empty: Whether rows without a word break their sentence even with the tag O, so that
            scans for other tags have the same words.
    """
    if not data.endswith(b"\n"):
        data += b"\n"
    chars = np.frombuffer(data, np.uint8)
    num_lines = int(np.count_nonzero(chars == NEWLINE))

    # Room for the most that so many lines can hold; the kernel says how much of it is used.
    size = np.int32 if len(chars) < 2**31 else np.int64
    laid = np.empty(len(chars), np.uint8)
    words = np.empty((num_lines, 3), size)
    sentences = np.empty((num_lines + 1, 2), size)
    sizes = np.empty(4, np.int64)

    column_numbers = np.array([columns.word, columns.tag])
    room = _FEW_TAGS
    while True:
        names = np.empty((room, 2), np.int64)
        slots = np.full(2 * room, -1)
        fields = np.zeros((column_numbers.max() + 2, 2), np.int64)
        scan_lines(chars, column_numbers, names, slots, fields, laid, words, sentences, sizes)
        num_words, num_sentences, num_bytes, num_tags = sizes.tolist()
        if num_tags < room:
            break
        room *= 8

    sentences_found = TaggedSentences(
        text=str(laid[:num_bytes].data, "utf-8"),
        bounds=words[:num_words, :2],
        tags=words[:num_words, 2],
        names=[data[start:stop].decode("utf-8") for start, stop in names[:num_tags].tolist()],
        offsets=sentences[: num_sentences + 1, 0],
        lines=sentences[:num_sentences, 1] + first,
        broken={},
    )

    # The last place is that of tag -1, which the kernel gives to words of broken lines.
    good = np.array([*map(columns.is_tag, sentences_found.names), False], np.bool_)
    if sentences_found.tags.min(initial=0) < 0 or not good[:-1].all():
        lines = _lines(data)
        is_empty = _are_empty(sentences_found, [] if keep_empty else lines, first, columns)
        sentences_found.broken.update(
            _find_broken(
                sentences_found, ~good[sentences_found.tags] & ~is_empty, lines, first, columns
            )
        )
        if is_empty.any():
            return _without_words(sentences_found, is_empty)
    return sentences_found


def _are_empty(
    tagged: TaggedSentences, lines: Sequence[str], first: int, columns: TagColumns
) -> npt.NDArray[np.bool_]:
    """Return which rows have no word and are in no mention, bool `[W]`.

    Only sentences that have other words lose such rows: so none loses all of them.
    """
    is_empty = np.zeros(len(tagged.tags), np.bool_)
    if not lines:
        return is_empty
    for word in np.flatnonzero((tagged.tags < 0) & (tagged.bounds[:, 0] == tagged.bounds[:, 1])):
        sentence = int(np.searchsorted(tagged.offsets, word, side="right")) - 1
        line = lines[tagged.lines[sentence] + word - tagged.offsets[sentence] - first]
        fields = line.split("\t")
        is_empty[word] = (
            len(fields) > max(columns.word, columns.tag)
            and not fields[columns.word].strip(BLANKS)
            and fields[columns.tag].strip(BLANKS) == "O"
        )
    if is_empty.any():
        num_words = np.add.reduceat(~is_empty, tagged.offsets[:-1])
        is_empty &= np.repeat(num_words > 0, np.diff(tagged.offsets))
    return is_empty


def _without_words(tagged: TaggedSentences, is_gone: npt.NDArray[np.bool_]) -> TaggedSentences:
    """Return the sentences without some of their words, bool `[W]`; the text keeps its spaces."""
    gone_before = np.append(0, np.cumsum(is_gone))
    offsets = (tagged.offsets - gone_before[tagged.offsets]).astype(tagged.offsets.dtype)
    return replace(
        tagged, bounds=tagged.bounds[~is_gone], tags=tagged.tags[~is_gone], offsets=offsets
    )


def _find_broken(
    tagged: TaggedSentences,
    is_broken: npt.NDArray[np.bool_],
    lines: Sequence[str],
    first: int,
    columns: TagColumns,
) -> dict[int, BrokenLine]:
    """Return the first broken line of each sentence that has one; `is_broken` is bool `[W]`."""
    words = np.flatnonzero(is_broken)
    sentences = np.searchsorted(tagged.offsets, words, side="right") - 1
    sentences, nth = np.unique(sentences, return_index=True)

    # No line within a sentence is blank, so words count lines from the sentence's first.
    numbers = tagged.lines[sentences] + words[nth] - tagged.offsets[sentences]
    return {
        # The kernel and `parse` agree on which lines are broken.
        sentence: BrokenLine(number, cast(Reason, columns.parse(lines[number - first])))
        for sentence, number in zip(sentences.tolist(), numbers.tolist(), strict=True)
    }
