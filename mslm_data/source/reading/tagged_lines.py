"""Reads files of tagged words (CoNLL) into arrays of words, tags and sentences.

A line has one word and its tag, in any two columns. Columns are separated by TABs or spaces,
sentences by blank lines. `kernels.lines.scan_lines` reads the lines. This module allocates its
arrays, finds the columns, and parses broken lines again to explain what is wrong with them.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from mslm_data.data.reason import Reason
from mslm_data.kernels.lines import NEWLINE, scan_lines
from mslm_data.source.reading import tags
from mslm_data.source.reading.cells import can_be_shown
from mslm_data.source.reading.comments import CERTAIN, HASH, LIKELY
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


_SIGN = re.compile(r"[#;$%<>*/=@!|&~+]{1,2}")
"""Signs with which comments begin in some files."""


def _begins_with(sign: str) -> Reason:
    """Make the reason for a line that is no word and tag and begins with a sign."""
    return Reason(
        f"expected a token and a tag, got a line that begins with '{sign}'",
        advice={
            "comments": "if such lines are comments, skip them with "
            f"{{set}} 'source.comments=[\"{sign}\"]'"
        },
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
        header: The line that names the columns, "" if there is none. It is a comment.
        comments: Beginnings of comments that the user named.
    """

    word: int
    tag: int
    is_tag: Callable[[str], bool]
    tabs: bool = False
    header: str = ""
    comments: tuple[str, ...] = ()

    @property
    def beginnings(self) -> tuple[bytes, ...]:
        """Beginnings of lines that may be comments."""
        named = [self.header] if self.header else []
        return (*HASH, *map(str.encode, [*self.comments, *named]))

    def parse(self, line: str) -> tuple[str, str] | Reason:
        """Return the word and tag of a line, or the reason why the line is broken."""
        if line == _DAMAGED:
            return NOT_UTF8
        found = self._parse(line)
        sign = _SIGN.match(line)
        if sign and isinstance(found, Reason):
            return _begins_with(sign[0])
        return found

    def _parse(self, line: str) -> tuple[str, str] | Reason:
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

    def is_wordless(self, line: str) -> bool:
        """Return whether a row has a TAB and no word, and no mention begins with it.

        Some files have a row for each space, with the tag of the words around it.
        """
        fields = line.split("\t")
        if len(fields) <= max(self.word, self.tag) or fields[self.word].strip(BLANKS):
            return False
        tag = fields[self.tag].strip(BLANKS)
        return tag == "O" or (self.is_tag is tags.is_tag and tag.startswith(("I-", "I_")))

    def are_in(self, lines: Sequence[tuple[int, str]]) -> bool:
        """Return whether a file certainly has words and tags in these columns.

        The first line and nearly all others must have them, rows must have the same number of
        columns, and at least one tag is not O. A single line with spaces is not enough: it may be
        any sentence.
        """
        rows = [
            line
            for _, line in lines
            if line.strip(BLANKS)
            and line != self.header
            and not MARK.match(line)
            and not (line.startswith("#") and self.is_comment(line.encode()))
            and not self.is_wordless(line)
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
        """Return whether a line that begins with `#` or with one of `beginnings` is a comment.

        A document mark is not a comment. The header is, and a line with the form of a comment or
        with a beginning that the user named. Any other line is a comment if it has no word and
        tag, and either begins with `#` and a space or belongs to a file whose first column is not
        the word.
        """
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if MARK.match(text):
            return False
        if CERTAIN.match(text) or text.startswith(self.comments) or text == self.header:
            return True
        # Without tags, such as for labels, nearly any text parses as a row. Then only a TAB
        # decides.
        is_row = isinstance(self.parse(text), tuple) and ("\t" in text or not self.tabs)
        return not is_row and (self.word != 0 or LIKELY.match(text) is not None)


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
        header: The line that names the columns, "" if there is none.
        names: Column names in the header.
    """

    numbers: list[int]
    fields: list[list[str]]
    sentences: list[int]
    tabs: bool
    header: str
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
        header = ""
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
                header = line
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

    def columns(self, is_tag: Callable[[str], bool]) -> list[_Column]:
        """Return all columns, those of the longest rows too."""
        return [self.column(number, is_tag) for number in range(max(map(len, self.fields)))]

    def column(self, number: int, is_tag: Callable[[str], bool] = tags.is_tag) -> _Column:
        """Return a column, with "" for rows that are too short."""
        values = [row[number].strip(BLANKS) if number < len(row) else "" for row in self.fields]
        sentences = [values[start:stop] for start, stop in itertools.pairwise(self.sentences)]
        return _Column(values, sentences, is_tag, self.tabs or is_tag is not tags.is_tag)

    def are_even(self) -> bool:
        """Return whether nearly all rows have the same number of columns, at least two.

        A single row separated by spaces is rejected: it may be any sentence.
        """
        # A trailing separator leaves an empty last field, which is not counted.
        widths = Counter(len(fields) - (not fields[-1]) for fields in self.fields)
        width, number = widths.most_common(1)[0] if widths else (0, 0)
        is_one = len(self.numbers) == 1 and not self.tabs
        return width > 1 and number >= _MOST_OF * len(self.numbers) and not is_one


@dataclass(frozen=True, eq=False)
class _Column:
    """A column of a file's first rows, and the profile by which columns are told apart.

    Attributes:
        values: The value of each row.
        sentences: The values of each sentence.
        is_tag: Whether a word is a valid tag.
        may_be_bare: Whether all tags may be bare. In text separated by spaces, the words I and B
            look like bare tags; a column of tags also has an O or a label somewhere.
    """

    values: list[str]
    sentences: list[list[str]]
    is_tag: Callable[[str], bool]
    may_be_bare: bool

    @cached_property
    def has_tags(self) -> bool:
        """Whether most values are tags."""
        if 2 * sum(map(self.is_tag, self.values)) <= len(self.values):
            return False
        return self.may_be_bare or any(len(value) > 1 or value == "O" for value in self.values)

    @cached_property
    def labels(self) -> set[str]:
        """Labels of the tags with a prefix; "" for bare tags."""
        parsed = filter(None, map(tags.parse, set(self.values)))
        return {label for prefix, label in parsed if prefix != "O"}

    @cached_property
    def letters(self) -> float:
        """Share of the values that have a letter."""
        return sum(map(_has_letter, self.values)) / len(self.values)

    @cached_property
    def numbers_rows(self) -> bool:
        """Whether the values number the rows of each sentence.

        In nearly all rows, at least two, the number is one more than in the row before. In shorter
        files, rows are numbered from 1.
        """
        steps = [step for sentence in self.sentences for step in itertools.pairwise(sentence)]
        if len(steps) < _FEWEST_STEPS:
            return all(
                sentence == [str(1 + row) for row in range(len(sentence))]
                for sentence in self.sentences
            )
        good = sum(itertools.starmap(_follows, steps))
        return good >= _FEWEST_STEPS and good >= _MOST_OF * len(steps)

    @cached_property
    def is_constant(self) -> bool:
        """Whether each sentence has one value, such as a document id, and one has several rows."""
        return len(self.sentences) < len(self.values) and all(
            len(set(sentence)) == 1 and sentence[0] for sentence in self.sentences
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
    if not rows.numbers:
        # Without rows nothing is read. Any valid columns will do.
        first = word or 0
        return TagColumns(first, 1 + first if tag is None else tag, is_tag, header=rows.header)

    columns = rows.columns(is_tag)
    tagged = [number for number, column in enumerate(columns) if column.has_tags]
    if word is None:
        # Any word is a valid label, so only tags with prefixes rule out columns of words.
        word = _find_words(rows, columns, _tagged(rows) if is_tag is bool else tagged)
    candidates = [number for number in tagged if number != word and tag in (None, number)]
    if not candidates:
        raise _no_tags_error(rows)

    # Any word is a label: the last candidate, as the tag column is last in nearly all files.
    if is_tag is bool:
        return TagColumns(word, candidates[-1], is_tag, rows.tabs, rows.header)
    if tag is None and is_tag is tags.is_tag:
        candidates = _entities(rows, columns, candidates)
    if len(candidates) > 1:
        raise RecordError(
            f"expected one column of tags, got columns {_join_columns(candidates)} with tags"
            f"{rows.named(candidates)}; set [source] tag_column to one of them, or to {candidates} "
            "if they are layers of mentions",
            line=rows.numbers[0],
        )
    _check_are_tags(rows, columns[candidates[0]], candidates[0])
    is_tabbed = is_tag is not tags.is_tag and rows.tabs
    return TagColumns(word, candidates[0], is_tag, is_tabbed, rows.header)


class Labels(NamedTuple):
    """The columns of a file whose tags are labels without B- and I-.

    Attributes:
        columns: The columns.
        outside: Label outside mentions.
        are_suffixed: Whether all other labels are tags such as `LOC-B`.
    """

    columns: TagColumns
    outside: str
    are_suffixed: bool


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
        counts = Counter(rows.column(column).values)
        outside, num_outside = counts.most_common(1)[0]
        labels = [value for value in counts if value != outside]
        # A column of tags: the file is read with scheme "auto".
        if any(len(value) > 1 and tags.is_tag(value) for value in labels):
            return None
        are_labels = all(map(_LABEL.fullmatch, labels)) and len(labels) <= _MOST_LABELS
        # Labels repeat. In a column of words, nearly every value is distinct.
        repeat = 0 < 2 * len(labels) <= len(rows.numbers) - num_outside
        are_suffixed = _are_suffixed(labels)
        is_outside = outside == "O" or (outside == "0" and all(map(str.isupper, labels)))
        if are_labels and repeat and (is_outside or (are_suffixed and outside in tags.OUTSIDE)):
            matches.append((column, outside, are_suffixed))
    if len(matches) != 1:
        return None
    [(column, outside, are_suffixed)] = matches
    word = _find_words(rows, rows.columns(tags.is_tag), [])
    words = rows.column(word).values
    if sum(" " in value for value in words) > _FEW_NAMES * len(words):
        return None
    columns = TagColumns(word, column, bool, rows.tabs, rows.header)
    return Labels(columns, outside, are_suffixed)


def _are_suffixed(labels: Collection[str]) -> bool:
    """Return whether labels are tags such as `LOC-B` and `LOC-I`."""
    matches = [tags.SUFFIXED.match(label) for label in labels]
    return all(matches) and any(match["prefix"] in "BSU" for match in matches if match)


def find_scheme(
    lines: Iterable[tuple[int, str]], columns: TagColumns, outside: str
) -> Literal["auto", "suffix", "label"] | None:
    """Return the scheme that most labels of a file seem to follow, None without labels.

    Args:
        lines: Line number and text of a file's first lines.
        columns: Its columns.
        outside: Label outside mentions.
    """
    values = [
        value
        for value in _Rows.from_lines(lines).column(columns.tag).values
        if value not in ("", outside)
    ]
    if not values:
        return None
    num_tags = sum(len(value) > 1 and tags.is_tag(value) for value in values)
    if 2 * num_tags > len(values):
        return "auto"
    return "suffix" if _are_suffixed({*values} - tags.OUTSIDE) else "label"


def find_prefix(lines: Iterable[tuple[int, str]]) -> str:
    """Return the prefix of nearly all words, such as `en:` in WikiANN; "" if there is none."""
    words = _Rows.from_lines(lines).column(0).values
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
    try:
        columns = find_columns(listed, word=None, tag=None, is_tag=tags.is_tag)
    except RecordError as error:
        return str(error) if rows.are_even() and _tagged(rows) else ""

    # Lines with a sign may be comments, if all others are words and tags.
    parsed = [(line, columns.parse(line)) for _, line in listed if line.strip(BLANKS)]
    signs = Counter(
        sign[0]
        for line, found in parsed
        if isinstance(found, Reason) and (sign := _SIGN.match(line))
    )
    for usual, _ in signs.most_common(1):
        if columns.are_in([pair for pair in listed if not pair[1].startswith(usual)]):
            return (
                f"expected a token and a tag, got lines that begin with '{usual}'; if they are "
                f'comments, set [source] comments = ["{usual}"]'
            )
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
    columns = rows.columns(is_tag) if tag is None else [rows.column(tag, is_tag)]
    return not any(column.has_tags for column in columns)


def are_names(lines: Iterable[tuple[int, str]], outside: str) -> bool:
    """Return whether lines are multi-word names, such as a gazetteer, rather than tagged words.

    Names have different numbers of words, and never end with the label outside mentions.

    Args:
        lines: Line number and text of a file's first lines.
        outside: Label outside mentions.
    """
    fields = _Rows.from_lines(lines).fields
    return len(set(map(len, fields))) > 1 and all(row[-1] != outside for row in fields)


def _tagged(rows: _Rows) -> list[int]:
    """Return the columns with tags that have prefixes."""
    return [number for number, column in enumerate(rows.columns(tags.is_tag)) if column.has_tags]


def _find_words(rows: _Rows, columns: Sequence[_Column], tagged: Sequence[int]) -> int:
    """Find the column of words: the first one after row numbers and document ids.

    Raises:
        RecordError: Tags come first and several other columns may hold the words, or words have no
            letters.
    """
    # Columns with one value per sentence, such as a document id, may precede row numbers and tags.
    width = min(map(len, rows.fields))
    first = next(
        (n for n in range(width) if n in tagged or not columns[n].is_constant),
        0,
    )
    others = [number for number in range(first + 1, width) if number not in tagged]
    # Of few rows, numbers are only evidence beside more columns than CoNLL-2003 has.
    is_short = len(rows.numbers) - len(rows.sentences) + 1 < _FEWEST_STEPS
    found = 0
    if first in tagged and (others or not first):
        texts = [number for number in others if columns[number].letters > 0.5] or others
        if len(texts) != 1:
            got = f"columns {_join_columns(texts)}" if texts else "none"
            raise RecordError(
                f"expected one column of words behind the tags in column {first}, got {got}; name "
                "it with [source] word_column",
                line=rows.numbers[0],
            )
        [found] = texts
    elif others and columns[first].numbers_rows and not (is_short and width <= _FEW_COLUMNS):
        found = others[0]

    # The column may hold sentence numbers or offsets, or the file may have no words.
    has_others = any(number not in tagged for number in range(found + 1, width))
    if len(rows.numbers) >= _NOT_ALL_NUMBERS and has_others and not columns[found].letters:
        raise RecordError(
            f"expected words in column {found}, got values without any letter; name the column of "
            "words with [source] word_column, if the file has words",
            line=rows.numbers[0],
        )
    return found


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
            'B- and I-, set scheme = "label"; if they are tags such as X-B, set scheme = "suffix"; '
            'if they are brackets such as (ORG*, set scheme = "brackets"',
            advice=_NAME_THE_TAGS,
        ),
        line=rows.numbers[0],
    )


def _entities(rows: _Rows, columns: Sequence[_Column], candidates: Sequence[int]) -> list[int]:
    """Return the columns that may hold tags of entities, of those with tags.

    Raises:
        RecordError: All of them hold chunks.
    """
    found = [
        number
        for number in candidates
        if not columns[number].labels or columns[number].labels - CHUNKS
    ]
    if not found:
        raise RecordError(
            "expected tags of entities, got only chunks such as NP in column "
            f"{_join_columns(candidates)}; set [source] tag_column to read them",
            line=rows.numbers[0],
        )

    # The last column wins, unless an earlier one has labels: it may hold the entities.
    with_labels = [number for number in found if columns[number].labels]
    is_last = len(with_labels) <= 1 and found[-1] in (with_labels or found)
    return found[-1:] if is_last else found


def _check_are_tags(rows: _Rows, column: _Column, number: int) -> None:
    """Raise if most words of a tag column other than O are not tags, but for example labels."""
    values = [value for value in column.values if value != "O"]
    num_others = sum(not column.is_tag(value) for value in values)
    if num_others < _MANY or 2 * num_others <= len(values):
        return
    wanted = "tags such as B-X, I-X and O"
    advice = (
        'if they are labels, set [source] scheme = "label"; if they end with their prefix, as X-B '
        'and X-I, set scheme = "suffix"'
    )
    if column.is_tag is not tags.is_tag:
        wanted = "tags as [source] scheme wants them"
        advice = "build the files of each scheme by themselves, with --input"
    raise RecordError(
        f"expected {wanted} in column {number}, got other words in most lines without O; {advice}",
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
        keep_empty: Whether a row without a word breaks its sentence. By default such rows are
            dropped, unless a mention begins with them. Layers are scanned with True, so that every
            scan has the same words.
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
    """Find rows without a word that no mention needs, bool `[W]`; see `TagColumns.is_wordless`.

    A sentence that has no other rows keeps them, so that it does not disappear uncounted.
    """
    is_empty = np.zeros(len(tagged.tags), np.bool_)
    if not lines:
        return is_empty
    for word in np.flatnonzero((tagged.tags < 0) & (tagged.bounds[:, 0] == tagged.bounds[:, 1])):
        sentence = int(np.searchsorted(tagged.offsets, word, side="right")) - 1
        line = lines[tagged.lines[sentence] + word - tagged.offsets[sentence] - first]
        is_empty[word] = columns.is_wordless(line)
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
