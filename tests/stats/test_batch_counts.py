"""Counts of batches, compared with counts of the arrays of `md.Batches`."""

from __future__ import annotations

from typing import Any

import pytest

from mslm_data.api.loading import load
from mslm_data.batches.batch_options import BatchOptions
from mslm_data.batches.batches import Batches
from mslm_data.shard.split import Split
from mslm_data.stats import batch_stats
from tests import made

OPTIONS: list[dict[str, Any]] = [
    {"batch_size": 7},
    {"batch_size": 7, "multiple_of": 8, "bucketed": False},
    {"batch_tokens": 90},
    {"batch_tokens": 90, "multiple_of": 8, "bucketed": False},
    {"batch_tokens": 90, "flat": True},
    {"batch_tokens": 90, "flat": True, "multiple_of": 8},
    {"batch_size": 5, "flat": True},
    {"batch_size": 3, "shuffle": "shards", "open_shards": 2},
]


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Split:
    out = tmp_path_factory.mktemp("built") / "many"
    made.built(out, pipeline=made.pipeline_of(unit_bytes=1500, encode={"max_tokens": 24}))
    return load(out)["train"]


@pytest.mark.parametrize("options", OPTIONS)
def test_batch_stats__are_those_of_the_arrays(train: Split, options: dict[str, Any]) -> None:
    epochs = [list(Batches(train, "joint", seed=4, epoch=epoch, **options)) for epoch in range(2)]

    counted = batch_stats(train, BatchOptions(seed=4, **options), epochs=2)

    steps = rows = places = 0
    tokens = []
    for batches in epochs:
        for batch in batches:
            steps += 1
            rows += len(batch["keys"])
            tokens.append(int(batch["attention_mask"].sum()))
            places += batch["input_ids"].shape[0] * batch["input_ids"].shape[1]
    assert (counted.steps, counted.rows, counted.tokens) == (steps, rows, sum(tokens))
    assert (counted.fewest_tokens, counted.most_tokens) == (min(tokens), max(tokens))
    assert counted.positions == places
    assert counted.padding == pytest.approx(1 - sum(tokens) / places)
    assert counted.steps_per_epoch == steps / 2
    assert counted.tokens_per_step == sum(tokens) / steps
    assert counted.rows_per_step == rows / steps


def test_batch_stats__do_not_depend_on_how_many_lengths_are_read_at_once(
    train: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = batch_stats(train, BatchOptions(batch_tokens=90))

    monkeypatch.setattr("mslm_data.stats.batch_counts._BATCHES_AT_ONCE", 2)

    assert batch_stats(train, BatchOptions(batch_tokens=90)) == expected


def test_batch_stats__mask_nothing(train: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Split, "examples")
    monkeypatch.delattr(Split, "take")

    assert batch_stats(train, BatchOptions(batch_size=8)).rows == len(train)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_tokens": 10}, "batch_tokens: expected room for a row of"),
        ({"epochs": 0}, "epochs: expected 1 or more, got 0"),
    ],
)
def test_batch_stats__refuse(train: Split, options: dict[str, Any], message: str) -> None:
    counting = {name: options.pop(name) for name in ("epochs",) if name in options}

    with pytest.raises(ValueError, match=f"^{message}"):
        batch_stats(train, BatchOptions(**options), **counting)
