"""Lays texts on one line of characters, and finds their words, as arrays for the kernels."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mslm_data.data.document import Placeholder
from mslm_data.kernels import term_trie as kernels

Array = npt.NDArray[Any]

TAKEN_OUT = 0x110000
"""The code of characters in a placeholder, past all of Unicode: a word that no term has."""

_BETWEEN = "\n\n"
"""Stands between two texts on the line. No term reaches across two line ends."""

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


def texts_of(texts: Sequence[str], taken_out: Sequence[Sequence[Placeholder]] = ()) -> Texts:
    """Find the words of texts; the first word of each is `APART` from those before.

    Args:
        texts: Texts whose lengths together are under 2**30.
        taken_out: For each text its placeholders; they become characters that nothing matches.
            Empty if no text has any.
    """
    lengths = np.fromiter(map(len, texts), np.int64, len(texts)) + len(_BETWEEN)
    starts = np.cumsum(lengths) - lengths
    codes = np.frombuffer(_BETWEEN.join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)

    if any(map(len, taken_out)):
        codes = codes.copy()
        for start, placeholders in zip(starts.tolist(), taken_out, strict=True):
            for first, past, *_ in placeholders:
                codes[start + first : start + past] = TAKEN_OUT

    kinds, folds = _tables()
    words = np.empty((len(codes), 3), np.int32)
    count = kernels.split_text(kinds[codes], words)
    return Texts(starts=starts, codes=codes, folded=folds[codes], words=words[:count])


@cache
def _tables() -> tuple[Array, Array]:
    """Return the kind of each code, and the code of each character without its case.

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
    """Return one character without its case.

    `ß` and `İ` would become two characters, so they stay.
    """
    folded = character.casefold()
    if len(folded) == 1:
        return folded
    lower = character.lower()
    return lower if len(lower) == 1 else character
