"""Splits texts into words, as arrays for the kernels."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mslm_data.data.documents import Documents, Ints
from mslm_data.data.ragged import make_offsets
from mslm_data.kernels import term_trie as kernels

Array = npt.NDArray[Any]

PLACEHOLDER = 0x110000
"""Code for characters in placeholders, beyond Unicode, so that no term matches it."""

_LINE_ENDS = "\n\v\f\x1c\x1d\x1e\x85\u2028\u2029"

_ASSIGNED = (range(0x33480), range(0xE0000, 0xE0200))
"""Ranges with all letters, marks, white space and case pairs of Unicode; a test checks this."""


@dataclass(frozen=True, kw_only=True)
class Texts:
    """The W words of N texts on a line of C characters.

    Rows of `words` for `Heart failure.`::

        word  start  end  gap
           0      0    5    2
           1      6   13    1
           2     13   14    0

    Word 0 is the first of its text (`APART`). Word 1 follows white space, word 2 has no gap.

    Attributes:
        starts: int64 `[N]`, first character of each text.
        codes: uint32 `[C]`, code points.
        folded: uint32 `[C]`, case-folded code points.
        words: int32 `[W, 3]`, first character, character after the last, and gap before the word,
            see `kernels.term_trie.split_text`.
    """

    starts: npt.NDArray[np.int64]
    codes: Array
    folded: Array
    words: Array

    def are_letters(self) -> npt.NDArray[np.bool_]:
        """Return whether each word consists of letters, digits and marks, bool `[W]`."""
        kinds, _ = _tables()
        return kinds[self.codes[self.words[:, 0]]] == kernels.LETTER  # type: ignore[no-any-return]


def find_document_words(documents: Documents) -> Texts:
    """Find the words of documents. No term matches in a placeholder, or spans two documents."""
    return find_text_words(documents.codes(), documents.starts, _placeholder_mask(documents))


def find_name_words(names: Sequence[str]) -> Texts:
    """Find the words of names, each a text of its own."""
    line = "\n".join(names)
    lengths = np.fromiter(map(len, names), np.int64, len(names))
    codes = np.frombuffer(line.encode("utf-32-le", "surrogatepass"), np.uint32)
    return find_text_words(codes, make_offsets(lengths + 1)[:-1])


def find_text_words(
    codes: npt.NDArray[np.uint32],
    starts: Ints,
    in_placeholder: npt.NDArray[np.bool_] | None = None,
) -> Texts:
    """Find the words of texts on a line. No term spans two texts.

    Args:
        codes: uint32 `[C]`, code points of the line, fewer than 2**30, with white space between
            texts.
        starts: int64 `[N]`, sorted first character of each text.
        in_placeholder: bool `[C]`, whether a character is in a placeholder, where no term matches.
            Default: None, no placeholders.
    """
    if in_placeholder is not None:
        codes = np.where(in_placeholder, np.uint32(PLACEHOLDER), codes)

    kinds, folds = _tables()
    room = np.empty((len(codes), 3), np.int32)
    words = room[: kernels.split_text(kinds[codes], room)]
    set_apart(words, starts)
    return Texts(starts=starts, codes=codes, folded=folds[codes], words=words)


def _placeholder_mask(documents: Documents) -> npt.NDArray[np.bool_] | None:
    """Return whether each character is in a placeholder, bool `[C]`; None for no placeholders."""
    marks = documents.placeholders
    if not len(marks.starts):
        return None

    # Cumulative sums of +1 at starts and -1 at ends.
    steps = np.zeros(len(documents.line) + 1, np.int8)
    steps[marks.starts] += 1
    steps[marks.ends] -= 1
    return np.cumsum(steps[:-1], dtype=np.int8) > 0


def set_apart(words: Array, places: Ints) -> None:
    """Separate the first word at or after each position from the word before: no term spans both.

    Args:
        words: int32 `[W, 3]`, see `Texts`; changed.
        places: Positions on the line.
    """
    firsts = np.searchsorted(words[:, 0], places)
    words[firsts[firsts < len(words)], 2] = kernels.APART


@cache
def _tables() -> tuple[Array, Array]:
    """Return the kind and the case-folded code of each code, `[0x110001]`."""
    kinds = np.zeros(PLACEHOLDER + 1, np.uint8)
    folds = np.arange(PLACEHOLDER + 1, dtype=np.uint32)
    for codes in _ASSIGNED:
        kinds[codes.start : codes.stop] = [_kind(chr(code)) for code in codes]
        folds[codes.start : codes.stop] = [ord(_fold(chr(code))) for code in codes]
    return kinds, folds


def _kind(character: str) -> int:
    if character.isalnum():
        return kernels.LETTER
    if character == "\r":
        return kernels.CARRIAGE_RETURN
    if character in _LINE_ENDS:
        return kernels.LINE_END
    if character.isspace():
        return kernels.SPACE
    if unicodedata.category(character)[0] == "M":
        return kernels.MARK
    return kernels.OTHER


def _fold(character: str) -> str:
    """Case-fold a character to a single character."""
    # Keep `ß` and `İ`, which would become two characters.
    folded = character.casefold()
    if len(folded) == 1:
        return folded
    lower = character.lower()
    return lower if len(lower) == 1 else character
