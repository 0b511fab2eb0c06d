"""Rows of a mix as tensors: with loaders, workers, ranks, and samplers of others."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader  # noqa: E402

import mslm_data as md  # noqa: E402
from mslm_data.batches.mix import Mix  # noqa: E402
from mslm_data.torch import MaskedDataset, MaskingCollator  # noqa: E402
from tests import made  # noqa: E402
from tests.torch.samplers import sampler_of  # noqa: E402
from tests.torch.shards import JOINT, all_lists, of_numpy  # noqa: E402


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


def keys_of_rows(rows: Any) -> list[int]:
    """Return the keys of rows of a dataset."""
    return MaskingCollator()(rows)["keys"].tolist()


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 7, "bucketed": True},
        {"batch_tokens": 200},
        {"batch_size": 2, "row_tokens": 128},
        {"batch_tokens": 200, "flat": True},
    ],
)
def test_loader__gives_the_batches_of_numpy(mixed: Mix, options: dict[str, Any]) -> None:
    dataset = MaskedDataset(mixed, JOINT, seed=3, epoch=2)
    expected = of_numpy(md.Batches(mixed, JOINT, seed=3, epoch=2, **options))

    assert all_lists(dataset.loader(**options)) == expected
    assert all_lists(dataset.loader(**options, workers=1)) == expected


def test_loader__resumes_on_other_ranks(mixed: Mix) -> None:
    def loaders(world: int) -> list[Any]:
        dataset = MaskedDataset(mixed, JOINT, epoch=1)
        return [dataset.loader(batch_size=4, rank=rank, world=world) for rank in range(world)]

    two = loaders(2)
    given = sum((keys_of(itertools.islice(loader, 5)) for loader in two), Counter())
    three = loaders(3)
    for loader in three:
        loader.load_state_dict(two[0].state_dict())

    rest = sum((keys_of(loader) for loader in three), Counter())

    assert given + rest == Counter(mixed.examples(epoch=1).keys.view(np.int64).tolist())


@pytest.mark.parametrize("epoch", [0, 3])
def test_dataset__gives_rows_of_the_epoch_to_other_samplers(mixed: Mix, epoch: int) -> None:
    """Trainers sample indices from 0 to the dataset's length; each is one row of the epoch."""
    dataset = MaskedDataset(mixed, JOINT, seed=5)
    loader = DataLoader(
        dataset, batch_size=9, shuffle=True, collate_fn=MaskingCollator(), num_workers=1
    )
    dataset.epoch = epoch

    batches = all_lists(loader)

    ours = of_numpy(md.Batches(mixed, JOINT, batch_size=1, seed=5, epoch=epoch))
    masks = {batch["keys"][0]: batch["labels"][0] for batch in ours}
    assert len(masks) == len(dataset)
    for batch in batches:
        for row, key in enumerate(batch["keys"]):
            size = sum(batch["attention_mask"][row])
            assert batch["labels"][row][:size] == masks.pop(key)
    assert not masks


def test_dataset__accepts_indices_taken_from_a_batch_sampler(mixed: Mix) -> None:
    """Accelerate's `even_batches` converts the sampler's lists to plain lists. Their indices give the same rows."""
    dataset = MaskedDataset(mixed, JOINT)
    (rows, *_) = sampler_of(dataset, batch_size=8)
    expected = keys_of_rows(dataset.__getitems__(rows))

    parts = [dataset.__getitems__(list(rows[:3])), dataset.__getitems__(list(rows[3:]))]

    assert [key for part in parts for key in keys_of_rows(part)] == expected


def test_dataset__accepts_negative_indices(mixed: Mix) -> None:
    dataset = MaskedDataset(mixed, JOINT, epoch=0)

    assert keys_of_rows([dataset[-1]]) == keys_of_rows([dataset[len(dataset) - 1]])
    with pytest.raises(IndexError, match=f"expected a number below {len(mixed)}"):
        dataset[len(dataset)]


def test_collator__takes_the_tokenizer_from_a_mix(mixed: Mix) -> None:
    part = mixed.splits[0].source

    batch = MaskingCollator(JOINT, mixed, epoch=0)([part[0], part[1]])

    assert batch["keys"].numpy().view(np.uint64).tolist() == [part[0]["key"], part[1]["key"]]
