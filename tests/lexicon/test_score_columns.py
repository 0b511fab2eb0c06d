"""Score columns; test_artefacts.py has what their files share with lexicons."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.ragged import Ragged
from mslm_data.errors import VocabularyError
from mslm_data.lexicon import score_columns
from mslm_data.lexicon.artefacts import FORMAT, SCORE_COLUMN
from mslm_data.lexicon.score_columns import open_scores, write_scores
from tests.generate import examples_of, row_of
from tests.lexicon.test_artefacts import ABOUT, write_arrow
from tests.support.properties import with_fixtures

Rows = dict[int, list[float]]
"""Key -> a score for each token."""

some_rows = st.dictionaries(
    st.integers(0, 2**64 - 1),
    st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=2, max_size=7),
    max_size=9,
)


def write(folder: Path, rows: Rows, name: str = "train/data-00000-of-00001.arrow") -> Path:
    scores = Ragged.from_rows(list(rows.values()), np.float32)
    write_scores(folder / name, np.array(list(rows), np.uint64), scores, ABOUT)
    return folder


def examples(keys: Sequence[int], lengths: Sequence[int]) -> Any:
    """Return rows with these keys and numbers of tokens, including special tokens."""
    return examples_of(
        [row_of([size - 2], key=key) for key, size in zip(keys, lengths, strict=True)]
    )


@with_fixtures()
@given(rows=some_rows, data=st.data())
def test_gather__accepts_rows_in_any_order_and_of_several_files(
    rows: Rows, data: st.DataObject, tmp_path: Path
) -> None:
    split_of = {key: data.draw(st.sampled_from(["train", "test"])) for key in rows}
    for split in ("train", "test"):
        of_split = {key: row for key, row in rows.items() if split_of[key] == split}
        write(tmp_path, of_split, f"{split}/data.arrow")
    keys = data.draw(st.lists(st.sampled_from(sorted(rows)), max_size=12)) if rows else []
    asked = examples(keys, [len(rows[key]) for key in keys])

    scores = open_scores(tmp_path).gather(asked)

    assert scores.tolist() == [rows[key] for key in keys]
    assert scores.offsets.tolist() == asked.input_ids.offsets.tolist()
    assert (scores.values.dtype, scores.offsets.dtype) == (np.float32, np.int64)


@pytest.mark.parametrize(
    ("keys", "lengths", "message"),
    [
        ([3, 4, 2**64 - 1], [2, 2, 2], "2 of 3 rows have no scores"),
        ([3, 5], [2, 3], "the scores have other row lengths"),
    ],
)
def test_gather__refuses_other_rows(
    keys: list[int], lengths: list[int], message: str, tmp_path: Path
) -> None:
    column = open_scores(write(tmp_path, {3: [1, 2], 5: [1, 2], 2**64 - 2: [1, 2]}))

    with pytest.raises(VocabularyError, match=message):
        column.gather(examples(keys, lengths))


@pytest.mark.parametrize("in_memory", [0, score_columns.IN_MEMORY])
def test_open_scores__is_read_only_and_opened_once(
    in_memory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(score_columns, "IN_MEMORY", in_memory)

    column = open_scores(write(tmp_path, {3: [1, 2]}))

    assert not column.files[0].values.flags.writeable
    assert open_scores(tmp_path) is column
    assert column.about == {**ABOUT, "format": FORMAT}
    assert column.gather(examples([3], [2])).tolist() == [[1, 2]]


def test_open_scores__notices_changed_and_added_files(tmp_path: Path) -> None:
    before = open_scores(write(tmp_path, {3: [1, 2]}))
    write(tmp_path, {3: [5, 6]})

    again = open_scores(tmp_path)
    more = open_scores(write(tmp_path, {4: [7, 8]}, "test/data.arrow"))

    assert before.gather(examples([3], [2])).tolist() == [[1, 2]]
    assert again.gather(examples([3], [2])).tolist() == [[5, 6]]
    assert more.gather(examples([4, 3], [2, 2])).tolist() == [[7, 8], [5, 6]]


def test_open_scores__rows_of_one_key_must_be_equal(tmp_path: Path) -> None:
    write(tmp_path, {3: [1, 2], 4: [1, 2]})

    equal = open_scores(write(tmp_path, {3: [1, 2]}, "test/data.arrow"))
    assert equal.gather(examples([3], [2])).tolist() == [[1, 2]]
    write(tmp_path, {3: [1, 3], 4: [1, 2]}, "test/data.arrow")
    with pytest.raises(VocabularyError, match="1 keys belong to two rows with different scores"):
        open_scores(tmp_path)


def test_open_scores__files_of_different_options_refused(tmp_path: Path) -> None:
    write(tmp_path, {3: [1, 2]})
    keys, scores = np.array([4], np.uint64), Ragged.from_rows([[1.0, 2.0]], np.float32)
    other = {**ABOUT, "made": {"command": "other"}}
    write_scores(tmp_path / "validation" / "x.arrow", keys, scores, other)

    with pytest.raises(VocabularyError, match=r"validation/x.arrow: has another made than .*; mak"):
        open_scores(tmp_path)


@pytest.mark.parametrize("path", [".", "nothing"])
def test_open_scores__missing(path: str, tmp_path: Path) -> None:
    with pytest.raises(VocabularyError, match="expected a score column, found none; make it with"):
        open_scores(tmp_path / path)


@pytest.mark.parametrize("score", ["nan", "inf", "-inf"])
def test_open_scores__not_finite(tmp_path: Path, score: str) -> None:
    write_arrow(tmp_path / "train" / "x.arrow", SCORE_COLUMN, [[1], [[float(score)]]])

    with pytest.raises(
        VocabularyError, match="expected finite numbers, got NaN or infinity; the file is damaged"
    ):
        open_scores(tmp_path)
