"""Words of texts as arrays, and tries of terms over them: what stands between `terms` and its kernels."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mslm_data.data.document import Placeholder
from mslm_data.kernels import terms as kernels

Array = npt.NDArray[Any]

TAKEN_OUT = 0x110000
"""The code of characters in a placeholder: past all of Unicode, a word by itself that no term has."""

_BETWEEN = "\n\n"
_LINE_ENDS = "\n\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_ASSIGNED = (range(0x33480), range(0xE0000, 0xE0200))
"""Where letters, marks, white space and cases are; a test looks at all other characters."""


@dataclass(frozen=True, kw_only=True)
class Texts:
    """The words of several texts in one run of characters.

    Attributes:
        starts: int64 `[N]`, where each text begins.
        codes: uint32 `[C]`, characters as they are.
        folded: uint32 `[C]`, without their case, one for one.
        words: int32 `[W, 3]`; see `kernels.terms.find_words`.
    """

    starts: npt.NDArray[np.int64]
    codes: Array
    folded: Array
    words: Array


def texts_of(texts: Sequence[str], taken_out: Sequence[Sequence[Placeholder]] = ()) -> Texts:
    """Find the words of texts; the first word of each is `APART` from those before.

    Args:
        texts: Their lengths together under 2**30.
        taken_out: For each text its placeholders; they become characters that nothing matches.
    """
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    starts = np.cumsum(lengths + len(_BETWEEN)) - lengths - len(_BETWEEN)
    codes = np.frombuffer(_BETWEEN.join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
    if any(map(len, taken_out)):
        codes = codes.copy()
        for start, placeholders in zip(starts.tolist(), taken_out, strict=True):
            for first, past, *_ in placeholders:
                codes[start + first : start + past] = TAKEN_OUT
    kinds, folds = _tables()
    words, count = np.empty((len(codes), 3), np.int32), np.empty(1, np.int64)
    kernels.find_words(kinds[codes], words, count)
    return Texts(starts=starts, codes=codes, folded=folds[codes], words=words[: count[0]])


class Trie:
    """Terms that begin with the same words share them."""

    def __init__(self, texts: Texts, *, match_case: bool) -> None:
        """Put each text into the trie as one term.

        Args:
            texts: Each with a word at least.
            match_case: Whether words are compared as they are, or without their case.
        """
        self._match_case = match_case
        self._names = self._seen(texts)
        bounds = np.append(
            np.searchsorted(texts.words[:, 0], texts.starts), len(texts.words)
        ).astype(np.int64)
        self._edges = np.full((1 << (2 * len(texts.words)).bit_length(), 4), -1, np.int32)
        nodes = np.empty(len(texts.starts), np.int32)
        kernels.add_terms(
            self._names,
            texts.words,
            hashes_of(self._names, texts.words),
            bounds,
            self._edges,
            nodes,
        )
        self._order = np.argsort(nodes, kind="stable")
        num_nodes = int(self._edges[:, 3].max()) + 1
        self._bounds = np.searchsorted(nodes[self._order], np.arange(num_nodes + 1))
        self._ending = (np.diff(self._bounds) > 0).astype(np.uint8)

    def longest(self, texts: Texts) -> npt.NDArray[np.int32]:
        """Return for each word past which word the longest term that begins there ends, and its node, `[W, 2]`."""
        codes = self._seen(texts)
        hashes = hashes_of(codes, texts.words)
        out = np.empty((len(texts.words), 2), np.int32)
        kernels.longest_terms(
            codes, texts.words, hashes, self._names, self._edges, self._ending, out
        )
        return out

    def terms(self, node: int) -> Array:
        """Return the numbers of the terms that end at a node, rising."""
        return self._order[self._bounds[node] : self._bounds[node + 1]]

    def _seen(self, texts: Texts) -> Array:
        return texts.codes if self._match_case else texts.folded


def leftmost(past: npt.NDArray[np.int32]) -> Array:
    """Return the first words of terms that do not overlap, from the left; see `kernels.terms.leftmost_terms`."""
    out, count = np.empty(len(past), np.int32), np.empty(1, np.int64)
    kernels.leftmost_terms(past, out, count)
    return out[: count[0]]


def hashes_of(codes: Array, words: Array) -> Array:
    """Return the hashes of words, uint64 `[W]`; see `kernels.terms.hash_words`."""
    out = np.empty(len(words), np.uint64)
    kernels.hash_words(codes, words, out)
    return out


@cache
def _tables() -> tuple[Array, Array]:
    """Return the kind of each code, and the code of each character without its case; `[0x110001]` each."""
    kinds, folds = np.zeros(TAKEN_OUT + 1, np.uint8), np.arange(TAKEN_OUT + 1, dtype=np.uint32)
    for codes in _ASSIGNED:
        kinds[codes.start : codes.stop] = [_kind(chr(code)) for code in codes]
        folds[codes.start : codes.stop] = [ord(_fold(chr(code))) for code in codes]
    return kinds, folds


def _kind(character: str) -> int:
    if character.isalnum():
        return kernels.LETTER
    if character.isspace():
        if character == "\r":
            return kernels.CARRIAGE_RETURN
        return kernels.LINE_END if character in _LINE_ENDS else kernels.SPACE
    return kernels.MARK if unicodedata.category(character)[0] == "M" else kernels.OTHER


def _fold(character: str) -> str:
    """Return one character without its case: that of `ß` and `İ`, which would become two, stays."""
    folded = character.casefold()
    lower = character.lower()
    return folded if len(folded) == 1 else lower if len(lower) == 1 else character
