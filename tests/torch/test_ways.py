"""A law for all trainers: they train on the batches of the loader, epoch after epoch, or raise an error at once.

The batches of all ranks have each row once an epoch, with another mask in each.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
for name in ("transformers", "accelerate", "lightning", "datasets"):
    pytest.importorskip(name)

import mslm_data as md  # noqa: E402
from tests import made  # noqa: E402
from tests.support.waiting import PATIENCE_S  # noqa: E402
from tests.torch import processes  # noqa: E402
from tests.torch.shards import lists  # noqa: E402
from tests.torch.test_steps import free_port, no_accelerator  # noqa: E402, F401 - a fixture
from tests.torch.ways import (  # noqa: E402
    EPOCHS,
    ROWS_OF_A_BATCH,
    SEED,
    SHAPES,
    STRATEGIES,
    WAYS,
    Run,
    expected_batches,
    run_rank,
    run_ways,
)

REFUSED = {"Trainer", "Trainer, rows masked by the collator"}
"""Ways in which nobody sets the epoch."""
LOOPS = ("plain loop", "Accelerate", "Trainer with the callback", "Lightning")
"""Ways for all models; an `MslmModel` predicts masked tokens alone."""
COLLATED = "Trainer with the callback, rows masked by the collator"
"""A way in which the Trainer orders the rows, and may repeat some at the end of an epoch."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a folder of 64 rows: two of three ranks would have one batch less than the third."""
    out = tmp_path_factory.mktemp("built") / "ncbi"
    made.built(out, pipeline=made.pipeline_of(encode={"max_tokens": 48}))
    return out


@pytest.fixture(scope="module")
def folder_of_t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("built") / "ncbi"
    pipeline = made.pipeline_of(encode={"max_tokens": 48})
    made.built(out, pipeline=pipeline, tokenizer=made.t5())
    return out


def masks_of(batches: Any) -> dict[int, list[int]]:
    """Return the masked positions of each row, by key. Batches are padded, not flat."""
    return {
        key: [place for place, label in enumerate(labels) if label != -100]
        for batch in batches
        for key, labels in zip(batch["keys"], batch["labels"], strict=True)
    }


def masks_by_epoch(folder: Path) -> list[dict[int, list[int]]]:
    """Return the masks of each epoch, by `Strategy.plan`."""
    rows = md.load(folder)["train"].examples()
    keys = rows.keys.view("int64").tolist()
    every = []
    for epoch in range(EPOCHS):
        kinds = STRATEGIES["masked"].plan(rows, seed=SEED, epoch=epoch).kinds
        masked = [[place for place, kind in enumerate(row) if kind] for row in kinds.tolist()]
        every.append(dict(zip(keys, masked, strict=True)))
    return every


def check_law(folder: Path, told: list[dict[str, Any]], run: dict[str, Any]) -> None:
    """Check the results of all processes for each way."""
    world = len(told)
    for name in told[0]:
        of_ranks = [of_rank[name] for of_rank in told]
        if name in REFUSED:
            assert all(ran["refused"] and not ran["seen"] for ran in of_ranks), name
            continue

        assert not any(ran["refused"] for ran in of_ranks), (name, of_ranks[0]["refused"])
        if name == COLLATED:
            check_collated(folder, [ran["seen"] for ran in of_ranks], resumed=run["resumed"])
            continue

        for rank, ran in enumerate(of_ranks):
            alone = Run(str(folder), "", rank, world, **run)
            lengths = epoch_lengths(alone.loader(rank=rank, world=world))
            start = alone.stop if run["resumed"] else 0
            expected = list(islice(expected_batches(alone), start, start + len(ran["seen"])))

            assert ran["seen"] == expected, (name, rank)
            steps = EPOCHS * lengths[0] if "Trainer" in name else sum(lengths)
            assert start + len(expected) == steps


def epoch_lengths(loader: Any) -> list[int]:
    lengths = []
    for epoch in range(EPOCHS):
        loader.set_epoch(epoch)
        lengths.append(len(loader))
    return lengths


def check_collated(folder: Path, seen: list[list[Any]], *, resumed: bool) -> None:
    """Check that each row has the mask of its epoch, and that all rows are there."""
    expected = masks_by_epoch(folder)
    steps = -(-len(expected[0]) // (ROWS_OF_A_BATCH * len(seen)))
    start = steps + 2 if resumed else 0
    for epoch in range(1 if resumed else 0, EPOCHS):
        first, stop = max(epoch * steps - start, 0), (epoch + 1) * steps - start
        found = masks_of(batch for batches in seen for batch in batches[first:stop])
        assert found == {key: expected[epoch][key] for key in found}
        assert len(found) == len(expected[0]) or (resumed and epoch == 1)


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_loaders__give_each_row_once_an_epoch_with_its_mask(
    folder: Path, shape: str, world: int
) -> None:
    expected = masks_by_epoch(folder)
    loaders = [
        Run(str(folder), "", rank, world, shape, resumed=False).loader(rank=rank, world=world)
        for rank in range(world)
    ]

    for masks in expected:
        batches = [lists(batch) for loader in loaders for batch in loader]

        assert sorted(key for batch in batches for key in batch["keys"]) == sorted(masks)
        assert shape == "flat" or masks_of(batches) == masks


def test_masks__differ_between_epochs(folder: Path) -> None:
    first, *others = masks_by_epoch(folder)

    for other in others:
        assert sum(first[key] == other[key] for key in first) < len(first) / 8


def test_ways__in_one_resumed_process(
    folder: Path,
    folder_of_t5: Path,
    tmp_path: Path,
    no_accelerator: None,  # noqa: F811
) -> None:
    runs = (
        (folder, WAYS, "masked"),
        (folder, LOOPS, "causal, then masked"),
        (folder_of_t5, LOOPS, "sentinels"),
    )
    for folder, ways, strategy in runs:
        run = {"strategy": strategy, "shape": "tokens", "resumed": True}
        out = str(tmp_path / strategy)

        told = run_ways(list(ways), folder=str(folder), out=out, rank=0, world=1, **run)

        check_law(folder, [told], run)


@pytest.mark.parametrize(
    ("ways", "strategy", "world", "shape", "resumed"),
    [
        (LOOPS, "causal, then masked", 2, "tokens", True),
        (LOOPS, "sentinels", 2, "tokens", True),
        *(
            pytest.param(WAYS, "masked", world, shape, resumed, marks=pytest.mark.long)
            for world in (1, 2, 3)
            for shape in SHAPES
            for resumed in (False, True)
        ),
    ],
)
def test_ways__in_several_processes(
    folder: Path,
    folder_of_t5: Path,
    tmp_path: Path,
    ways: Collection[str],
    strategy: str,
    world: int,
    shape: str,
    resumed: bool,
) -> None:
    folder = folder_of_t5 if strategy == "sentinels" else folder
    run = {"strategy": strategy, "shape": shape, "resumed": resumed}
    options = {"folder": str(folder), "out": str(tmp_path / "out"), "world": world, **run}
    port = free_port()

    started = [
        processes.start(
            run_rank, list(ways), port, str(tmp_path / "told"), {**options, "rank": rank}
        )
        for rank in range(world)
    ]
    for process in started:
        process.join(PATIENCE_S)

    assert [process.exitcode for process in started] == [0] * world
    told = [json.loads((tmp_path / f"told-{rank}.json").read_text()) for rank in range(world)]
    check_law(folder, told, run)
