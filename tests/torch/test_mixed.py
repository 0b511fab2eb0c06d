"""Rows of a mix as tensors: with loaders, ranks, and in a collator."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import mslm_data as md
from mslm_data.batches.mix import Mix
from mslm_data.torch import MaskedDataset, MaskingCollator
from tests import made
from tests.torch.shards import JOINT, all_lists


def two_corpora(base: Path) -> Mix:
    """Mix two corpora. One is repeated in each epoch."""
    for name in ("ncbi-disease", "bc5cdr-chem"):
        made.built(base / name, made.SAMPLE / name, made.pipeline_of(name=name))
    mix = md.mix({base / "ncbi-disease": 0.75, base / "bc5cdr-chem": 0.25}, by="rows")
    assert mix.splits[0].times > 1.2
    assert mix.splits[1].times < 0.8

    return mix


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Mix:
    return two_corpora(tmp_path_factory.mktemp("folders"))


def keys_of(batches: Any) -> Counter[int]:
    return Counter(key for batch in all_lists(batches) for key in batch["keys"])


def test_loader__resumes_on_other_ranks(mixed: Mix) -> None:
    def loaders(world: int) -> list[Any]:
        dataset = MaskedDataset(mixed, JOINT)
        every = [dataset.loader(batch_size=4, rank=rank, world=world) for rank in range(world)]
        for loader in every:
            loader.set_epoch(1)
        return every

    two = loaders(2)
    given = sum((keys_of(itertools.islice(loader, 5)) for loader in two), Counter())
    three = loaders(3)
    for loader in three:
        loader.load_state_dict(two[0].state_dict())

    rest = sum((keys_of(loader) for loader in three), Counter())

    assert given + rest == Counter(mixed.examples(epoch=1).keys.view(np.int64).tolist())


def test_collator__takes_the_tokenizer_from_a_mix(mixed: Mix) -> None:
    part = mixed.splits[0].source

    batch = MaskingCollator(JOINT, mixed, epoch=0)([part[0], part[1]])

    assert batch["keys"].numpy().view(np.uint64).tolist() == [part[0]["key"], part[1]["key"]]
