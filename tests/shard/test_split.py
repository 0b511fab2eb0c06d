from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterable
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


@pytest.fixture(scope="module")
def train(one_build: Path) -> Split:
    return load(one_build)["train"]


@pytest.fixture(scope="module")
def rows(train: Split) -> list[dict[str, Any]]:
    return [train[i] for i in range(len(train))]


def equal(examples: Examples, rows: list[dict[str, Any]]) -> bool:
    assert [row["key"] for row in rows] == examples.keys.tolist()
    return all(getattr(examples, name).tolist() == [row[name] for row in rows] for name in COLUMNS)


def borders(train: Split) -> list[int]:
    return np.cumsum([0, *(shard.rows for shard in train.record.shards)]).tolist()


def test_examples__cross_shard_borders(train: Split, rows: list[dict[str, Any]]) -> None:
    places = borders(train)
    assert len(places) >= 4

    for border in places:
        for start in range(max(border - 2, 0), border + 1):
            for stop in (start, min(border + 2, len(train)), len(train)):
                assert stop < start or equal(train.examples(start, stop), rows[start:stop])


@given(data=st.data())
def test_take__gives_rows_in_the_given_order(
    train: Split, rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    picked = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=12))

    assert equal(train.take(np.array(picked, np.int64)), [rows[p] for p in picked])


def test_take__accepts_a_list(train: Split) -> None:
    taken = train.take([2, 0])

    assert taken.keys.tolist() == train.take(np.array([2, 0])).keys.tolist()
    assert len(train.take([])) == 0


def test_take__accepts_no_rows(train: Split) -> None:
    empty = train.take(np.empty(0, np.int64))

    assert len(empty) == 0
    assert empty.input_ids.values.dtype == np.int32
    assert empty.span_starts.offsets.tolist() == [0]


def test_chunks__cover_all_rows_in_order(train: Split, rows: list[dict[str, Any]]) -> None:
    chunks = list(train.chunks(7))

    assert [len(chunk) for chunk in chunks[:-1]] == [7] * (len(chunks) - 1)
    assert sum(map(len, chunks)) == len(rows)
    assert all(equal(chunk, rows[7 * i : 7 * i + 7]) for i, chunk in enumerate(chunks))


def test_getitem__accepts_negative_rows(train: Split, rows: list[dict[str, Any]]) -> None:
    assert train[-1] == rows[-1]
    assert train[-len(train)] == rows[0]
    assert train[np.int64(3)] == rows[3]


WHOLE = "rows: expected a sequence of whole numbers, got"
BEYOND = r"row: expected a number below \d+, the number of rows, got -?\d+"
RANGE = r"rows: expected 0 <= start <= stop <= \d+, got"
ORDER = "numbers: expected increasing row numbers"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda rows: rows.take([0.5]), TypeError, WHOLE),
        (lambda rows: rows.take([True, False]), TypeError, WHOLE),
        (lambda rows: rows.take([[0, 1]]), TypeError, WHOLE),
        (lambda rows: rows.take(["0"]), TypeError, WHOLE),
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


@pytest.mark.parametrize("row", [-1, 0, 10**9])
def test_take__rejects_rows_out_of_range(train: Split, row: int) -> None:
    row += len(train) if row >= 0 else 0
    least, most = sorted([0, row])

    with pytest.raises(
        IndexError,
        match=rf"^rows: expected numbers from 0 to {len(train) - 1}, got {least} to {most}$",
    ):
        train.take(np.array([0, row], np.int64))


def test_getitem__returns_the_documented_columns(train: Split) -> None:
    assert list(train[0]) == ["key", "doc_id", *COLUMNS]


def test_examples__are_read_only_views_of_the_map(train: Split) -> None:
    examples = train.examples(1, 3)
    again = train.examples(0, borders(train)[1])

    for name in COLUMNS:
        values = getattr(examples, name).values
        assert not values.flags.owndata
        assert not values.flags.writeable
        assert np.shares_memory(values, getattr(again, name).values) or not len(values)
    assert np.shares_memory(examples.keys, again.keys)
    with pytest.raises(ValueError, match="read-only"):
        examples.input_ids.values[0] = 1


def test_take__returns_copies(train: Split) -> None:
    examples = train.take(np.array([2, 1]))

    assert not np.shares_memory(examples.input_ids.values, train.examples(0, 3).input_ids.values)


def test_split__unpickles_with_the_same_rows(train: Split, rows: list[dict[str, Any]]) -> None:
    train.examples(0, 2)

    data = pickle.dumps(train)

    assert len(data) < 4000
    assert equal(pickle.loads(data).examples(), rows)  # noqa: S301 - our own


def test_load__sums_the_sizes_of_shards_once_for_each_split(
    one_build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sum for each shard would take seconds for a folder of 8,000 shards."""
    sums: list[str] = []
    monkeypatch.setattr(SplitRecord, "bytes", property(lambda _: sums.append("") or 0))

    shards = load(one_build)

    assert len(sums) == len(shards) < len(shards["train"].shard_rows)


@pytest.fixture(scope="module")
def with_text(tmp_path_factory: pytest.TempPathFactory) -> Split:
    """A split with several shards and kept text."""
    out = tmp_path_factory.mktemp("built") / "text"
    made.built(out, pipeline=made.pipeline_of(unit_bytes=2000, encode={"keep_text": True}))
    return load(out)["train"]


@given(data=st.data())
def test_take__returns_character_offsets_of_tokens(with_text: Split, data: st.DataObject) -> None:
    picked = data.draw(st.lists(st.integers(0, len(with_text) - 1), min_size=1, max_size=12))

    assert characters(with_text.take(np.array(picked, np.int64))) == characters_of_rows(
        with_text, picked
    )


def test_examples__return_character_offsets_of_tokens(with_text: Split) -> None:
    places = borders(with_text)
    assert len(places) >= 3

    for start, stop in [(0, 2), (places[1] - 1, places[1] + 1), (0, len(with_text))]:
        assert characters(with_text.examples(start, stop)) == characters_of_rows(
            with_text, range(start, stop)
        )


def characters(examples: Examples) -> list[list[Any]]:
    assert examples.token_starts is not None
    assert examples.token_ends is not None
    assert examples.token_starts.values.dtype == examples.token_ends.values.dtype == np.int32
    return [examples.token_starts.tolist(), examples.token_ends.tolist()]


def characters_of_rows(split: Split, numbers: Iterable[int]) -> list[list[Any]]:
    rows = [split[number] for number in numbers]
    return [[row["token_starts"] for row in rows], [row["token_ends"] for row in rows]]


def test_texts__are_those_of_the_rows(with_text: Split) -> None:
    assert list(with_text.texts()) == [with_text[i]["text"] for i in range(len(with_text))]


def test_texts__require_a_folder_with_kept_text(train: Split) -> None:
    with pytest.raises(ShardError, match=r"build it with --set encode\.keep_text=true"):
        list(train.texts())


def test_rows__without_text_have_no_character_offsets(train: Split) -> None:
    for examples in (
        train.examples(0, 3),
        train.take(np.array([2, 0])),
        train.take(np.empty(0, np.int64)),
    ):
        assert examples.token_starts is None
        assert examples.token_ends is None


def test_examples__offsets_are_views_too(with_text: Split) -> None:
    starts = with_text.examples(0, 1).token_starts

    assert starts is not None
    assert not starts.values.flags.owndata
    assert not starts.values.flags.writeable


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Split:
    """A split with several shards and several sentences per row."""
    out = tmp_path_factory.mktemp("joined")
    lines = [
        line
        for n in range(60)
        for line in (
            *([f"-DOCSTART- ({n})\tO", ""] if n % 5 == 0 else []),
            *["the\tO"] * (1 + n % 4),
            "",
        )
    ]
    (out / "train.tsv").write_text("\n".join(lines) + "\n")
    pipeline = made.pipeline_of(
        source={"duplicates": "keep"},
        unit_bytes=200,
        encode={"join": "document", "max_tokens": 12},
        annotate={"use": "none"},
    )
    made.built(out / "shards", out / "train.tsv", pipeline)
    return load(out / "shards")["train"]


@given(data=st.data())
def test_take__returns_the_sentences_of_rows(joined: Split, data: st.DataObject) -> None:
    assert len(joined.record.shards) > 3
    picked = data.draw(st.lists(st.integers(0, len(joined) - 1), min_size=1, max_size=12))
    start = data.draw(st.integers(0, len(joined) - 1))
    stop = data.draw(st.integers(start + 1, len(joined)))

    for examples, numbers in (
        (joined.take(np.array(picked, np.int64)), picked),
        (joined.examples(start, stop), range(start, stop)),
        (take(joined.examples(), np.array(picked, np.int64)), picked),
    ):
        assert examples.sentence_starts is not None
        assert examples.sentence_starts.values.dtype == np.int32
        wanted = [joined[number]["sentence_starts"] for number in numbers]
        assert examples.sentence_starts.tolist() == wanted
