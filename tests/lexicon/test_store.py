"""Lexicons in files; test_artefacts.py has what they share with score columns."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.ragged import Ragged
from mslm_data.errors import VocabularyError
from mslm_data.lexicon.artefacts import FORMAT, LEXICON
from mslm_data.lexicon.store import Lexicon, open_lexicon, read_lexicon, write_lexicon
from tests.lexicon.test_artefacts import ABOUT, write_arrow
from tests.support.properties import with_fixtures

Entry = tuple[Sequence[int], Sequence[int], float]
"""Tokens, starts of words, and score."""


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    tokens = draw(st.lists(st.integers(0, 39), min_size=1, max_size=5))
    starts = sorted(draw(st.sets(st.integers(1, len(tokens)), max_size=3)) - {len(tokens)})
    return tokens, [0, *starts], draw(st.floats(allow_nan=False, allow_infinity=False))


def lexicon_of(*rows: Entry) -> Lexicon:
    return Lexicon(
        tokens=Ragged.from_rows([tokens for tokens, _, _ in rows], np.int32),
        word_starts=Ragged.from_rows([starts for _, starts, _ in rows], np.int32),
        scores=np.array([score for _, _, score in rows], np.float64),
        about=ABOUT,
    )


@with_fixtures()
@given(rows=st.lists(entries(), max_size=6))
def test_read_lexicon__inverts_write_lexicon(rows: list[Entry], tmp_path: Path) -> None:
    write_lexicon(tmp_path / "a.arrow", lexicon_of(*rows))

    again = read_lexicon(tmp_path / "a.arrow")

    assert again.tokens.tolist() == [list(tokens) for tokens, _, _ in rows]
    assert again.word_starts.tolist() == [list(starts) for _, starts, _ in rows]
    assert again.scores.tolist() == [score for _, _, score in rows]
    assert again.words.tolist() == [len(starts) for _, starts, _ in rows]
    assert (again.tokens.values.dtype, again.tokens.offsets.dtype) == (np.int32, np.int64)
    assert len(again) == len(rows)
    assert again.about == {**ABOUT, "format": FORMAT}


IDS = r"entries of ids in \[0, 40\)"
FIRST = "a word at the first token of each entry"
RISING = "words that begin one after the other within their entry"
WRONG: dict[str, tuple[list[Entry], str]] = {
    "id too large": ([([40], [0], 1.0)], IDS),
    "negative id": ([([-1], [0], 1.0)], IDS),
    "empty entry": ([([], [0], 1.0)], IDS),
    "NaN": ([([1], [0], float("nan"))], "finite scores"),
    "infinite": ([([1], [0], float("inf"))], "finite scores"),
    "no word": ([([1], [0], 1.0), ([1], [], 1.0)], FIRST),
    "first word later": ([([1, 2], [1], 1.0)], FIRST),
    "words fall": ([([1, 2, 3], [0, 2, 1], 1.0)], RISING),
    "word twice": ([([1, 2], [0, 1, 1], 1.0)], RISING),
    "word behind the end": ([([1, 2], [0, 2], 1.0), ([1], [0], 1.0)], RISING),
}


@pytest.mark.parametrize(("rows", "message"), WRONG.values(), ids=WRONG)
def test_read_lexicon__refuses_invalid_entries(
    rows: list[Entry], message: str, tmp_path: Path
) -> None:
    path = write_arrow(tmp_path / "a.arrow", LEXICON, [list(of) for of in zip(*rows, strict=True)])

    with pytest.raises(VocabularyError, match=f"expected {message}; the file is damaged"):
        read_lexicon(path)


def test_read_lexicon__accepts_lists_with_an_offset(tmp_path: Path) -> None:
    lists = pa.ListArray.from_arrays(
        pa.array([2, 3], pa.int32()), pa.array([9, 9, 7, 9], pa.int32())
    )
    starts = pa.array([[0]], pa.list_(pa.int32()))
    LEXICON.write(tmp_path / "a.arrow", [lists, starts, pa.array([1.0])], ABOUT)

    assert read_lexicon(tmp_path / "a.arrow").tokens.tolist() == [[7]]


def test_open_lexicon__reads_a_replaced_file_of_equal_size_and_time(tmp_path: Path) -> None:
    path = tmp_path / "names.arrow"
    write_lexicon(path, lexicon_of(([7, 8, 9], [0, 2], 1.5)))
    before = path.stat()
    assert open_lexicon(path) is open_lexicon(path)

    write_lexicon(path, lexicon_of(([7, 8, 9], [0, 2], 2.5)))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert path.stat().st_size == before.st_size
    assert open_lexicon(path).scores.tolist() == [2.5]
