from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.ragged import Ragged
from mslm_data.errors import VocabularyError
from mslm_data.lexicon import score_columns
from mslm_data.lexicon.artefacts import FORMAT
from mslm_data.lexicon.score_columns import open_scores, write_scores
from tests.generate import examples_of, row_of
from tests.lexicon.test_store import flipped
from tests.support.properties import with_fixtures

ABOUT = {"tokenizer": "0" * 64, "size": 40, "made": {"command": "test"}}
quick = with_fixtures()
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


def arrow(
    path: Path,
    keys: Any = (1,),
    scores: Any = ([1.0, 2.0],),
    *,
    about: Any = "usual",
    times: int = 1,
) -> Path:
    """Write an Arrow file with our metadata and any columns."""
    keys = keys if isinstance(keys, pa.Array) else pa.array(keys, pa.uint64())
    lists = scores if isinstance(scores, pa.Array) else pa.array(scores, pa.list_(pa.float32()))
    text = about if isinstance(about, str) else json.dumps(about)
    text = json.dumps({**ABOUT, "format": FORMAT}) if about == "usual" else text
    schema = pa.schema(
        {"key": keys.type, "scores": lists.type}, metadata={"mslm_data_scores": text}
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for _ in range(times):
            writer.write_batch(pa.record_batch([keys, lists], schema=schema))
    return path.parents[1]


@quick
@given(rows=some_rows, data=st.data())
def test_of__accepts_rows_in_any_order_and_of_several_files(
    rows: Rows, data: st.DataObject, tmp_path: Path
) -> None:
    split_of = {key: data.draw(st.sampled_from(["train", "test"])) for key in rows}
    for split in ("train", "test"):
        write(
            tmp_path,
            {key: row for key, row in rows.items() if split_of[key] == split},
            f"{split}/data.arrow",
        )
    asked = data.draw(st.lists(st.sampled_from(sorted(rows)), max_size=12)) if rows else []

    scores = open_scores(tmp_path).gather(examples(asked, [len(rows[key]) for key in asked]))

    assert scores.tolist() == [rows[key] for key in asked]
    assert (scores.values.dtype, scores.offsets.dtype) == (np.float32, np.int64)


def test_of__has_the_offsets_of_the_rows(tmp_path: Path) -> None:
    rows = examples([5, 3, 5], [4, 2, 4])

    scores = open_scores(write(tmp_path, {3: [1, 2], 5: [3, 4, 5, 6]})).gather(rows)

    assert scores.offsets.tolist() == rows.input_ids.offsets.tolist()


def test_of__rows_without_scores(tmp_path: Path) -> None:
    column = open_scores(write(tmp_path, {3: [1, 2], 2**64 - 2: [1, 2]}))

    with pytest.raises(VocabularyError, match="2 of 3 rows have no scores"):
        column.gather(examples([3, 4, 2**64 - 1], [2, 2, 2]))


def test_of__rows_of_another_length(tmp_path: Path) -> None:
    column = open_scores(write(tmp_path, {3: [1, 2], 4: [1, 2]}))

    with pytest.raises(
        VocabularyError,
        match="the scores have other row lengths",
    ):
        column.gather(examples([3, 4], [2, 3]))


def test_open_scores__accepts_files_without_rows(tmp_path: Path) -> None:
    column = open_scores(write(tmp_path, {}))

    assert column.gather(examples([], [])).tolist() == []
    with pytest.raises(VocabularyError, match="1 of 1 rows have no scores"):
        column.gather(examples([1], [2]))


def test_open_scores__is_mapped_read_only_and_opened_once(tmp_path: Path) -> None:
    column = open_scores(write(tmp_path, {3: [1, 2]}))

    assert not column.files[0].values.flags.writeable
    assert open_scores(tmp_path) is column
    assert column.about == {**ABOUT, "format": FORMAT}


def test_open_scores__notices_changed_and_added_files(tmp_path: Path) -> None:
    before = open_scores(write(tmp_path, {3: [1, 2]}))
    write(tmp_path, {3: [5, 6]})

    again = open_scores(tmp_path)
    more = open_scores(write(tmp_path, {4: [7, 8]}, "test/data.arrow"))

    assert before.gather(examples([3], [2])).tolist() == [[1, 2]]
    assert again.gather(examples([3], [2])).tolist() == [[5, 6]]
    assert more.gather(examples([4, 3], [2, 2])).tolist() == [[7, 8], [5, 6]]


def test_open_scores__rows_of_one_key_must_be_equal(tmp_path: Path) -> None:
    equal = write(write(tmp_path / "equal", {3: [1, 2]}), {3: [1, 2]}, "test/data.arrow")
    other = write(
        write(tmp_path / "other", {3: [1, 2], 4: [1, 2]}), {3: [1, 3], 4: [1, 2]}, "test/data.arrow"
    )

    assert open_scores(equal).gather(examples([3], [2])).tolist() == [[1, 2]]
    with pytest.raises(VocabularyError, match="1 keys belong to two rows with different scores"):
        open_scores(other)


def test_open_scores__files_of_different_options_refused(tmp_path: Path) -> None:
    write(tmp_path, {3: [1, 2]})
    keys, scores = np.array([4], np.uint64), Ragged.from_rows([[1.0, 2.0]], np.float32)
    write_scores(
        tmp_path / "validation" / "x.arrow", keys, scores, {**ABOUT, "made": {"command": "other"}}
    )

    with pytest.raises(
        VocabularyError,
        match=r"validation/x.arrow: has another made than .*; make",
    ):
        open_scores(tmp_path)


def test_write_scores__equal_ones_are_equal_bytes_and_private(tmp_path: Path) -> None:
    keys, scores = np.array([1, 2], np.uint64), Ragged.from_rows([[1.0], [2.0, 3.0]], np.float32)
    turned = {"format": FORMAT + 1, **{name: ABOUT[name] for name in reversed(list(ABOUT))}}

    write_scores(tmp_path / "a" / "train" / "x.arrow", keys, scores, ABOUT)
    write_scores(tmp_path / "b" / "train" / "x.arrow", keys, scores, turned)

    first, second = (tmp_path / name / "train" / "x.arrow" for name in "ab")
    assert first.read_bytes() == second.read_bytes()
    assert stat.S_IMODE(first.stat().st_mode) == 0o600
    assert stat.S_IMODE(first.parent.stat().st_mode) == 0o700
    assert os.listdir(first.parent) == ["x.arrow"]


def test_open_scores__missing(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(
            VocabularyError,
            match=r"expected a score column, found none; make it with `mslm-data vocab`$",
        ):
            open_scores(folder)


def test_open_scores__a_broken_link(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "x.arrow").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(
        VocabularyError, match=r"train/x\.arrow: expected a score column, found none"
    ):
        open_scores(tmp_path)


@pytest.mark.parametrize(
    "about", ["null", "[]", "{}", '{"format": "1", "size": 1}', '{"format": 1}']
)
def test_open_scores__another_arrow_file(about: str, tmp_path: Path) -> None:
    with pytest.raises(
        VocabularyError, match="expected a score column of mslm-data, got another Arrow file"
    ):
        open_scores(arrow(tmp_path / "train" / "x.arrow", about=about))


def test_open_scores__newer_foreign_columns_and_batches(tmp_path: Path) -> None:
    newer = arrow(
        tmp_path / "newer" / "train" / "x.arrow", about={"format": FORMAT + 1, "size": 40}
    )
    foreign = arrow(tmp_path / "foreign" / "train" / "x.arrow", keys=pa.array([1], pa.int64()))

    with pytest.raises(VocabularyError, match=f"format {FORMAT + 1} needs a newer mslm-data"):
        open_scores(newer)
    with pytest.raises(
        VocabularyError,
        match="expected a score column of mslm-data, got another Arrow file; make it with",
    ):
        open_scores(foreign)
    for times in (0, 2):
        several = arrow(tmp_path / str(times) / "train" / "x.arrow", times=times)
        with pytest.raises(
            VocabularyError,
            match=f"expected one batch of rows, got {times}; the file is damaged: make it",
        ):
            open_scores(several)


@pytest.mark.parametrize(
    ("keys", "scores"), [([None], [[1.0]]), ([1], [None]), ([1], [[1.0, None]])]
)
def test_open_scores__nulls(keys: list[Any], scores: list[Any], tmp_path: Path) -> None:
    with pytest.raises(VocabularyError, match="expected no nulls; the file is damaged"):
        open_scores(arrow(tmp_path / "train" / "x.arrow", keys, scores))


@pytest.mark.parametrize("score", ["nan", "inf", "-inf"])
def test_open_scores__not_finite(tmp_path: Path, score: str) -> None:
    with pytest.raises(
        VocabularyError, match="expected finite numbers, got NaN or infinity; the file is damaged"
    ):
        open_scores(arrow(tmp_path / "train" / "x.arrow", [1], [[float(score)]]))


@pytest.mark.parametrize("junk", [b"", b"ARROW1", b"{}", b"\xff" * 200, "[" * 100_000])
def test_open_scores__not_arrow_or_not_json(junk: bytes | str, tmp_path: Path) -> None:
    path = tmp_path / "train" / "x.arrow"
    arrow(path, about=junk if isinstance(junk, str) else "usual")
    if isinstance(junk, bytes):
        path.write_bytes(junk)

    with pytest.raises(
        VocabularyError,
        match=r"expected a score column, got a file that cannot be read as one \(\w+\); make",
    ):
        open_scores(tmp_path)


@pytest.mark.parametrize("in_memory", [0, score_columns.IN_MEMORY])
def test_open_scores__a_truncated_file_at_every_length(
    in_memory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(score_columns, "IN_MEMORY", in_memory)
    write(tmp_path, {3: [1, 2], 5: [3, 4, 5, 6]})
    (path,) = tmp_path.glob("*/*.arrow")
    data = path.read_bytes()

    for length in range(0, len(data), 8):
        path.unlink()
        path.write_bytes(data[:length])
        with pytest.raises(VocabularyError):
            open_scores(tmp_path)


def test_open_scores__flipped_bytes_are_refused_or_answered(tmp_path: Path) -> None:
    rows = {key: [float(key), 2, 3] for key in range(1, 9)}
    write(tmp_path, rows)
    (path,) = tmp_path.glob("*/*.arrow")
    asked = examples(list(rows), [3] * len(rows))
    refused = 0

    for data in flipped(path.read_bytes(), 400):
        path.unlink()  # cached columns keep the old bytes mapped
        path.write_bytes(data)
        try:
            assert open_scores(tmp_path).gather(asked).lengths.tolist() == [3] * len(rows)
        except VocabularyError:
            refused += 1

    assert 0 < refused < 400


@quick
@given(data=st.binary(max_size=300))
def test_open_scores__random_bytes(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "train").mkdir(exist_ok=True)
    (tmp_path / "train" / "x.arrow").write_bytes(b"ARROW1\0\0" + data)

    with pytest.raises(VocabularyError):
        open_scores(tmp_path)
