"""Rates of masked diffusion in padded and flat batches, mixes and subsets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mslm_data as md
from mslm_data.batches.collate import Batch
from mslm_data.shard.split import Rows
from tests import made

DIFFUSION = md.strategy("diffusion", units="mentions")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("folders") / "one"
    made.built(path, pipeline=made.pipeline_of(encode={"max_tokens": 24}))
    return path


@pytest.fixture(params=["split", "subset", "mix"])
def rows(folder: Path, request: pytest.FixtureRequest) -> Rows:
    if request.param == "mix":
        return md.mix({str(folder): 1.0}, split="train")
    train = md.load(folder)["train"]
    return train if request.param == "split" else train.subset(documents=20)


def rates_of(batch: Batch) -> Iterator[float]:
    """Yield the rate of each row, in the order of its keys; padding has 1."""
    rates = batch["mask_rates"]
    assert rates.dtype == np.float32
    if "sequence_ids" not in batch:
        yield from rates.tolist()
        return

    numbers = batch["sequence_ids"]
    assert (rates[numbers < 0] == 1).all()
    for line in range(len(rates)):
        for number in range(numbers[line].max(initial=-1) + 1):
            (rate,) = set(rates[line, numbers[line] == number].tolist())
            yield rate


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 7},
        {"batch_tokens": 90, "bucketed": True},
        {"batch_tokens": 90, "flat": True, "multiple_of": 8},
        {"batch_size": 7, "shuffle": "shards"},
    ],
)
def test_batches__have_the_rates_of_the_plan(rows: Rows, options: dict[str, Any]) -> None:
    seen: dict[int, float] = {}
    for batch in md.Batches(rows, DIFFUSION, seed=5, epoch=3, **options):
        seen |= zip(batch["keys"].tolist(), rates_of(batch), strict=True)

    # The rate of a row depends on its key only.
    others = md.examples([1] * len(seen), keys=np.array([*seen], np.uint64))
    plan = DIFFUSION.plan(others, seed=5, epoch=3)
    assert plan.rates is not None
    assert len(seen) == len(rows)
    assert [*seen.values()] == plan.rates.tolist()


def test_batches__of_other_strategies_have_no_rates(folder: Path) -> None:
    (batch, *_) = md.Batches(md.load(folder)["train"], "joint", batch_size=4)

    assert "mask_rates" not in batch
