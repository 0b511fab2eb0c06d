"""Counts of an epoch of a mix, in total and by folder, compared with the batches of training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mslm_data as md
from mslm_data.stats import count_splits, mask_stats
from tests import made

NAMES = ("ncbi-disease", "bc5cdr-chem")
STRATEGY = md.strategy("joint", elm=0.5, blm=0.2)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> list[md.Shards]:
    base = tmp_path_factory.mktemp("folders")
    for name in NAMES:
        made.built(base / name, made.SAMPLE / name, made.pipeline_of(name=name))
    return [md.load(base / name) for name in NAMES]


def masked(mix: Any, keys: set[int]) -> tuple[int, int, int, int]:
    """Count the rows, tokens, N_ELM and N_BLM of some rows in an epoch of training."""
    counts = np.zeros(4, np.int64)
    for batch in md.Batches(mix, STRATEGY, seed=3):
        rows = np.isin(batch["keys"], np.array([*keys], np.uint64))
        kinds = batch["mask_kinds"][rows]
        counts += (
            rows.sum(),
            batch["attention_mask"][rows].sum(),
            (kinds == 2).sum(),
            (kinds == 1).sum(),
        )
    return tuple(counts.tolist())


def counted(stats: Any) -> tuple[int, int, int, int]:
    return stats.sequences, stats.tokens, stats.n_elm, stats.n_blm


def test_mix__counts_are_the_masks_of_training(opened: list[md.Shards]) -> None:
    mix: Any = md.mix(dict(zip(opened, (0.7, 0.3), strict=True)), epoch_size=2000)

    parts = count_splits(mix, STRATEGY, seed=3)

    keys = [set(shards["train"].examples().keys.tolist()) for shards in opened]
    assert [part.times < 1 for part, _ in parts] == [True, True]  # repeated rows have other keys
    assert [counted(stats) for _, stats in parts] == [masked(mix, some) for some in keys]
    total = mask_stats(lambda: mix.chunks(seed=3), STRATEGY, seed=3, labels=mix.labels)
    assert counted(total) == masked(mix, set.union(*keys))
    assert total.labels.keys() == {"Disease", "Chemical"}


def test_chunks__gives_the_rows_of_one_split(opened: list[md.Shards]) -> None:
    mix: Any = md.mix(opened, epoch_size="longest")

    parts = [
        np.concatenate([examples.keys for examples in mix.chunks(16, part=number, seed=2, epoch=3)])
        for number in range(2)
    ]

    assert [len(part) for part in parts] == [part.rows for part in mix.splits]
    assert np.concatenate(parts).tolist() == mix.examples(seed=2, epoch=3).keys.tolist()
