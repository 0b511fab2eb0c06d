"""Splits texts into words, as arrays for the kernels."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mslm_data.data.documents import Documents, Ints
from mslm_data.kernels import term_trie as kernels

Array = npt.NDArray[Any]

TAKEN_OUT = 0x110000
"""The code of characters in a placeholder, past all of Unicode: a word that no term has."""

_LINE_ENDS = "\n\v\f\x1c\x1d\x1e\x85\u2028\u2029"

_ASSIGNED = (range(0x33480), range(0xE0000, 0xE0200))
"""Where letters, marks, white space and cases are; a test looks at all other characters."""


@dataclass(frozen=True, kw_only=True)
class Texts:
    """The words of several texts on one line of characters.

    Attributes:
        starts: int64 `[N]`, first character of each text.
        codes: uint32 `[C]`, characters as they are.
        folded: uint32 `[C]`, the same characters without their case, one for one.
        words: int32 `[W, 3]`, words as `kernels.term_trie.split_text` writes them: first character,
            past the last, and the gap before.
    """

    starts: npt.NDArray[np.int64]
    codes: Array
    folded: Array
    words: Array

    def are_letters(self) -> npt.NDArray[np.bool_]:
        """Return which words consist of letters, digits and marks, `[W]`."""
        kinds, _ = _tables()
        return kinds[self.codes[self.words[:, 0]]] == kernels.LETTER  # type: ignore[no-any-return]


def find_text_words(
    codes: npt.NDArray[np.uint32], starts: Ints, taken_out: npt.NDArray[np.bool_] | None = None
) -> Texts:
    """Find the words of texts on a line; no term spans two texts.

    Args:
        codes: The characters of the line, fewer than 2**30, with white space between two texts.
        starts: int64 `[N]`, first character of each text, rising.
        taken_out: bool `[C]`, characters in placeholders, which nothing matches; None for none.
    """
    if taken_out is not None:
        codes = np.where(taken_out, np.uint32(TAKEN_OUT), codes)

    kinds, folds = _tables()
    room = np.empty((len(codes), 3), np.int32)
    words = room[: kernels.split_text(kinds[codes], room)]
    set_apart(words, starts)
    return Texts(starts=starts, codes=codes, folded=folds[codes], words=words)


def taken_out(documents: Documents) -> npt.NDArray[np.bool_] | None:
    """Return which characters lie in a placeholder; None if there is no placeholder."""
    marks = documents.placeholders
    if not len(marks.starts):
        return None

    steps = np.zeros(len(documents.line) + 1, np.int8)
    steps[marks.starts] += 1
    steps[marks.ends] -= 1
    return np.cumsum(steps[:-1], dtype=np.int8) > 0


def set_apart(words: Array, places: Ints) -> None:
    """Mark the first word at or after each position as separate from the word before it.

    Args:
        words: int32 `[W, 3]`, changed.
        places: Places on the line.
    """
    firsts = np.searchsorted(words[:, 0], places)
    words[firsts[firsts < len(words)], 2] = kernels.APART


@cache
def _tables() -> tuple[Array, Array]:
    """Return the kind of each code, and the case-folded code of each character.

    Both are `[0x110001]`.
    """
    kinds = np.zeros(TAKEN_OUT + 1, np.uint8)
    folds = np.arange(TAKEN_OUT + 1, dtype=np.uint32)
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
    """Case-fold one character.

    `ß` and `İ` would become two characters, so they stay.
    """
    folded = character.casefold()
    if len(folded) == 1:
        return folded
    lower = character.lower()
    return lower if len(lower) == 1 else character
