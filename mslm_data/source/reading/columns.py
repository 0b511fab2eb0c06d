"""Finds the columns of words and of tags (CoNLL) from a file's first rows.

The last column is no default for tags: in GermEval, it has the inner of two layers.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from mslm_data.data.reason import Reason
from mslm_data.source.reading import tags
from mslm_data.source.reading.cells import can_be_shown
from mslm_data.source.reading.comments import CERTAIN
from mslm_data.source.reading.marks import BLANKS, MARK
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.tagged_lines import (
    LAST,
    NAME_THE_TAGS,
    SIGN,
    TagColumns,
    find_blocks,
    head,
    is_title,
    split_fields,
)

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
_FEW_SHORT = 0.05
"""Minimum share of rows of another length in a file whose tags are in the last column."""
_MOST_DIGITS = 9
_HEADER = frozenset({"token", "tokens", "word", "words", "form"})
"""Names of the word column that identify a header line, in any case."""
_PREFIX = re.compile(r"[a-z]{2,3}(?:-[a-z]+)?:")
_LABEL = re.compile(r"[^\W\d_][\w./:+-]*")
_LABEL_OF_WORDS = re.compile(r"[^\W\d_][\w./:+ -]*")
_MOST_LABELS = 40
_OUTSIDE = frozenset({"o", "0", "other", "others", "none", "null", "out", "outside", "_", "-"})
"""Words that may be the label outside mentions, in any case."""
_FEW_NAMES = 0.1
"""Maximum share of words with a space in a column of words."""
_MANY = 10
"""Minimum number of rows that contradict the usual columns before others are taken."""


@dataclass(frozen=True, slots=True)
class FirstRows:
    """The first rows of a file, split into fields.

    Attributes:
        lines: All first lines: line number and text.
        numbers: Line number of each row.
        fields: Fields of each row.
        sentences: Index of the first row of each sentence, then the number of rows.
        tabs: Whether most rows contain TABs.
        header: The line that names the columns, "" if there is none.
        names: Column names in the header.
        has_titles: Whether `lines` lack the text of each sentence, which stands above its words.
    """

    lines: Sequence[tuple[int, str]]
    numbers: list[int]
    fields: list[list[str]]
    sentences: list[int]
    tabs: bool
    header: str
    names: list[str]
    has_titles: bool = False

    @classmethod
    def from_bytes(cls, beginning: bytes) -> FirstRows:
        """Take the rows in the whole lines of a file's beginning; see `from_lines`."""
        return cls.from_lines(head(beginning))

    @classmethod
    def from_lines(cls, lines: Sequence[tuple[int, str]]) -> FirstRows:
        """Take all lines except blank lines, document marks, probable comments and the header."""
        titles = _find_titles([line for _, line in lines])
        lines = [line for at, line in enumerate(lines) if at not in titles]
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
        bounds = [*sentences, len(numbers)]
        return cls(lines, numbers, fields, bounds, is_tabbed, header, names, bool(titles))

    def named(self, columns: Sequence[int]) -> str:
        """Return the names of columns in brackets, "" if there is no header."""
        if len(self.names) <= max(columns) or not all(map(can_be_shown, self.names)):
            return ""
        return f" ({', '.join(self.names[column] for column in columns)})"

    def named_word(self) -> int | None:
        """Return the column that the header names as that of words, None if there is none."""
        return next((n for n, name in enumerate(self.names) if _is_word(name)), None)

    def columns(self, is_tag: Callable[[str], bool]) -> list[_Column]:
        """Return all columns, those of the longest rows too."""
        return [self.column(number, is_tag) for number in range(max(map(len, self.fields)))]

    def column(self, number: int, is_tag: Callable[[str], bool] = tags.is_tag) -> _Column:
        """Return a column, with "" for rows that are too short."""
        values = [row[number].strip(BLANKS) if number < len(row) else "" for row in self.fields]
        sentences = [values[start:stop] for start, stop in itertools.pairwise(self.sentences)]
        return _Column(values, sentences, is_tag, self.tabs or is_tag is not tags.is_tag)

    def width(self) -> int:
        """Return the number of columns that nearly all rows have. Few rows are cut or broken."""
        return sorted(map(len, self.fields))[int((1 - _MOST_OF) * len(self.fields))]

    def end_with_tags(self) -> bool:
        """Return whether rows have different lengths, and nearly all end with a tag.

        So they do behind the output of MeCab, which has fewer columns for words it does not know.
        """
        usual = Counter(map(len, self.fields)).most_common(1)[0][0]
        others = [row[-1].strip(BLANKS) for row in self.fields if len(row) not in (1, usual)]
        if not self.tabs or len(others) < max(_MANY, _FEW_SHORT * len(self.fields)):
            return False
        num_tags = sum(map(tags.is_tag, others))
        return num_tags >= _MOST_OF * len(others) and self.column(LAST).has_tags

    def have_several(self, tag: int) -> bool:
        """Return whether words have any number of tags, in a column of tags and all behind it.

        Rows have different lengths, and nearly all longer rows have nothing but tags with labels
        there.
        """
        longer = [row[tag:] for row in self.fields if any(map(str.strip, row[tag + 1 :]))]
        shortest = sum(len(row) == tag + 1 for row in self.fields)
        good = sum(
            all(tags.label_of_several(value.strip(BLANKS)) is not None for value in row)
            for row in longer
        )
        return bool(longer) and shortest > 0 and good >= _MOST_OF * len(longer)

    def are_even(self) -> bool:
        """Return whether nearly all rows have the same number of columns, at least two.

        A single row separated by spaces is rejected: it may be any sentence.
        """
        # A trailing separator leaves an empty last field, which is not counted.
        widths = Counter(len(fields) - (not fields[-1]) for fields in self.fields)
        width, number = widths.most_common(1)[0] if widths else (0, 0)
        is_one = len(self.numbers) == 1 and not self.tabs
        return width > 1 and number >= _MOST_OF * len(self.numbers) and not is_one

    def fit(self, columns: TagColumns) -> bool:
        """Return whether the file certainly has words and tags in some columns.

        The first line and nearly all others must have them, rows must have the same number of
        columns, and at least one tag is not O. A single line with spaces is not enough: it may be
        any sentence. Nor is a table with a header, a column before the words and no blank lines:
        it numbers its sentences in that column.
        """
        if columns.header and columns.word and len(self.sentences) == 2:
            return False
        rows = [
            line
            for _, line in self.lines
            if line.strip(BLANKS)
            and line != columns.header
            and not MARK.match(line)
            and not (line.startswith("#") and columns.is_comment(line.encode()))
            and not columns.is_wordless(line)
        ]
        parsed = [columns.parse(line) for line in rows]
        pairs = [pair for pair in parsed if isinstance(pair, tuple)]
        return (
            any(tag != "O" for _, tag in pairs)
            and isinstance(parsed[0], tuple)
            and len(pairs) >= _MOST_OF * len(rows)
            and (columns.tag == LAST or columns.has_several or self.are_even())
            and (len(rows) < _NOT_ALL_NUMBERS or any(_has_letter(word) for word, _ in pairs))
        )


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
    def are_numbers(self) -> bool:
        """Whether all values are numbers."""
        return all(map(str.isdecimal, self.values))

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
        """Whether nearly all sentences of several rows have one value, such as a document id."""
        longer = [sentence for sentence in self.sentences if len(sentence) > 1]
        constant = sum(len(set(sentence)) == 1 and sentence[0] != "" for sentence in longer)
        return bool(longer) and constant >= _MOST_OF * len(longer)


def _find_titles(lines: Sequence[str]) -> set[int]:
    """Return the lines with the text of a sentence, if nearly all blocks of lines begin with one.

    The last block may be cut off.
    """
    blocks = find_blocks(lines)
    whole = blocks[:-1] or blocks
    num_titles = sum(is_title(lines[start:stop]) for start, stop in whole)
    if not num_titles or num_titles < _MOST_OF * len(whole):
        return set()
    return {start for start, stop in blocks if "\t" not in lines[start] and stop > start + 1}


def _are_names(row: Sequence[str]) -> bool:
    """Return whether a row is a header: it names a column of words, and has no tag."""
    is_named = len(row) > 1 and any(map(_is_word, row))
    return is_named and not any(tags.is_tag(value.strip(BLANKS)) for value in row)


def _is_word(name: str) -> bool:
    return name.strip(BLANKS).casefold() in _HEADER


def _follows(before: str, value: str) -> bool:
    return (
        before.isdecimal()
        and value.isdecimal()
        and max(len(before), len(value)) <= _MOST_DIGITS
        and int(value) == int(before) + 1
    )


def find_columns(
    rows: FirstRows,
    *,
    word: int | None,
    tag: int | None,
    is_tag: Callable[[str], bool],
) -> TagColumns:
    """Find the columns of words and of tags; see `Conll` for the rules.

    Args:
        rows: First rows of the file.
        word: Column of the word, if known.
        tag: Column of the tag or `LAST`, if known.
        is_tag: Whether a word is a valid tag.

    Raises:
        RecordError: Most lines have another form, or several columns may hold the tags.
    """
    if not rows.numbers:
        # Without rows nothing is read. Any valid columns will do.
        first = word or 0
        return TagColumns(first, 1 + first if tag is None else tag, is_tag, header=rows.header)

    columns = rows.columns(is_tag)
    tagged = [number for number, column in enumerate(columns) if column.has_tags]
    if word is None:
        word = rows.named_word()
    if word is None:
        # Any word is a valid label, so only tags with prefixes rule out columns of words.
        word = _find_words(rows, columns, _tagged(rows) if is_tag is bool else tagged)
    for column in [number for number in tagged if number != word][:1]:
        if tag is None and is_tag is tags.is_tag and rows.have_several(column):
            return TagColumns(word, column, is_tag, header=rows.header, has_several=True)
    if tag == LAST or (tag is None and is_tag is tags.is_tag and rows.end_with_tags()):
        return TagColumns(word, LAST, is_tag, is_tag is not tags.is_tag and rows.tabs, rows.header)
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
        is_certain: Whether `outside` is not a word that may be a value of any table, such as other.
    """

    columns: TagColumns
    outside: str
    are_suffixed: bool
    is_certain: bool


def find_labels(rows: FirstRows) -> Labels | None:
    """Find a column of labels without B- and I-, as in files of Stanford NER.

    Most rows have O in this column, the others one of a few labels. 0 is accepted beside labels in
    capitals, as tables of measurements are full of zeros; words such as `other` are a question.
    Words are those of a text: hardly any
    has a space, as names in a table do.

    Returns:
        None unless exactly one column matches.
    """
    if not rows.are_even():
        return None
    matches = []
    for column in range(rows.width()):
        counts = Counter(rows.column(column).values)
        outside, num_outside = counts.most_common(1)[0]
        labels = [value for value in counts if value not in ("", outside)]
        # A column of tags: the file is read with scheme "auto".
        if outside.casefold() in _OUTSIDE and any(
            len(value) > 1 and tags.is_tag(value) for value in labels
        ):
            return None
        # Only beside O, labels may have several words, which a table of measurements may have too.
        pattern = _LABEL_OF_WORDS if outside == "O" else _LABEL
        are_labels = all(map(pattern.fullmatch, labels)) and len(labels) <= _MOST_LABELS
        # Labels repeat. In a column of words, nearly every value is distinct.
        repeat = 0 < 2 * len(labels) <= len(rows.numbers) - num_outside
        are_suffixed = _are_suffixed(labels)
        is_certain = (
            outside == "O"
            or (outside == "0" and all(map(str.isupper, labels)))
            or (are_suffixed and outside in tags.OUTSIDE)
        )
        if are_labels and repeat and (is_certain or outside.casefold() in _OUTSIDE):
            matches.append((column, outside, are_suffixed, is_certain))
    if len(matches) != 1:
        return None
    [(column, outside, are_suffixed, is_certain)] = matches
    word = rows.named_word()
    if word is None:
        try:
            word = _find_words(rows, rows.columns(tags.is_tag), [column])
        except RecordError:
            return None
    words = rows.column(word).values
    if sum(" " in value for value in words) > _FEW_NAMES * len(words):
        return None
    columns = TagColumns(word, column, bool, rows.tabs, rows.header)
    return Labels(columns, outside, are_suffixed, is_certain)


def _are_suffixed(labels: Collection[str]) -> bool:
    """Return whether labels are tags such as `LOC-B` and `LOC-I`."""
    matches = [tags.SUFFIXED.match(label) for label in labels]
    return all(matches) and any(match["prefix"] in "BSU" for match in matches if match)


def find_scheme(
    rows: FirstRows, columns: TagColumns, outside: str
) -> Literal["auto", "suffix", "label"] | None:
    """Return the scheme that most labels of a file seem to follow, None without labels.

    Args:
        rows: First rows of the file.
        columns: Its columns.
        outside: Label outside mentions.
    """
    values = [value for value in rows.column(columns.tag).values if value not in ("", outside)]
    if not values:
        return None
    num_tags = sum(len(value) > 1 and tags.is_tag(value) for value in values)
    if 2 * num_tags > len(values):
        return "auto"
    return "suffix" if _are_suffixed({*values} - tags.OUTSIDE) else "label"


def find_prefix(rows: FirstRows) -> str:
    """Return the prefix of nearly all words, such as `en:` in WikiANN; "" if there is none."""
    words = rows.column(0).values
    prefixes = Counter(match[0] for word in words if (match := _PREFIX.match(word)))
    if len(words) < _NOT_ALL_NUMBERS or not prefixes:
        return ""
    prefix, number = prefixes.most_common(1)[0]
    return prefix if number >= _MOST_OF * len(words) else ""


def falls_short(rows: FirstRows) -> str:
    """Return why the columns of lines with tags cannot be found.

    Returns:
        "" if they can be found, or if the lines are of another kind.
    """
    try:
        columns = find_columns(rows, word=None, tag=None, is_tag=tags.is_tag)
    except RecordError as error:
        return str(error) if rows.are_even() and _tagged(rows) else ""

    # Lines with a sign may be comments, if all others are words and tags.
    parsed = [(line, columns.parse(line)) for _, line in rows.lines if line.strip(BLANKS)]
    signs = Counter(
        sign[0]
        for line, found in parsed
        if isinstance(found, Reason) and (sign := SIGN.match(line))
    )
    for usual, _ in signs.most_common(1):
        others = [pair for pair in rows.lines if not pair[1].startswith(usual)]
        if FirstRows.from_lines(others).fit(columns):
            return (
                f"expected a token and a tag, got lines that begin with '{usual}'; if they are "
                f'comments, set [source] comments = ["{usual}"]'
            )
    return ""


def have_no_tags(rows: FirstRows, tag: int | None, is_tag: Callable[[str], bool]) -> bool:
    """Return whether lines are not words with tags, but for example a list or running text.

    True if nine of ten lines have a single column, or if no column holds tags in most lines.

    Args:
        rows: First rows of the file.
        tag: Column of the tag, if known.
        is_tag: Whether a word is a valid tag.
    """
    alone = sum(len(fields) < 2 for fields in rows.fields)
    if not rows.numbers or alone >= _MOST_OF * len(rows.numbers):
        return True
    columns = rows.columns(is_tag) if tag is None else [rows.column(tag, is_tag)]
    return not any(column.has_tags for column in columns)


def are_names(rows: FirstRows, outside: str) -> bool:
    """Return whether lines are multi-word names, such as a gazetteer, rather than tagged words.

    Names have different numbers of words, and never end with the label outside mentions.

    Args:
        rows: First rows of the file.
        outside: Label outside mentions.
    """
    return len(set(map(len, rows.fields))) > 1 and all(row[-1] != outside for row in rows.fields)


def _tagged(rows: FirstRows) -> list[int]:
    """Return the columns with tags that have prefixes."""
    return [number for number, column in enumerate(rows.columns(tags.is_tag)) if column.has_tags]


def _find_words(rows: FirstRows, columns: Sequence[_Column], tagged: Sequence[int]) -> int:
    """Find the column of words: the first one after row numbers and document ids.

    Raises:
        RecordError: Tags come first and several other columns may hold the words, or words have no
            letters.
    """
    # Columns with one value per sentence, such as a document id, may precede row numbers and tags.
    width = rows.width()
    first = next(
        (n for n in range(width) if n in tagged or not columns[n].is_constant),
        0,
    )
    others = [number for number in range(first + 1, width) if number not in tagged]
    # Of few rows, numbers are only evidence beside more columns than CoNLL-2003 has.
    is_short = len(rows.numbers) - len(rows.sentences) + 1 < _FEWEST_STEPS
    found = 0 if first in tagged else first
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

    # Offsets precede words.
    lettered = [n for n in range(found + 1, width) if n not in tagged and columns[n].letters]
    if lettered and len(rows.numbers) >= _NOT_ALL_NUMBERS and columns[found].are_numbers:
        found = lettered[0]

    # The column may hold sentence numbers or others, or the file may have no words.
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


def _no_tags_error(rows: FirstRows) -> RecordError:
    """Make the error for a file in which most lines have no tag."""
    if rows.width() < 2:
        number = next(n for n, row in zip(rows.numbers, rows.fields, strict=True) if len(row) < 2)
        return RecordError(
            Reason(
                "expected a token and a tag, got 1 field(s), as in most lines; check [source] use",
                code="fields of most lines",
                advice=NAME_THE_TAGS,
            ),
            line=number,
        )
    return RecordError(
        Reason(
            "expected a token and a tag, got no column of tags in most lines; check [source] use, "
            "or name the columns with word_column and tag_column; if the tags are labels without "
            'B- and I-, set scheme = "label"; if they are tags such as X-B, set scheme = "suffix"; '
            'if they are brackets such as (ORG*, set scheme = "brackets"',
            advice=NAME_THE_TAGS,
        ),
        line=rows.numbers[0],
    )


def _entities(rows: FirstRows, columns: Sequence[_Column], candidates: Sequence[int]) -> list[int]:
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


def _check_are_tags(rows: FirstRows, column: _Column, number: int) -> None:
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
