"""Reads lines of columns, a word and its tag in each, into arrays of words, tags and sentences.

Any dialect of CoNLL files is read: columns between TABs or spaces, the tag in any of them, blank
lines between sentences. `kernels.lines.scan_lines` does the work; this module prepares its arrays,
and looks again, slowly, at lines that it found broken.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mslm_data.kernels.lines import MOST_FIELDS, NEWLINE, scan_lines
from mslm_data.source.reading.files import has_cr_lines
from mslm_data.source.reading.marks import BLANKS, MARK
from mslm_data.source.reading.records import NOT_UTF8
from mslm_data.source.reading.tags import Ints

HEAD_BYTES = 64 << 10
HEAD_LINES = 1000
"""How much of a file's beginning decides where its columns are."""

_DAMAGED = "\udcff"
"""Stands for a line that is not UTF-8. A lone surrogate cannot come from any line that is."""
_DAMAGED_LINE = re.compile(rf"^(?!{MARK.pattern}).*[\udc80-\udcff].*$", re.MULTILINE)
_FEW_TAGS = 1 << 9
"""Distinct tags that a scan makes room for at first."""


class BrokenLine(NamedTuple):
    """The first line of a sentence that cannot be used, and why."""

    line: int
    reason: str


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
    """The columns, from 0, that hold the word and its tag, and which words can be tags."""

    word: int
    tag: int
    is_tag: Callable[[str], bool]

    def parse(self, line: str) -> tuple[str, str] | str:
        """Return a line's word and tag, or else the reason why it is broken."""
        if line == _DAMAGED:
            return NOT_UTF8
        fields = fields_of(line)
        if not 2 <= len(fields) <= MOST_FIELDS or len(fields) <= max(self.word, self.tag):
            return f"expected a token and a tag, got {len(fields)} field(s)"
        if not fields[self.word].strip(BLANKS):
            return f"expected a token in column {self.word}, got an empty field"
        tag = fields[self.tag].strip(BLANKS)
        if not self.is_tag(tag):
            return f"expected a tag in column {self.tag}, got another word"
        return fields[self.word], tag


def fields_of(line: str) -> list[str]:
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
    if first == 1:
        data = data.removeprefix(BOM_UTF8)
        if has_cr_lines(data):
            data = data.replace(b"\r", b"\n")
    try:
        data.isascii() or data.decode("utf-8")
    except UnicodeDecodeError:
        text = _DAMAGED_LINE.sub(_DAMAGED, data.decode("utf-8", errors="surrogateescape"))
        data = text.encode("utf-8", "surrogatepass")
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").removesuffix(b"\r")
    return data


def head(beginning: bytes) -> list[tuple[int, str]]:
    """Return numbers and texts of a file's first lines, which decide how all of it is read.

    Args:
        beginning: The whole lines of the file's first `HEAD_BYTES`.
    """
    lines = _lines(clean(beginning), HEAD_LINES)
    return list(enumerate(lines[:HEAD_LINES], start=1))


def _lines(data: bytes, most: int = -1) -> list[str]:
    """Split into lines; what follows the first `most` of them stays in one piece."""
    return data.decode("utf-8", "surrogatepass").split("\n", most)


def find_columns(
    lines: Iterable[tuple[int, str]], *, word: int, tag: int | None, is_tag: Callable[[str], bool]
) -> TagColumns | BrokenLine:
    """Find the column of tags: the last one that holds a tag in more than half of the lines.

    More than half, as a few lines may be broken; the last, as chunks stand before mentions in CoNLL
    files.

    Args:
        lines: Numbers and texts of lines.
        word: Column of the word.
        tag: Column of the tag where it is known.
        is_tag: Which words can be tags.

    Returns:
        The columns, or the first broken line where most lines have another form.
    """
    rows = [
        (number, fields_of(line))
        for number, line in lines
        if line.strip(BLANKS) and not MARK.match(line)
    ]
    regular = [fields for _, fields in rows if 2 <= len(fields) <= MOST_FIELDS]

    for column in reversed(range(MOST_FIELDS)) if tag is None else [tag]:
        good = sum(
            column < len(fields) and is_tag(fields[column].strip(BLANKS)) for fields in regular
        )
        if column != word and (2 * good > len(rows) or not rows):
            return TagColumns(word, column, is_tag)

    for number, fields in rows:
        if not 2 <= len(fields) <= MOST_FIELDS:
            return BrokenLine(number, f"expected a token and a tag, got {len(fields)} field(s)")
    return BrokenLine(rows[0][0], "expected a token and a tag, got no column of tags")


def scan(data: bytes, *, first: int, columns: TagColumns) -> TaggedSentences:
    """Read lines into sentences.

    Args:
        data: Whole lines without document marks, as `clean` and `marks.divide` give them.
        first: Number of the first line.
        columns: Where word and tag stand.
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

    wanted = np.array([columns.word, columns.tag])
    room = _FEW_TAGS
    while True:
        names = np.empty((room, 2), np.int64)
        scan_lines(chars, wanted, names, np.full(2 * room, -1), laid, words, sentences, sizes)
        num_words, num_sentences, num_bytes, num_tags = sizes.tolist()
        if num_tags < room:
            break
        room *= 8

    found = TaggedSentences(
        text=str(laid[:num_bytes].data, "utf-8"),
        bounds=words[:num_words, :2],
        tags=words[:num_words, 2],
        names=[data[start:stop].decode("utf-8") for start, stop in names[:num_tags].tolist()],
        offsets=sentences[: num_sentences + 1, 0],
        lines=sentences[:num_sentences, 1] + first,
        broken={},
    )

    # The last place is that of tag -1, which the kernel gives to words of broken lines.
    good = np.array([*map(columns.is_tag, found.names), False], np.bool_)
    if found.tags.min(initial=0) < 0 or not good[:-1].all():
        found.broken.update(_broken(found, ~good[found.tags], _lines(data), first, columns))
    return found


def _broken(
    found: TaggedSentences,
    is_broken: npt.NDArray[np.bool_],
    lines: Sequence[str],
    first: int,
    columns: TagColumns,
) -> dict[int, BrokenLine]:
    """Return the first broken line of each sentence that has one; `is_broken` is bool `[W]`."""
    words = np.flatnonzero(is_broken)
    sentences = np.searchsorted(found.offsets, words, side="right") - 1
    sentences, nth = np.unique(sentences, return_index=True)

    # No line within a sentence is blank, so words count lines from the sentence's first.
    numbers = found.lines[sentences] + words[nth] - found.offsets[sentences]
    return {
        sentence: BrokenLine(number, str(columns.parse(lines[number - first])))
        for sentence, number in zip(sentences.tolist(), numbers.tolist(), strict=True)
    }
