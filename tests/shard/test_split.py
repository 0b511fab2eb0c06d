from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mslm_data as md
from mslm_data.api.loading import load
from mslm_data.data.examples import Examples, take
from mslm_data.errors import ShardError
from mslm_data.shard.manifest import SplitRecord
from mslm_data.shard.split import Rows, Split
from tests import made

COLUMNS = ("input_ids", "word_ids", "bio", "span_starts", "span_ends", "span_labels")
MORE = ("token_starts", "token_ends", "sentence_starts")
"""Columns of a folder with text and of one with joined sentences."""


@pytest.fixture(scope="module")
def train(one_build: Path) -> Split:
    return load(one_build)["train"]


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Split:
    """A split with several shards, several sentences a row, and the text of rows."""
    out = tmp_path_factory.mktemp("joined")
    lines = [
        line
        for n in range(60)
        for line in (
            *([f"-DOCSTART- ({n})\tO", ""] if n % 5 == 0 else []),
            *["the\tB-X"] * (1 + n % 4),
            "",
        )
    ]
    (out / "train.tsv").write_text("\n".join(lines) + "\n")
    encode = {"join": "document", "max_tokens": 12, "keep_text": True}
    pipeline = made.pipeline_of(unit_bytes=200, encode=encode)
    made.built(out / "shards", out / "train.tsv", pipeline)
    return load(out / "shards")["train"]


@pytest.fixture(scope="module", params=["train", "full"])
def split(request: pytest.FixtureRequest) -> Split:
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def rows(split: Split) -> list[dict[str, Any]]:
    return [split[i] for i in range(len(split))]


def assert_equal(split: Split, examples: Examples, rows: Sequence[dict[str, Any]]) -> None:
    """Assert that arrays have the columns of a split, and the values of rows."""
    assert [row["key"] for row in rows] == examples.keys.tolist()
    for name in (*COLUMNS, *MORE):
        column = getattr(examples, name)
        assert (column is None) == (name not in split[0])
        if column is not None:
            assert column.values.dtype in (np.int16, np.int32)
            assert column.tolist() == [row[name] for row in rows]


def borders(split: Split) -> list[int]:
    return np.cumsum([0, *(shard.rows for shard in split.record.shards)]).tolist()


@given(data=st.data())
def test_rows__are_equal_in_arrays(
    split: Split, rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    """Arrays of picked rows, of a range and of chunks hold the same values as single rows."""
    picked = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=12))
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(rows))] * 2)))
    size = data.draw(st.integers(1, len(rows)))
    few = np.array(picked, np.int64)

    assert_equal(split, split.take(few), [rows[p] for p in picked])
    assert_equal(split, split.take(picked), [rows[p] for p in picked])
    assert_equal(split, take(split.examples(), few), [rows[p] for p in picked])
    assert_equal(split, split.examples(start, stop), rows[start:stop])
    chunks = list(split.chunks(size))
    for i, chunk in enumerate(chunks):
        assert_equal(split, chunk, rows[size * i : size * (i + 1)])
    assert sum(map(len, chunks)) == len(rows)


def test_examples__cross_shard_borders(split: Split, rows: list[dict[str, Any]]) -> None:
    places = borders(split)
    assert len(places) >= 4

    for border in places:
        for start in range(max(border - 2, 0), border + 1):
            for stop in (start, min(border + 2, len(split)), len(split)):
                if start <= stop:
                    assert_equal(split, split.examples(start, stop), rows[start:stop])


def test_split__unpickles_with_the_same_rows(split: Split, rows: list[dict[str, Any]]) -> None:
    split.examples(0, 2)

    data = pickle.dumps(split)

    assert len(data) < 4000
    assert_equal(split, pickle.loads(data).examples(), rows)  # noqa: S301 - our own


def test_examples__are_read_only_views_of_the_map(split: Split) -> None:
    examples = split.examples(0, 1)
    again = split.examples(0, borders(split)[1])

    for name in (*COLUMNS, *MORE):
        column = getattr(examples, name)
        if column is not None:
            assert not column.values.flags.owndata
            assert not column.values.flags.writeable
            of_shard = getattr(again, name).values
            assert np.shares_memory(column.values, of_shard) or not len(column.values)
    assert np.shares_memory(examples.keys, again.keys)
    with pytest.raises(ValueError, match="read-only"):
        examples.input_ids.values[0] = 1


def test_getitem__accepts_negative_rows(train: Split) -> None:
    assert train[-1] == train[len(train) - 1]
    assert train[-len(train)] == train[0]
    assert train[np.int64(3)] == train[3]


WHOLE = "rows: expected a sequence of whole numbers, got"
BEYOND = r"row: expected a number below \d+, the number of rows, got -?\d+"
RANGE = r"rows: expected 0 <= start <= stop <= \d+, got"
ORDER = "numbers: expected increasing row numbers"
FROM = r"rows: expected numbers from 0 to \d+, got "


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda rows: rows.take([0.5]), TypeError, WHOLE),
        (lambda rows: rows.take([True, False]), TypeError, WHOLE),
        (lambda rows: rows.take([[0, 1]]), TypeError, WHOLE),
        (lambda rows: rows.take(["0"]), TypeError, WHOLE),
        (lambda rows: rows.take([0, -1]), IndexError, f"{FROM}-1 to 0$"),
        (lambda rows: rows.take([0, len(rows)]), IndexError, rf"{FROM}0 to \d+$"),
        (lambda rows: rows.take([0, 10**9]), IndexError, f"{FROM}0 to 1000000000$"),
        (lambda rows: rows[slice(0, 2)], TypeError, r"row: expected an integer, got slice; .*\("),
        (lambda rows: rows["0"], TypeError, r"row: expected an integer, got str; .*examples\("),
        (lambda rows: rows[1.0], TypeError, r"row: expected an integer, got float; .*examples\("),
        (lambda rows: rows[None], TypeError, r"row: expected an integer, got NoneType; .*\("),
        (lambda rows: rows[len(rows)], IndexError, BEYOND),
        (lambda rows: rows[len(rows) + 1000], IndexError, BEYOND),
        (lambda rows: rows[-len(rows) - 1], IndexError, BEYOND),
        (lambda rows: rows.examples(-1, 2), IndexError, RANGE),
        (lambda rows: rows.examples(3, 2), IndexError, RANGE),
        (lambda rows: rows.examples(0, 10**9), IndexError, RANGE),
        (lambda rows: rows.select([2, 1]), ValueError, ORDER),
        (lambda rows: rows.select([0, 0, 1]), ValueError, ORDER),
    ],
)
def test_split__rejects_wrong_rows(
    train: Split, call: Callable[[Split], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"^{message}"):
        call(train)


def test_rows_out_of_range__are_clear_errors_in_splits_subsets_and_mixes(train: Split) -> None:
    """A bare IndexError would end a loop over rows as if there were no more."""
    rows = {"split": train, "subset": train.subset(documents=3), "mix": md.mix([train])}
    calls: dict[str, Callable[[Rows, int], object]] = {
        "take": lambda rows, past: rows.take([past]),
        "lengths": lambda rows, past: rows.lengths(np.array([past])),
        "picks": lambda rows, past: rows.picks(np.array([past])),
        "examples": lambda rows, past: rows.examples(0, past),
    }

    past = 10 * len(train)
    for of_kind in rows.values():
        for call in calls.values():
            with pytest.raises(IndexError, match=r"^rows: expected (numbers from|0 <= )"):
                call(of_kind, past)
    for of_kind in (rows["split"], rows["subset"]):
        with pytest.raises(IndexError, match=f"row: expected a number below {len(of_kind)}"):
            of_kind[len(of_kind)]


def test_select__of_a_selection_is_a_selection_of_the_split(train: Split) -> None:
    few = train.select([1, 3, 4, 7]).select([0, 2, 3])

    assert few.examples().keys.tolist() == train.take([1, 4, 7]).keys.tolist()
    assert [few[i] for i in range(3)] == [train[1], train[4], train[7]]
    assert (len(few), few.tokens) == (3, int(train.lengths([1, 4, 7]).sum()))


def test_repr__shows_counts(train: Split) -> None:
    record = train.record

    assert repr(train) == (
        f"Split('train': {len(train):,} rows, {record.tokens:,} tokens, {record.mentions:,} mentions)"
    )


def test_repr_html__is_a_table_with_escaped_names(train: Split) -> None:
    split = copy.copy(train)
    split.name = "<b>x"

    table = split._repr_html_()

    assert '<th scope="row">&lt;b&gt;x</th>' in table
    assert f'<td class="n">{train.record.tokens:,}</td>' in table


def test_getitem__returns_the_documented_columns(train: Split) -> None:
    assert list(train[0]) == ["key", "doc_id", *COLUMNS]


def test_take__returns_copies(train: Split) -> None:
    examples = train.take(np.array([2, 1]))

    assert not np.shares_memory(examples.input_ids.values, train.examples(0, 3).input_ids.values)


def test_load__sums_the_sizes_of_shards_once_for_each_split(
    one_build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sum for each shard would take seconds for a folder of 8,000 shards."""
    sums: list[str] = []
    monkeypatch.setattr(SplitRecord, "bytes", property(lambda _: sums.append("") or 0))

    shards = load(one_build)

    assert len(sums) == len(shards) < len(shards["train"].shard_rows)


def test_texts__are_those_of_the_rows(full: Split) -> None:
    assert list(full.texts()) == [full[i]["text"] for i in range(len(full))]


def test_texts__require_a_folder_with_kept_text(train: Split) -> None:
    with pytest.raises(ShardError, match=r"build it with --set encode\.keep_text=true"):
        list(train.texts())
