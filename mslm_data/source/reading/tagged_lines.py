"""Reads files of tagged words (CoNLL) into arrays of words, tags and sentences.

A line has one word and its tag, in any two columns; `columns` finds them. Columns are separated by
TABs or spaces, sentences by blank lines. `kernels.lines.scan_lines` reads the lines. This module
allocates its arrays, and parses broken lines again to explain what is wrong with them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from mslm_data.data.reason import Reason
from mslm_data.kernels.lines import NEWLINE, scan_lines
from mslm_data.source.reading import tags
from mslm_data.source.reading.comments import CERTAIN, HASH, LIKELY
from mslm_data.source.reading.files import plain_lines
from mslm_data.source.reading.marks import BLANKS, MARK
from mslm_data.source.reading.records import NOT_UTF8
from mslm_data.source.reading.tags import Ints

NAME_THE_TAGS = {"tag_column": "name the column of tags with source.tag_column"}


def not_a_tag(column: str | int) -> Reason:
    """Make the reason for a sentence whose tag column contains another word."""
    return Reason(
        f"expected a tag in column {column}, got another word; if the tags are labels without "
        'B- and I-, set [source] scheme = "label"',
        advice=NAME_THE_TAGS,
    )


SIGN = re.compile(r"[#;$%<>*/=@!|&~+]{1,2}")
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
LAST = -1
"""Number of the last column, whatever the number of columns of a row."""
_FEW_TAGS = 1 << 9
"""Initial capacity for distinct tags in a scan."""


_LONGEST = 1000
"""Minimum number of words of a sentence that cannot be one."""


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
        tag: Column of the tag, or `LAST`.
        is_tag: Whether a word is a valid tag.
        tabs: Whether a line that looks like a comment must contain a TAB to be read as a row. Set
            for files in which nearly any word is a valid tag.
        header: The line that names the columns, "" if there is none. It is a comment.
        comments: Beginnings of comments that the user named.
        has_titles: Whether the text of each sentence stands in a line above its words.
        has_several: Whether words have any number of tags, in the column of tags and all behind it.
    """

    word: int
    tag: int
    is_tag: Callable[[str], bool]
    tabs: bool = False
    header: str = ""
    comments: tuple[str, ...] = ()
    has_titles: bool = False
    has_several: bool = False

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
        sign = SIGN.match(line)
        if sign and isinstance(found, Reason):
            return _begins_with(sign[0])
        return found

    def _parse(self, line: str) -> tuple[str, str] | Reason:
        fields = split_fields(line)
        if len(fields) <= max(self.word, self.tag) or (self.tag == LAST and len(fields) < 2):
            return Reason(
                f"expected a token and a tag, got {len(fields)} field(s)",
                code="fields of a token",
                advice=NAME_THE_TAGS,
            )
        if not fields[self.word].strip(BLANKS):
            return Reason(f"expected a token in column {self.word}, got an empty field")
        tag = _join_tags(fields[self.tag :]) if self.has_several else fields[self.tag].strip(BLANKS)
        if not self.is_tag(tag):
            return not_a_tag(self.tag)
        return fields[self.word], tag

    def is_wordless(self, line: str) -> bool:
        """Return whether a row has no word, and no mention begins with it.

        Some files have a row for each space, with the tag of the words around it.
        """
        fields = split_fields(line)
        if len(fields) <= max(self.word, self.tag) or fields[self.word].strip(BLANKS):
            return False
        tag = fields[self.tag].strip(BLANKS)
        return tag in ("O", "o") or (
            self.is_tag is tags.is_tag and tag.startswith(("I-", "I_", "i-", "i_"))
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


def without_titles(data: bytes) -> bytes:
    """Empty the lines with the text of a sentence above its words, so that no line moves."""
    lines = _lines(data)
    for start, stop in find_blocks(lines):
        if is_title(lines[start:stop]):
            lines[start] = ""
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def find_blocks(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Return the half-open ranges of lines between blank lines."""
    bounds = [-1, *(n for n, line in enumerate(lines) if not line.strip(BLANKS)), len(lines)]
    return [(last + 1, stop) for last, stop in itertools.pairwise(bounds) if last + 1 < stop]


def is_title(block: Sequence[str]) -> bool:
    """Return whether the first line of a block is the text of the words in a column below it."""
    title, *rows = block
    fields = [row.split("\t") for row in rows]
    width = min(map(len, fields), default=0)
    if "\t" in title or width < 2:
        return False
    text = "".join(title.split())
    return any(
        "".join("".join(row[column].split()) for row in fields) == text for column in range(width)
    )


def scan(
    data: bytes,
    *,
    first: int,
    columns: TagColumns,
    keep_empty: bool = False,
    is_whole: bool = False,
) -> TaggedSentences:
    """Read lines into sentences.

    Args:
        data: Whole lines without document marks, from `clean` and `marks.divide`.
        first: Line number of the first line.
        columns: The columns of words and tags. If the tag is in the last one, or words have several
            tags, the columns are reduced to two first, which takes several times longer.
        keep_empty: Whether a row without a word breaks its sentence. By default such rows are
            dropped, unless a mention begins with them. Layers are scanned with True, so that every
            scan has the same words.
        is_whole: Whether the lines are a whole file. If it is one long sentence, as there are no
            blank lines, broken lines are sentences of their own, so that the others are read.
    """
    if not data.endswith(b"\n"):
        data += b"\n"
    if columns.tag == LAST or columns.has_several:
        data = _with_two_columns(data, columns)
        columns = replace(columns, word=0, tag=1, has_several=False)
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
        if is_whole and not keep_empty and len(tagged.lines) == 1 and len(is_broken) > _LONGEST:
            tagged = _divide_at(tagged, is_broken)
        tagged.broken.update(_find_broken(tagged, is_broken, lines, first, columns))
        if is_empty.any():
            return _without_words(tagged, is_empty)
    return tagged


def _with_two_columns(data: bytes, columns: TagColumns) -> bytes:
    """Keep the word and the tag or tags of each row. Rows with too few columns stay as they are."""
    lines = _lines(data)
    for number, line in enumerate(lines):
        fields = split_fields(line)
        if len(fields) > max(columns.word, columns.tag) and len(fields) > 1:
            tag = _join_tags(fields[columns.tag :]) if columns.has_several else fields[-1]
            lines[number] = f"{fields[columns.word]}\t{tag}"
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _join_tags(fields: Sequence[str]) -> str:
    """Join the tags of a word, as in `B-LOC|B-ORG`; see `tags.decode_tags`.

    Returns:
        The joined tags, or the only one. "" if they cannot be told apart afterwards: one of several
        has no label or is no tag, or two have the same label.
    """
    found = [field for field in map(_strip, fields) if field]
    if len(found) < 2:
        return "".join(found)
    labels = [tags.label_of_several(tag) for tag in found]
    named = [label for label in labels if label]
    if None in labels or len(set(named)) < len(named):
        return ""
    return "|".join(found)


def _strip(field: str) -> str:
    return field.strip(BLANKS)


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


def _divide_at(tagged: TaggedSentences, is_broken: npt.NDArray[np.bool_]) -> TaggedSentences:
    """Make each broken line of the only sentence a sentence; `is_broken` is bool `[W]`."""
    broken = np.flatnonzero(is_broken)
    bounds = [0, *broken, *(broken + 1), len(is_broken)]
    offsets = np.unique(bounds).astype(tagged.offsets.dtype)
    return replace(tagged, offsets=offsets, lines=tagged.lines[0] + offsets[:-1])


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
