"""Reads files of tagged words (CoNLL) into arrays of words, tags and sentences.

A line has one word and its tag, in any two columns. Columns are separated by TABs or spaces,
sentences by blank lines. `kernels.lines.scan_lines` reads the lines. This module allocates its
arrays, finds the columns, and parses broken lines again to explain what is wrong with them.
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

_NAME_THE_TAGS = {"tag_column": "name the column of tags with source.tag_column"}


def not_a_tag(column: str | int) -> Reason:
    """Make the reason for a sentence whose tag column contains another word."""
    return Reason(
        f"expected a tag in column {column}, got another word; if the tags are labels without "
        'B- and I-, set [source] scheme = "label"',
        advice=_NAME_THE_TAGS,
    )


# The columns of a file are found from its first 64 KiB, at most 1000 lines.
HEAD_BYTES = 64 << 10
HEAD_LINES = 1000

_DAMAGED = "\udcff"
"""Replaces a line with invalid UTF-8. A lone surrogate cannot occur in valid UTF-8."""
_DAMAGED_LINE = re.compile(rf"^(?!{MARK.pattern}).*[\udc80-\udcff].*$", re.MULTILINE)
CHUNKS = frozenset(re.findall(r"\w+", "ADJP ADVP CONJP INTJ LST NC NP PC PP PRT SBAR UCP VC VP"))
"""Chunk labels of CoNLL-2000 and of the German part of CoNLL-2003."""

# Thresholds for guessing columns. Real files contain broken lines and odd tokens, so most rules
# need only 90 % of the rows to agree.
_NOT_ALL_NUMBERS = 20
"""Minimum number of rows for "no word has a letter" to count as evidence against a column."""
_FEWEST_STEPS = 2
"""Minimum number of consecutive row numbers in a counting column."""
_FEW_COLUMNS = 4
"""Columns in CoNLL-2003: word, part of speech, chunk, tag. The first word may be a number."""
_MOST_OF = 0.9
"""Minimum share of rows that must follow a rule. Others may be multi-word tokens or broken."""
_MOST_DIGITS = 9
_HEADER = frozenset({"token", "tokens", "word", "words", "form"})
"""Names of the word column that identify a header line, in any case."""
_PREFIX = re.compile(r"[a-z]{2,3}(?:-[a-z]+)?:")
_FEWEST_NESTED = 3
_MOST_NESTED = 0.8
"""Minimum share of inner mentions nested in longer mentions, for columns to be layers."""
_LABEL = re.compile(r"[^\W\d_][\w./:+-]*")
_MOST_LABELS = 40
_FEW_NAMES = 0.1
"""Maximum share of words with a space in a column of words."""
_MANY = 10
"""Minimum number of words that are not tags before a tag column is rejected."""
_FEW_TAGS = 1 << 9
"""Initial capacity for distinct tags in a scan."""


class BrokenLine(NamedTuple):
    """The first broken line of a sentence, and the reason."""

    line: int
    reason: Reason


@dataclass(frozen=True, slots=True, eq=False)
class TaggedSentences:
    """S consecutive sentences of W words in flat arrays.

    Arrays are int32, or int64 if the text has 2 GiB or more.

    Attributes:
        text: The words, separated by one space within a sentence and one newline between sentences.
        bounds: `[W, 2]`, half-open character range of each word in `text`.
        tags: `[W]`, index of each word's tag in `names`; -1 for a broken line.
        names: Distinct tags, as written in the file.
        offsets: `[S + 1]`, word range of each sentence. No sentence is empty.
        lines: `[S]`, line number of each sentence's first line.
        broken: Sentence index -> its first broken line, in ascending order. The words of broken
            lines are undefined.
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
    """The columns of words and tags, counted from 0, and the syntax of tags.

    Attributes:
        word: Column of the word.
        tag: Column of the tag.
        is_tag: Whether a word is a valid tag.
        tabs: Whether a line that looks like a comment must contain a TAB to be read as a row. Set
            for files in which nearly any word is a valid tag.
        header: Line number of the header, 0 if there is none.
    """

    word: int
    tag: int
    is_tag: Callable[[str], bool]
    tabs: bool = False
    header: int = 0

    def parse(self, line: str) -> tuple[str, str] | Reason:
        """Return the word and tag of a line, or the reason why the line is broken."""
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
        """Return whether a file certainly has words and tags in these columns.

        The first line and nearly all others must have them, rows must have the same number of
        columns, and at least one tag is not O. A single line with spaces is not enough: it may be
        any sentence.
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

        A document mark is not a comment; a line with the form of a comment is. Any other line is a
        comment if it has no word and tag, and either begins with `#` and a space or belongs to a
        file whose first column is not the word.
        """
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if MARK.match(text):
            return False
        if CERTAIN.match(text):
            return True
        # Without tags, such as for labels, nearly any text parses as a row. Then only a TAB
        # decides.
        is_row = isinstance(self.parse(text), tuple) and ("\t" in text or not self.tabs)
        return not is_row and (self.word != 0 or LIKELY.match(text) is not None)

    def without_header(self, lines: bytes, *, first: int = 1) -> bytes:
        """Return lines with an empty line in place of the header.

        Args:
            lines: Whole lines.
            first: Line number of the first line.
        """
        if self.header < first:
            return lines
        start, stop = _line_bounds(lines, self.header - first + 1)
        return lines[:start] + lines[stop:]

    def header_bytes(self, beginning: bytes) -> int:
        """Return the number of bytes at a file's beginning up to the end of its header."""
        return _line_bounds(beginning, self.header)[1] if self.header else 0


def _line_bounds(lines: bytes, number: int) -> tuple[int, int]:
    """Return the byte range of a line, without its line end; lines count from 1."""
    start = 0
    for _ in range(number - 1):
        start = lines.find(b"\n", start) + 1
        if not start:
            return len(lines), len(lines)
    stop = lines.find(b"\n", start)
    return start, len(lines) if stop < 0 else stop


def split_fields(line: str) -> list[str]:
    """Split a line at TABs or, if it has none, at runs of spaces.

    A leading space makes an empty first field.
    """
    if "\t" in line:
        return line.split("\t")
    fields = [field for field in line.split(" ") if field]
    return ["", *fields] if line.startswith(" ") else fields


def clean(data: bytes, *, first: int = 1) -> bytes:
    """Normalise lines for `scan`.

    CRLF becomes LF, and so does CR in a file without LF. A line of invalid UTF-8 is replaced by a
    line that `TagColumns.parse` rejects.

    Args:
        data: Whole lines.
        first: Line number of the first line. If it is 1, a leading byte order mark is removed.
    """
    data = plain_lines(data, first=first)
    try:
        data.isascii() or data.decode("utf-8")
        # `isascii` is far faster than decoding, and true for most English files.
    except UnicodeDecodeError:
        text = _DAMAGED_LINE.sub(_DAMAGED, data.decode("utf-8", errors="surrogateescape"))
        data = text.encode("utf-8", "surrogatepass")
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").removesuffix(b"\r")
    return data


def head(beginning: bytes, *, max_lines: int = HEAD_LINES) -> list[tuple[int, str]]:
    """Return line number and text of a file's first lines, from which its columns are found.

    Args:
        beginning: Whole lines of the file's first `HEAD_BYTES`.
        max_lines: Maximum number of lines.
    """
    lines = _lines(clean(beginning), max_lines)
    return list(enumerate(lines[:max_lines], start=1))


def _lines(data: bytes, max_lines: int = -1) -> list[str]:
    """Split into lines. Text after the first `max_lines` lines remains in one piece."""
    return data.decode("utf-8", "surrogatepass").split("\n", max_lines)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The first rows of a file, split into fields.

    Attributes:
        numbers: Line number of each row.
        fields: Fields of each row.
        sentences: Index of the first row of each sentence, then the number of rows.
        tabs: Whether most rows contain TABs.
        header: Line number of the header, 0 if there is none.
        names: Column names in the header.
    """

    numbers: list[int]
    fields: list[list[str]]
    sentences: list[int]
    tabs: bool
    header: int
    names: list[str]

    @classmethod
    def from_lines(cls, lines: Iterable[tuple[int, str]]) -> _Rows:
        """Take all lines except blank lines, document marks, probable comments and the header."""
        candidates = [
            (number, line)
            for number, line in lines
            if not line.startswith(("# ", "#\t")) and not CERTAIN.match(line)
        ]
        widths = Counter(len(split_fields(line)) for _, line in candidates if line.strip(BLANKS))
        usual = widths.most_common(1)[0][0] if widths else 0

        numbers: list[int] = []
        fields: list[list[str]] = []
        sentences: list[int] = []
        num_tabs = 0
        header = 0
        names: list[str] = []
        is_inside = False
        for number, line in candidates:
            row = split_fields(line)
            if not line.strip(BLANKS) or MARK.match(line):
                is_inside = False
            # A token may begin with `#`. It is a row if it has as many columns as most lines.
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
        """Return the names of columns in brackets, "" if there is no header."""
        if len(self.names) <= max(columns) or not all(map(can_be_shown, self.names)):
            return ""
        return f" ({', '.join(self.names[column] for column in columns)})"

    def column(self, column: int) -> list[str]:
        """Return the values of a column, "" for rows that are too short."""
        return [row[column].strip(BLANKS) if column < len(row) else "" for row in self.fields]

    def counts(self, column: int) -> bool:
        """Return whether a column numbers the rows of each sentence.

        In nearly all rows, at least two, the number is one more than in the row before. Shorter
        files need more than four columns, and rows numbered from 1.
        """
        values = self.column(column)
        starts = set(self.sentences)
        steps = [row for row in range(len(values)) if row not in starts]

        # Too few rows to see a step. Accept only 1, 2, … in files with more columns than
        # CoNLL-2003.
        if len(steps) < _FEWEST_STEPS and min(map(len, self.fields)) > _FEW_COLUMNS:
            return all(
                values[start:stop] == [str(1 + row) for row in range(stop - start)]
                for start, stop in itertools.pairwise(self.sentences)
            )
        good = sum(_follows(values[row - 1], values[row]) for row in steps)
        return good >= _FEWEST_STEPS and good >= _MOST_OF * len(steps)

    def are_even(self) -> bool:
        """Return whether nearly all rows have the same number of columns, at least two.

        A single row separated by spaces is rejected: it may be any sentence.
        """
        # A trailing separator leaves an empty last field, which is not counted.
        widths = Counter(len(fields) - (not fields[-1]) for fields in self.fields)
        width, number = widths.most_common(1)[0] if widths else (0, 0)
        is_one = len(self.numbers) == 1 and not self.tabs
        return width > 1 and number >= _MOST_OF * len(self.numbers) and not is_one

    def are_tags(self, column: int, is_tag: Callable[[str], bool]) -> bool:
        """Return whether a column holds tags in most rows."""
        values = self.column(column)
        if 2 * sum(map(is_tag, values)) <= len(values):
            return False
        if self.tabs or is_tag is not tags.is_tag:
            return True
        # In text separated by spaces, the words I and B look like bare tags. A column of tags
        # also has an O or a label somewhere.
        return any(len(value) > 1 or value == "O" for value in values)

    def are_numbers(self, column: int) -> bool:
        """Return whether most values of a column have no letters, as numbers and offsets."""
        return 2 * sum(map(_has_letter, self.column(column))) <= len(self.numbers)

    def offsets_measure(self, start: int, word: int) -> bool:
        """Return whether columns `start` and `start + 1` are offsets with the words' lengths."""
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
        """Return whether a column has one value per sentence, such as a document id.

        Requires at least one sentence with several rows.
        """
        values = self.column(column)
        return len(self.sentences) <= len(values) and all(
            len(set(values[start:stop])) == 1 and values[start]
            for start, stop in itertools.pairwise(self.sentences)
        )


def _are_names(row: Sequence[str]) -> bool:
    """Return whether a row is a header: it names a column of words, and has no tag."""
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
        lines: Line number and text of a file's first lines.
        word: Column of the word, if known.
        tag: Column of the tag, if known.
        is_tag: Whether a word is a valid tag.

    Raises:
        RecordError: Most lines have another form, or several columns may hold the tags.
    """
    rows = _Rows.from_lines(lines)
    width = max(map(len, rows.fields), default=0)

    tagged = [column for column in range(width) if rows.are_tags(column, is_tag)]
    if word is None:
        # Any word is a valid label, so only tags with prefixes rule out columns of words.
        tag_columns = tagged if is_tag is tags.is_bracket else _find_tag_columns(rows, width)
        word = _find_words(rows, tag_columns)
        _check_letters(rows, word, tag_columns)
    candidates = [column for column in tagged if column != word and tag in (None, column)]

    if not rows.numbers:
        # Without rows nothing is read. Any valid columns will do.
        return TagColumns(word, 1 + word if tag is None else tag, is_tag, header=rows.header)
    if not candidates:
        raise _no_tags_error(rows)
    if is_tag is tags.is_bracket and len(candidates) > 1:
        raise _several_columns_error(rows, candidates)
    # Labels and brackets: the last candidate, as the tag column is last in nearly all files.
    if is_tag is not tags.is_tag:
        return TagColumns(word, candidates[-1], is_tag, rows.tabs, rows.header)

    chosen = candidates[0] if tag is not None else _choose_column(rows, candidates)
    _check_are_tags(rows, chosen)
    return TagColumns(word, chosen, is_tag, header=rows.header)


class Labels(NamedTuple):
    """The columns of a file whose tags are plain labels, and the label outside mentions."""

    columns: TagColumns
    outside: str


def find_labels(lines: Iterable[tuple[int, str]]) -> Labels | None:
    """Find a column of labels without B- and I-, as in files of Stanford NER.

    Most rows have O in this column, the others one of a few labels. 0 is accepted beside labels in
    capitals, as tables of measurements are full of zeros. Words are those of a text: hardly any
    has a space, as names in a table do.

    Returns:
        None unless exactly one column matches.
    """
    rows = _Rows.from_lines(lines)
    if not rows.are_even():
        return None
    matches = []
    for column in range(1, min(map(len, rows.fields))):
        counts = Counter(rows.column(column))
        outside, num_outside = counts.most_common(1)[0]
        labels = [value for value in counts if value != outside]
        # A column of tags: the file is read with scheme "auto".
        if any(len(value) > 1 and tags.is_tag(value) for value in labels):
            return None
        are_labels = all(map(_LABEL.fullmatch, labels)) and len(labels) <= _MOST_LABELS
        # Labels repeat. In a column of words, nearly every value is distinct.
        repeat = 0 < 2 * len(labels) <= len(rows.numbers) - num_outside
        is_outside = outside == "O" or (outside == "0" and all(map(str.isupper, labels)))
        if is_outside and are_labels and repeat:
            matches.append((column, outside))
    if len(matches) != 1:
        return None
    [(column, outside)] = matches
    word = _find_words(rows, [])
    are_names = sum(" " in value for value in rows.column(word)) > _FEW_NAMES * len(rows.numbers)
    if are_names:
        return None
    return Labels(TagColumns(word, column, bool, rows.tabs, rows.header), outside)


def find_layers(lines: Iterable[tuple[int, str]]) -> list[int]:
    """Find columns of tags that are layers of nested mentions.

    Nearly all mentions of a layer must lie within a longer mention of an earlier layer, or around a
    shorter one, and use the same labels. Columns with another annotator's tags or a model's
    predictions do not match: their mentions are mostly equal.

    Returns:
        The columns, empty if they may be anything else.
    """
    rows = _Rows.from_lines(lines)
    width = min(map(len, rows.fields), default=0)
    columns = [column for column in _find_tag_columns(rows, width) if column]
    if len(columns) < 2 or rows.names or not rows.are_even():
        return []

    outer: list[set[tags.WordSpan]] = [set() for _ in rows.sentences[:-1]]
    labels: set[str] = set()
    num_inner = num_nested = 0
    # Compare each layer with the union of the layers before it, sentence by sentence.
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

    # Columns of chunks are nested too, but are no mentions.
    is_nested = num_inner >= _FEWEST_NESTED and num_nested >= _MOST_NESTED * num_inner
    return columns if is_nested and not labels <= CHUNKS else []


def _is_nested(span: tags.WordSpan, spans: Iterable[tags.WordSpan]) -> bool:
    """Return whether a mention is nested with one of `spans`, and equal to none."""
    touching = [other for other in spans if other.start < span.end and span.start < other.end]
    # An equal mention is a second opinion, not a nested one.
    if any(other[:2] == span[:2] for other in touching):
        return False
    return any(
        (other.start <= span.start and span.end <= other.end)
        or (span.start <= other.start and other.end <= span.end)
        for other in touching
    )


def find_prefix(lines: Iterable[tuple[int, str]]) -> str:
    """Return the prefix of nearly all words, such as `en:` in WikiANN; "" if there is none."""
    words = _Rows.from_lines(lines).column(0)
    prefixes = Counter(match[0] for word in words if (match := _PREFIX.match(word)))
    if len(words) < _NOT_ALL_NUMBERS or not prefixes:
        return ""
    prefix, number = prefixes.most_common(1)[0]
    return prefix if number >= _MOST_OF * len(words) else ""


def falls_short(lines: Iterable[tuple[int, str]]) -> str:
    """Return why the columns of lines with tags cannot be found.

    Returns:
        "" if they can be found, or if the lines are of another kind.
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
    """Return whether lines are not words with tags, but for example a list or running text.

    True if nine of ten lines have a single column, or if no column holds tags in most lines.

    Args:
        lines: Line number and text of a file's first lines.
        tag: Column of the tag, if known.
        is_tag: Whether a word is a valid tag.
    """
    rows = _Rows.from_lines(lines)
    alone = sum(len(fields) < 2 for fields in rows.fields)
    if not rows.numbers or alone >= _MOST_OF * len(rows.numbers):
        return True
    columns = range(max(map(len, rows.fields))) if tag is None else [tag]
    return not any(rows.are_tags(column, is_tag) for column in columns)


def are_names(lines: Iterable[tuple[int, str]], outside: str) -> bool:
    """Return whether lines are multi-word names, such as a gazetteer, rather than tagged words.

    Names have different numbers of words, and never end with the label outside mentions.

    Args:
        lines: Line number and text of a file's first lines.
        outside: Label outside mentions.
    """
    fields = _Rows.from_lines(lines).fields
    return len(set(map(len, fields))) > 1 and all(row[-1] != outside for row in fields)


def _find_tag_columns(rows: _Rows, width: int) -> list[int]:
    return [column for column in range(width) if rows.are_tags(column, tags.is_tag)]


def _find_words(rows: _Rows, tagged: Sequence[int]) -> int:
    """Find the column of words: the first column after row numbers, document ids and tags.

    Raises:
        RecordError: Tags come first, and several later columns may hold the words.
    """
    width = min(map(len, rows.fields), default=0)
    for column in range(width):
        others = [other for other in range(column + 1, width) if other not in tagged]
        if column in tagged and (others or not column):
            return _words_behind_tags(rows, column, others)
        if rows.counts(column):
            return others[0] if others else 0
        # A constant column may be a document id. Look at the next column.
        if not rows.is_constant(column):
            break
    return 0


def _words_behind_tags(rows: _Rows, tag: int, others: Sequence[int]) -> int:
    """Find the column of words in a file whose tags come first.

    It is the column whose word lengths match offsets in two other columns, as in nersuite, or the
    only column with letters.

    Raises:
        RecordError: There are several such columns, or none.
    """
    texts = [column for column in others if not rows.are_numbers(column)]

    # Offsets are two adjacent columns, before or after the words.
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
            f"expected one column of words behind the tags in column {tag}, got {got}; name it "
            "with [source] word_column",
            line=rows.numbers[0],
        )
    return candidates[0]


def _check_letters(rows: _Rows, word: int, tagged: Sequence[int]) -> None:
    """Raise if the column found for words never holds a letter.

    It may hold sentence numbers or offsets, or the file may have no words. Files with fewer than 20
    rows are accepted.
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
                f"{got}, but column {column} has letters; name the column of words with [source] "
                "word_column",
                line=rows.numbers[0],
            )
    if width > word + 1 + len(tagged):
        raise RecordError(
            f"{got}, and no other column has letters; check that the file has words",
            line=rows.numbers[0],
        )


def _has_letter(word: str) -> bool:
    return any(map(str.isalpha, word))


def _no_tags_error(rows: _Rows) -> RecordError:
    """Make the error for a file in which most lines have no tag."""
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
            "expected a token and a tag, got no column of tags in most lines; check [source] use, "
            "or name the columns with word_column and tag_column; if the tags are labels without "
            'B- and I-, set scheme = "label"; if they are brackets such as (ORG*, set scheme = '
            '"brackets"',
            advice=_NAME_THE_TAGS,
        ),
        line=rows.numbers[0],
    )


def _choose_column(rows: _Rows, candidates: Sequence[int]) -> int:
    """Choose the column of entity tags among columns of tags.

    Raises:
        RecordError: Several columns may hold entity tags, or all hold chunks.
    """
    labels = {
        column: {label for value in set(rows.column(column)) for label in _parse_label(value)}
        for column in candidates
    }
    not_chunks = [column for column in candidates if not labels[column] or labels[column] - CHUNKS]
    if not not_chunks:
        raise RecordError(
            f"expected tags of entities, got only chunks such as NP in column "
            f"{_join_columns(candidates)}; set [source] tag_column to read them",
            line=rows.numbers[0],
        )

    # The last column wins, unless an earlier one has labels: it may hold the entities.
    with_labels = [column for column in not_chunks if labels[column]]
    if len(with_labels) <= 1 and not_chunks[-1] in (with_labels or not_chunks):
        return not_chunks[-1]
    raise _several_columns_error(rows, not_chunks)


def _several_columns_error(rows: _Rows, columns: Sequence[int]) -> RecordError:
    got = f"columns {_join_columns(columns)} with tags{rows.named(columns)}"
    return RecordError(
        f"expected one column of tags, got {got}; set [source] tag_column to one of them, or to "
        f"{[*columns]} if they are layers of mentions",
        line=rows.numbers[0],
    )


def _parse_label(value: str) -> list[str]:
    """Return the label of a tag as a list: [""] for a bare tag, [] for O and other words."""
    parsed = tags.parse(value)
    return [parsed[1]] if parsed and parsed[0] != "O" else []


def _check_are_tags(rows: _Rows, column: int) -> None:
    """Raise if most words of a tag column other than O are not tags, but for example labels."""
    values = [value for value in rows.column(column) if value != "O"]
    num_others = sum(not tags.is_tag(value) for value in values)
    if num_others >= _MANY and 2 * num_others > len(values):
        raise RecordError(
            f"expected tags such as B-X, I-X and O in column {column}, got other words in most "
            f'lines without O; if they are labels, set [source] scheme = "label"',
            line=rows.numbers[0],
        )


def _join_columns(columns: Sequence[int]) -> str:
    return " and ".join(map(str, columns))


def scan(
    data: bytes, *, first: int, columns: TagColumns, keep_empty: bool = False
) -> TaggedSentences:
    """Read lines into sentences.

    Args:
        data: Whole lines without document marks, from `clean` and `marks.divide`.
        first: Line number of the first line.
        columns: The columns of words and tags.
        keep_empty: Whether a row with tag O and no word breaks its sentence. By default such rows
            are dropped. Layers are scanned with True, so that every scan has the same words.
    """
    if not data.endswith(b"\n"):
        data += b"\n"
    chars = np.frombuffer(data, np.uint8)
    num_lines = int(np.count_nonzero(chars == NEWLINE))

    # Allocate for the worst case, one sentence per line. `sizes` returns the lengths in use.
    size = np.int32 if len(chars) < 2**31 else np.int64
    # The text is never longer than the lines: each loses its tag, and gains one separator.
    laid = np.empty(len(chars), np.uint8)
    words = np.empty((num_lines, 3), size)
    sentences = np.empty((num_lines + 1, 2), size)
    sizes = np.empty(4, np.int64)

    column_numbers = np.array([columns.word, columns.tag])
    # Files have few distinct tags. Scan again with more room if a file of labels has more.
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

    tagged = TaggedSentences(
        text=str(laid[:num_bytes].data, "utf-8"),
        bounds=words[:num_words, :2],
        tags=words[:num_words, 2],
        names=[data[start:stop].decode("utf-8") for start, stop in names[:num_tags].tolist()],
        offsets=sentences[: num_sentences + 1, 0],
        lines=sentences[:num_sentences, 1] + first,
        broken={},
    )

    # The kernel gives words of broken lines the tag -1, which indexes the last element of `good`.
    good = np.array([*map(columns.is_tag, tagged.names), False], np.bool_)
    if tagged.tags.min(initial=0) < 0 or not good[:-1].all():
        lines = _lines(data)
        is_empty = _are_empty(tagged, [] if keep_empty else lines, first, columns)
        is_broken = ~good[tagged.tags] & ~is_empty
        tagged.broken.update(_find_broken(tagged, is_broken, lines, first, columns))
        if is_empty.any():
            return _without_words(tagged, is_empty)
    return tagged


def _are_empty(
    tagged: TaggedSentences, lines: Sequence[str], first: int, columns: TagColumns
) -> npt.NDArray[np.bool_]:
    """Find rows with tag O and no word, bool `[W]`.

    A sentence that has no other rows keeps them, so that it does not disappear uncounted.
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
    """Drop words, bool `[W]`. The text is unchanged, so it keeps their spaces."""
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
    """Find the first broken line of each sentence; `is_broken` is bool `[W]`."""
    words = np.flatnonzero(is_broken)
    sentences = np.searchsorted(tagged.offsets, words, side="right") - 1
    sentences, nth = np.unique(sentences, return_index=True)

    # No line within a sentence is blank, so the n-th word is in the n-th line.
    numbers = tagged.lines[sentences] + words[nth] - tagged.offsets[sentences]
    return {
        # The kernel and `parse` agree on which lines are broken.
        sentence: BrokenLine(number, cast(Reason, columns.parse(lines[number - first])))
        for sentence, number in zip(sentences.tolist(), numbers.tolist(), strict=True)
    }
