"""Batches by tokens and flat rows: their content."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from mslm_data.api.loading import load
from mslm_data.batches.batches import Batches
from mslm_data.batches.collate import Batch
from mslm_data.mask.table import strategy
from mslm_data.shard.split import Split
from tests import made

JOINT = strategy("joint", elm=0.5, blm=0.2)
FLAT: list[dict[str, Any]] = [
    {"batch_tokens": 90, "flat": True},
    {"batch_tokens": 90, "flat": True, "multiple_of": 8},
    {"batch_size": 5, "flat": True},
]
BY_TOKENS: list[dict[str, Any]] = [
    {"batch_tokens": 90},
    {"batch_tokens": 90, "multiple_of": 8, "shuffle": False},
    {"batch_tokens": 90, "bucketed": False},
    *FLAT,
]
COLUMNS = ("input_ids", "labels", "mask_kinds", "bio")


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Split:
    """Rows of 3 to 24 tokens, in several shards."""
    out = tmp_path_factory.mktemp("built") / "many"
    made.built(out, pipeline=made.pipeline_of(unit_bytes=1500, encode={"max_tokens": 24}))
    return load(out)["train"]


def lists(batch: Batch) -> dict[str, Any]:
    return {name: array.tolist() for name, array in batch.items()}


def all_lists(batches: Batches) -> list[dict[str, Any]]:
    return [lists(batch) for batch in batches]


def alone(split: Split, **options: Any) -> dict[int, Any]:
    """Return each row as a batch of its own, by its key."""
    found = {}
    for batch in Batches(split, JOINT, batch_size=1, shuffle=False, **options):
        row = lists(batch)
        spans = zip(row["span_starts"][0], row["span_ends"][0], row["span_labels"][0], strict=True)
        found[row["keys"][0]] = {name: row[name][0] for name in COLUMNS} | {"spans": [*spans]}
    return found


def unpacked(batch: Batch) -> Iterator[tuple[int, Any]]:
    """Yield key and content of each row of a flat batch, with mentions in tokens of the row."""
    keys = iter(batch["keys"].tolist())
    for line in range(len(batch["input_ids"])):
        sequences = batch["sequence_ids"][line]
        spans = [
            (start, end, label)
            for start, end, label in zip(
                *(batch[f"span_{name}"][line].tolist() for name in ("starts", "ends", "labels")),
                strict=True,
            )
            if start >= 0
        ]
        for number in range(sequences.max(initial=-1) + 1):
            places = np.flatnonzero(sequences == number)
            first, past = int(places[0]), int(places[-1]) + 1
            assert places.tolist() == list(range(first, past))
            assert batch["position_ids"][line, first:past].tolist() == list(range(past - first))
            assert batch["attention_mask"][line, first:past].all()
            own = [span for span in spans if first <= span[0] < past]
            assert all(end <= past for _, end, _ in own)
            yield (
                next(keys),
                {name: batch[name][line, first:past].tolist() for name in COLUMNS}
                | {"spans": [(start - first, end - first, label) for start, end, label in own]},
            )


@pytest.mark.parametrize("options", FLAT)
def test_batches__flat_hold_each_row_as_it_is_alone(train: Split, options: dict[str, Any]) -> None:
    expected = alone(train, seed=5, epoch=2)

    batches = list(Batches(train, JOINT, seed=5, epoch=2, **options))

    rows = [row for batch in batches for row in unpacked(batch)]
    assert len(rows) == len(train) == len(expected)
    assert dict(rows) == expected
    for batch in batches:
        padding = batch["sequence_ids"] < 0
        assert (batch["attention_mask"] == ~padding).all()
        assert (batch["labels"][padding] == -100).all()
        assert (batch["bio"][padding] == -100).all()
        assert not batch["position_ids"][padding].any()


@pytest.mark.parametrize(("multiple_of", "flat"), [(1, True), (8, True), (1, False), (8, False)])
def test_batches__by_tokens_are_within_their_budget(
    train: Split, multiple_of: int, flat: bool
) -> None:
    shapes = [
        batch["input_ids"].shape
        for batch in Batches(train, JOINT, batch_tokens=90, flat=flat, multiple_of=multiple_of)
    ]

    assert all(rows * width <= 90 for rows, width in shapes)
    assert all(width % multiple_of == 0 for _, width in shapes)
    assert {rows for rows, _ in shapes} == {1} or not flat
    assert sum(rows * width for rows, width in shapes) > 0.6 * 90 * len(shapes)


def test_batches__flat_say_where_each_row_begins(train: Split) -> None:
    for batch in Batches(train, JOINT, batch_tokens=90, flat=True, multiple_of=4):
        sequences = batch["sequence_ids"][0]
        lengths = np.bincount(sequences[sequences >= 0])
        bounds = [0, *np.cumsum(lengths).tolist()]

        for name in ("cu_seq_lens_q", "cu_seq_lens_k"):
            assert batch[name].dtype == np.int32
            assert batch[name].tolist() == bounds
        for name in ("max_length_q", "max_length_k"):
            assert batch[name].shape == ()
            assert batch[name] == lengths.max()


def test_batches__of_rows_alone_have_no_columns_of_flat_ones(train: Split) -> None:
    (batch, *_) = Batches(train, JOINT, batch_tokens=90)

    assert not set(batch) & {"position_ids", "sequence_ids", "cu_seq_lens_q", "max_length_q"}


@pytest.mark.parametrize(
    "other",
    [
        {"batch_tokens": 91},
        {"multiple_of": 2},
        {"flat": True},
        {"batch_size": 90, "batch_tokens": None},
    ],
)
def test_load_state_dict__refuses_a_state_of_another_budget(
    train: Split, other: dict[str, Any]
) -> None:
    state = Batches(train, JOINT, batch_tokens=90).state_dict()
    batches = Batches(train, JOINT, **({"batch_tokens": 90} | other))

    with pytest.raises(ValueError, match=r"state: expected .*; load the same split and pass"):
        batches.load_state_dict(state)


def test_batches__refuse_a_budget_that_the_longest_row_exceeds(train: Split) -> None:
    longest = int(train.lengths(np.arange(len(train))).max())

    with pytest.raises(
        ValueError,
        match=f"batch_tokens: .* a row of {longest} tokens, got 20; pass the encode.max_tokens",
    ):
        list(Batches(train, JOINT, batch_tokens=20))


def test_repr__says_what_a_batch_is(train: Split) -> None:
    batches = Batches(train, JOINT, batch_tokens=90, flat=True)

    assert repr(batches) == (
        f"Batches(90 tokens in one flat row each from {train!r}; epoch 0, 0 given)"
    )
    assert 1 <= len(batches) / -(-train.tokens // 90) < 1.2


# Rates that follow the tokens ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{"batch_size": 4}, {"batch_size": 4, "bucketed": False}, *BY_TOKENS]
)
def test_batches__tell_a_rate_the_tokens(train: Split, options: dict[str, Any]) -> None:
    """Each row is masked by the plan for the tokens before its batch, counted by hand."""
    total = sum(len(train[row]["input_ids"]) for row in range(len(train)))
    rate = {"shape": "linear", "start": 1.0, "stop": 0.0, "over": 2 * total, "per": "tokens"}
    falling = strategy("blm", blm=rate)
    row_of_key = {train[row]["key"]: row for row in range(len(train))}
    batches = Batches(train, falling, epoch=1, **options)
    every = list(batches)

    tokens = total
    for batch in every:
        rows = train.take([row_of_key[key] for key in batch["keys"].tolist()])
        plan = falling.plan(rows, epoch=1, tokens=tokens)
        assert np.count_nonzero(batch["mask_kinds"]) == np.count_nonzero(plan.kinds.values)
        tokens += len(rows.input_ids.values)
    assert tokens == 2 * total

    half = len(every) // 2
    before = Batches(train, falling, epoch=1, **options)
    list(itertools.islice(before, half))
    again = Batches(train, falling, **options)
    again.load_state_dict(json.loads(json.dumps(before.state_dict())))
    assert all_lists(again) == [lists(batch) for batch in every[half:]]
