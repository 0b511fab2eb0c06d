"""Batches by tokens and packed rows as tensors: equal to those of `md.Batches` in all loaders."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader  # noqa: E402

import mslm_data as md  # noqa: E402
from mslm_data.torch import MaskedDataset, MaskingCollator  # noqa: E402
from tests import made  # noqa: E402
from tests.torch.samplers import sampler_of  # noqa: E402
from tests.torch.shards import JOINT, all_lists, lists, of_numpy  # noqa: E402

SHAPES: list[dict[str, Any]] = [
    {"batch_tokens": 90},
    {"batch_tokens": 90, "bucketed": True, "multiple_of": 8},
    {"batch_size": 3, "row_tokens": 40},
    {"batch_tokens": 90, "flat": True},
]


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp("built") / "ncbi"
    made.built(out, pipeline=made.pipeline_of(unit_bytes=1500, encode={"max_tokens": 24}))
    return md.load(out)["train"]


@pytest.mark.parametrize("options", SHAPES)
@pytest.mark.parametrize("workers", [0, 2])
def test_loader__gives_the_batches_of_md_batches(
    train: Any, options: dict[str, Any], workers: int
) -> None:
    loader = MaskedDataset(train, JOINT, seed=5, epoch=2).loader(workers=workers, **options)

    expected = of_numpy(md.Batches(train, JOINT, seed=5, epoch=2, **options))
    assert all_lists(loader) == expected
    assert len(loader) == len(expected)


@pytest.mark.parametrize("options", SHAPES)
def test_sampler__packs_rows_for_any_data_loader(train: Any, options: dict[str, Any]) -> None:
    dataset = MaskedDataset(train, JOINT, seed=1)
    of_collator = {"row_tokens", "flat", "multiple_of"}
    shape = {name: value for name, value in options.items() if name in of_collator}
    sampler = sampler_of(dataset, **options)

    batches = DataLoader(dataset, batch_sampler=sampler, collate_fn=MaskingCollator(**shape))

    assert all_lists(batches) == all_lists(dataset.loader(**options))


@pytest.mark.parametrize("options", SHAPES)
@pytest.mark.parametrize("workers", [0, 2])
def test_loader__resumes_on_another_number_of_ranks(
    train: Any, options: dict[str, Any], workers: int
) -> None:
    dataset = MaskedDataset(train, JOINT, seed=5, epoch=1)
    before = [dataset.loader(rank=rank, world=2, workers=workers, **options) for rank in range(2)]
    seen = [batch["keys"] for loader in before for batch in itertools.islice(loader, 3)]
    assert before[0].state_dict() == before[1].state_dict()

    (again,) = [dataset.loader(**options)]
    again.load_state_dict(before[0].state_dict())
    rest = [batch["keys"] for batch in again]

    keys = torch.cat([*seen, *rest]).tolist()
    assert len(rest) > 3
    assert sorted(keys) == sorted(train.examples().keys.view("int64").tolist())


@pytest.mark.parametrize("options", SHAPES)
@pytest.mark.parametrize("world", [2, 3])
def test_loader__gives_each_rank_equally_many_batches(
    train: Any, options: dict[str, Any], world: int
) -> None:
    dataset = MaskedDataset(train, JOINT)
    loaders = [dataset.loader(rank=rank, world=world, **options) for rank in range(world)]

    keys = [[batch["keys"].tolist() for batch in loader] for loader in loaders]

    assert {len(of_rank) for of_rank in keys} == {len(loaders[0])}
    every = [key for of_rank in keys for batch in of_rank for key in batch]
    assert sorted(every) == sorted(train.examples().keys.view("int64").tolist())


def test_loader__returns_requested_columns(train: Any) -> None:
    loader = MaskedDataset(train, JOINT).loader(
        batch_tokens=90, flat=True, columns=["input_ids", "cu_seq_lens_q", "max_length_q"]
    )

    for batch in loader:
        assert set(batch) == {"input_ids", "cu_seq_lens_q", "max_length_q"}
        assert batch["cu_seq_lens_q"].dtype == torch.int32


# The collator ----------------------------------------------------------------------------------------


def rows_of(train: Any, count: int) -> list[dict[str, Any]]:
    return [train[number] for number in range(count)]


def test_collator__packs_a_batch_into_one_flat_row(train: Any) -> None:
    rows = rows_of(train, 6)
    padded = lists(MaskingCollator(JOINT, train, epoch=0)(rows))

    batch = lists(MaskingCollator(JOINT, train, flat=True, epoch=0)(rows))

    flat = [
        token
        for ids, present in zip(padded["input_ids"], padded["attention_mask"], strict=True)
        for token in itertools.compress(ids, present)
    ]
    assert batch["input_ids"] == [flat]
    assert batch["keys"] == padded["keys"]
    assert batch["cu_seq_lens_q"] == np.cumsum([0, *(len(r["input_ids"]) for r in rows)]).tolist()


def test_collator__packs_the_rows_of_a_batch(train: Any) -> None:
    rows = rows_of(train, 12)

    batch = MaskingCollator(JOINT, train, row_tokens=48, epoch=0)(rows)

    tokens = sum(len(row["input_ids"]) for row in rows)
    assert batch["input_ids"].shape == (-(-tokens // 48), 48)
    assert int(batch["attention_mask"].sum()) == tokens
    assert len(batch["keys"]) == 12


def test_collator__refuses_a_row_that_is_too_long(train: Any) -> None:
    with pytest.raises(ValueError, match="row_tokens: expected room for a row of"):
        MaskingCollator(JOINT, train, row_tokens=3, epoch=0)(rows_of(train, 4))
