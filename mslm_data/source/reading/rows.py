"""Lines of columns: which of them hold words and tags, and what stands in each sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mslm_data.kernels.lines import MOST_FIELDS, NEWLINE, scan_lines
from mslm_data.source.reading import inputs as files
from mslm_data.source.reading.marks import BLANKS, MARK
from mslm_data.source.reading.tags import Ints

_DAMAGED_LINE = re.compile(rf"^(?!{MARK.pattern}).*[\udc80-\udcff].*$", re.MULTILINE)
_HEAD_BYTES = 64 << 10
_HEAD_LINES = 1000
_DAMAGED = "\udcff"
_FEW_TAGS = 1 << 9
"""Distinct tags that a scan makes room for at first."""


class Problem(NamedTuple):
    """Why a sentence cannot be used, and in which line."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Sentences:
    """S consecutive sentences of W words in flat arrays, of int32 but where the text has 2 GiB and more.

    Attributes:
        text: The words, one space between words and one newline between sentences.
        bounds: `[W, 2]`, each word's characters in `text`, half open.
        tags: `[W]`, each word's tag.
        names: The tags: the field that each number stands for.
        offsets: `[S + 1]`, words of each sentence; each has one at least.
        lines: `[S]`, the number of each sentence's first line.
        problems: Sentence -> the first thing wrong with it. Its broken lines are words of no use, of any tag or -1.
    """

    text: str
    bounds: Ints
    tags: Ints
    names: list[str]
    offsets: Ints
    lines: Ints
    problems: dict[int, Problem]

    def problem(self, start: int, stop: int) -> Problem | None:
        """Return the first thing wrong with sentences `[start, stop)`; None where nothing is."""
        if not self.problems:
            return None
        return next((self.problems[s] for s in range(start, stop) if s in self.problems), None)


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns, from 0, hold the word and its tag, and what a tag may be."""

    word: int
    tag: int
    is_tag: Callable[[str], bool]

    def parse(self, line: str) -> tuple[str, str] | str:
        """Return a line's word and tag, or what is wrong with it."""
        if line == _DAMAGED:
            return "expected UTF-8, got other bytes"
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
    """Split a line at TABs or, where it has none, at runs of spaces; a leading space is an empty first field."""
    if "\t" in line:
        return line.split("\t")
    fields = [field for field in line.split(" ") if field]
    return ["", *fields] if line.startswith(" ") else fields


def clean(data: bytes, *, first: int = 1) -> bytes:
    """Return lines in UTF-8; CRLF becomes LF, and a line that is not UTF-8 one that `Columns.parse` refuses.

    Args:
        data: Whole lines.
        first: Number of the first; a byte order mark before the first of a file goes.
    """
    data = data.removeprefix(b"\xef\xbb\xbf") if first == 1 else data
    try:
        data.isascii() or data.decode("utf-8")
    except UnicodeDecodeError:
        text = _DAMAGED_LINE.sub(_DAMAGED, data.decode("utf-8", errors="surrogateescape"))
        data = text.encode("utf-8", "surrogatepass")
    return data.replace(b"\r\n", b"\n").removesuffix(b"\r") if b"\r" in data else data


def head(path: Path) -> list[tuple[int, str]]:
    """Return numbers and texts of a file's first lines, which say how all of it is to be read."""
    data = files.read_bytes(path, 0, _HEAD_BYTES)
    if len(data) == _HEAD_BYTES:
        data = data[: data.rfind(b"\n") + 1]
    return list(enumerate(_lines(clean(data), _HEAD_LINES)[:_HEAD_LINES], start=1))


def _lines(data: bytes, most: int = -1) -> list[str]:
    """Return lines as strings; what comes after the first `most`, if any, as one."""
    return data.decode("utf-8", "surrogatepass").split("\n", most)


def find_columns(
    lines: Iterable[tuple[int, str]], *, word: int, tag: int | None, is_tag: Callable[[str], bool]
) -> Columns | Problem:
    """Find the column of tags: the last in which more than half of the lines have one.

    More than half, because a few lines may be broken; the last, because chunks come before mentions.

    Args:
        lines: Numbers and texts of lines.
        word: Column of the word.
        tag: Column of the tag where it is known.
        is_tag: What a tag may be.

    Returns:
        The columns, or the first problem where most lines are of another form.
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
            return Columns(word, column, is_tag)
    for number, fields in rows:
        if not 2 <= len(fields) <= MOST_FIELDS:
            return Problem(number, f"expected a token and a tag, got {len(fields)} field(s)")
    return Problem(rows[0][0], "expected a token and a tag, got no column of tags")


def scan(data: bytes, *, first: int, columns: Columns) -> Sentences:
    """Take lines apart into sentences.

    Args:
        data: Whole lines without marks, as `clean` gives them.
        first: Number of the first.
        columns: Where word and tag stand.
    """
    data = data if data.endswith(b"\n") else data + b"\n"
    chars = np.frombuffer(data, np.uint8)
    lines = int(np.count_nonzero(chars == NEWLINE))
    wanted, laid = np.array([columns.word, columns.tag]), np.empty(len(chars), np.uint8)
    size = np.int32 if len(chars) < 2**31 else np.int64
    words, sentences = np.empty((lines, 3), size), np.empty((lines + 1, 2), size)
    known, sizes = _FEW_TAGS, np.empty(4, np.int64)
    while True:
        names = np.empty((known, 2), np.int64)
        scan_lines(chars, wanted, names, np.full(2 * known, -1), laid, words, sentences, sizes)
        num_words, num_sentences, num_bytes, met = sizes.tolist()
        if met < known:
            break
        known *= 8
    found = Sentences(
        text=str(laid[:num_bytes].data, "utf-8"),
        bounds=words[:num_words, :2],
        tags=words[:num_words, 2],
        names=[data[start:stop].decode("utf-8") for start, stop in names[:met].tolist()],
        offsets=sentences[: num_sentences + 1, 0],
        lines=sentences[:num_sentences, 1] + first,
        problems={},
    )
    good = np.array([*map(columns.is_tag, found.names), False], np.bool_)
    if found.tags.min(initial=0) < 0 or not good[:-1].all():
        found.problems.update(_problems(found, ~good[found.tags], _lines(data), first, columns))
    return found


def _problems(
    found: Sentences,
    broken: npt.NDArray[np.bool_],
    lines: Sequence[str],
    first: int,
    columns: Columns,
) -> dict[int, Problem]:
    """Say what is wrong with the first broken line of each sentence; `broken` `[W]` says which lines are."""
    words = np.flatnonzero(broken)
    sentences = np.searchsorted(found.offsets, words, side="right") - 1
    sentences, nth = np.unique(sentences, return_index=True)
    numbers = found.lines[sentences] + words[nth] - found.offsets[sentences]
    return {
        sentence: Problem(number, str(columns.parse(lines[number - first])))
        for sentence, number in zip(sentences.tolist(), numbers.tolist(), strict=True)
    }
