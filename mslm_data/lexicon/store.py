"""Lexicons: scored sequences of sub-words, such as n-grams by PMI.

`mslm-data vocab` makes them from shards and strategies read them. Three entries of a lexicon of
n-grams:

    tokens        [[1117, 4242, 4894], [1117, 22351], [9468, 4242, 4894]]
    word_starts   [[0, 1],             [0, 1],        [0, 1]]
    scores        [11.25,              9.5,           8.0]

Entry 0 has two words: its token 0, and its tokens 1 and 2. Its score is here PMI in bits. Entries
are token ids, so a lexicon holds no text; one made of patients' notes is still as private as the
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
from mslm_data.lexicon.artefacts import (
    LEXICON,
    damaged,
    missing,
    read_artefact,
    write_artefact,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lexicon:
    """E scored sequences of sub-words, in order of use.

    Attributes:
        tokens: int32, E rows: the ids of each entry, none of them special; no entry is empty.
        word_starts: int32, E rows: where each word of an entry begins, counted in its tokens; 0
            first, rising.
        scores: float64 `[E]`, all finite. What they mean depends on the command that made them.
        about: What made it, as JSON has it: `tokenizer`, the SHA-256 of the tokenizer as in the
            shards' manifest; `size`, its number of ids; `made`, the command with its options.
    """

    tokens: Ragged
    word_starts: Ragged
    scores: npt.NDArray[np.float64]
    about: Mapping[str, Any]

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def words(self) -> npt.NDArray[np.int64]:
        """Number of words per entry, `[E]`."""
        return self.word_starts.lengths


def write_lexicon(path: Path, lexicon: Lexicon) -> None:
    """Write a lexicon as an Arrow file, readable by its owner alone.

    Equal lexicons give equal bytes.
    """
    arrays = [
        _to_lists(lexicon.tokens),
        _to_lists(lexicon.word_starts),
        pa.array(lexicon.scores, pa.float64()),
    ]
    write_artefact(path, LEXICON, arrays, lexicon.about)


def read_lexicon(path: Path) -> Lexicon:
    """Read a lexicon and check every value.

    Raises:
        VocabularyError: The file is missing, not a lexicon, of a newer format, or damaged.
    """
    about, (tokens, word_starts, scores) = read_artefact(path, LEXICON)

    lexicon = Lexicon(
        tokens=_to_ragged(tokens),
        word_starts=_to_ragged(word_starts),
        scores=numbers(scores),
        about=about,
    )
    expected = _broken_law(lexicon)
    if expected:
        raise damaged(path, expected)

    return lexicon


def open_lexicon(path: Path) -> Lexicon:
    """Read a lexicon, with a cache of the last 16 unchanged files.

    Raises:
        VocabularyError: The file is missing, not a lexicon, of a newer format, or damaged.
    """
    try:
        status = path.stat()
    except OSError:
        raise missing(path, LEXICON) from None

    return _remembered(path, (status.st_ino, status.st_mtime_ns, status.st_size))


@lru_cache(maxsize=16)
def _remembered(path: Path, version: tuple[int, int, int]) -> Lexicon:  # noqa: ARG001 - a key
    return read_lexicon(path)


def _broken_law(lexicon: Lexicon) -> str:
    """Return the first rule that a lexicon breaks, worded to follow "expected", or ""."""
    size = lexicon.about["size"]
    tokens = lexicon.tokens
    starts = lexicon.word_starts

    if np.any(tokens.values < 0) or np.any(tokens.values >= size) or np.any(tokens.lengths < 1):
        return f"entries of ids in [0, {size})"

    if not np.isfinite(lexicon.scores).all():
        return "finite scores"

    first = starts.offsets[:-1]
    if np.any(starts.lengths < 1) or np.any(starts.values[first] != 0):
        return "a word at the first token of each entry"

    # The last start of an entry has no successor that it must be below.
    rising = np.diff(starts.values, append=0) > 0
    rising[starts.offsets[1:] - 1] = True
    inside = starts.values < np.repeat(tokens.lengths, starts.lengths)
    if not (rising.all() and inside.all()):
        return "words that begin one after the other within their entry"

    return ""


def _to_lists(rows: Ragged) -> pa.ListArray:
    return pa.ListArray.from_arrays(
        pa.array(rows.offsets, pa.int32()), pa.array(rows.values, pa.int32())
    )


def _to_ragged(lists: pa.ListArray) -> Ragged:
    # Lists may begin later in their values than at 0; `flatten` gives those within the lists only.
    offsets = numbers(lists.offsets).astype(np.int64)
    return Ragged(numbers(lists.flatten()), offsets - offsets[0])
