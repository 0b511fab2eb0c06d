"""Lexicons: scored sequences of sub-words, such as n-grams with their PMI.

`mslm-data vocab` makes them from shards; strategies read them. Three entries of a lexicon of
n-grams:

    tokens        [[1117, 4242, 4894], [1117, 22351], [9468, 4242, 4894]]
    word_starts   [[0, 1],             [0, 1],        [0, 1]]
    scores        [11.25,              9.5,           8.0]

Entry 0 has two words: token 0, and tokens 1 and 2. Its score is PMI in bits. A lexicon contains
token ids, not text, but ids can be decoded: a lexicon of patients' notes is as private as the
notes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mslm_data.data.ragged import Ragged
from mslm_data.io.arrow import numbers
from mslm_data.lexicon.artefacts import LEXICON, damaged


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lexicon:
    """E scored sequences of sub-words, in order of use.

    Attributes:
        tokens: int32, E rows: token ids of each entry, at least one, without special tokens.
        word_starts: int32, E rows: first token of each word within its entry; 0 first, increasing.
        scores: float64 `[E]`, finite. Their meaning depends on the command.
        about: Metadata as JSON values: `tokenizer`, SHA-256 of the tokenizer as in the manifest;
            `size`, its number of ids; `made`, the command with its options.
    """

    tokens: Ragged
    word_starts: Ragged
    scores: npt.NDArray[np.float64]
    about: Mapping[str, Any]

    @classmethod
    def from_words(
        cls, tokens: Ragged, scores: npt.NDArray[np.float64], about: Mapping[str, Any]
    ) -> Lexicon:
        """Return a lexicon whose entries are single words or ids."""
        starts = Ragged(np.zeros(len(tokens), np.int32), np.arange(len(tokens) + 1))
        return cls(tokens=tokens, word_starts=starts, scores=scores, about=about)

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def words(self) -> npt.NDArray[np.int64]:
        """Number of words of each entry, `[E]`."""
        return self.word_starts.lengths


def write_lexicon(path: Path, lexicon: Lexicon) -> None:
    """Write a lexicon as an Arrow file, readable by its owner only.

    Equal lexicons give equal bytes.
    """
    arrays = [
        _to_lists(lexicon.tokens),
        _to_lists(lexicon.word_starts),
        pa.array(lexicon.scores, pa.float64()),
    ]
    LEXICON.write(path, arrays, lexicon.about)


def read_lexicon(path: Path) -> Lexicon:
    """Read a lexicon and check all values.

    Raises:
        VocabularyError: The file is missing, not a lexicon, has a newer format, or is damaged.
    """
    about, (tokens, word_starts, scores) = LEXICON.read(path)

    lexicon = Lexicon(
        tokens=_to_ragged(tokens),
        word_starts=_to_ragged(word_starts),
        scores=numbers(scores),
        about=about,
    )
    expected = _find_violation(lexicon)
    if expected:
        raise damaged(path, expected)

    return lexicon


def open_lexicon(path: Path) -> Lexicon:
    """Read a lexicon, with a cache of the last 16 unchanged files.

    Raises:
        VocabularyError: The file is missing, not a lexicon, of a newer format, or damaged.
    """
    return _open_cached(path, LEXICON.version(path))


@lru_cache(maxsize=16)
def _open_cached(path: Path, version: tuple[int, int, int]) -> Lexicon:  # noqa: ARG001 - a key
    return read_lexicon(path)


def _find_violation(lexicon: Lexicon) -> str:
    """Return the first rule that a lexicon violates, worded to follow "expected", or ""."""
    size = lexicon.about["size"]
    tokens = lexicon.tokens
    starts = lexicon.word_starts

    if np.any(tokens.values < 0) or np.any(tokens.values >= size) or np.any(tokens.lengths < 1):
        return f"entries of ids in [0, {size})"

    if not np.isfinite(lexicon.scores).all():
        return "finite scores"

    # Count the first tokens of words from the first entry on, as tokens are. Words of an entry then
    # lie before the next entry, so that they rise over all entries.
    firsts = starts.values + np.repeat(tokens.offsets[:-1], starts.lengths)
    firsts = np.append(firsts, len(tokens.values))
    if np.any(firsts[starts.offsets[:-1]] != tokens.offsets[:-1]):
        return "a word at the first token of each entry"
    if np.any(np.diff(firsts) <= 0):
        return "words that begin one after the other within their entry"

    return ""


def _to_lists(rows: Ragged) -> pa.ListArray:
    return pa.ListArray.from_arrays(
        pa.array(rows.offsets, pa.int32()), pa.array(rows.values, pa.int32())
    )


def _to_ragged(lists: pa.ListArray) -> Ragged:
    # Offsets may start above 0 (a sliced array); `flatten` returns only values within the lists.
    offsets = numbers(lists.offsets).astype(np.int64)
    return Ragged(numbers(lists.flatten()), offsets - offsets[0])
