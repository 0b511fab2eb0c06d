"""A law for all trainers: a row has another mask in each epoch, or an error is raised at once.

The strongest form is tested: each row has the mask of the trainer's current epoch.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
for name in ("transformers", "accelerate", "lightning", "datasets"):
    pytest.importorskip(name)

from tests import made  # noqa: E402
from tests.torch import processes  # noqa: E402
from tests.torch.test_steps import free_port, no_accelerator  # noqa: E402, F401 - a fixture
from tests.torch.ways import EPOCHS, WAYS, expected_masks, run_rank, run_ways  # noqa: E402

REFUSED = {
    "Trainer",
    "Trainer, rows masked by the collator",
    "DDP, DistributedSampler",
    "Accelerate, rows",
    "Accelerate, rows by a seedable sampler",
    "Lightning, rows",
}
"""Ways in which no trainer sets the epoch."""
REFUSED_AFTER_A_RESUME = {
    "Accelerate, ShardSampler that is told beside the prepared loader": 0,
    "Lightning, ShardSampler": 1,
}
"""Way that sets a wrong epoch after a resume, or sets it too late -> minimum number of workers."""

DAILY = (
    "Trainer",
    "Trainer with the callback",
    "Trainer, rows masked by the collator",
    "DDP, DistributedSampler",
    "DDP, loader that is not told",
    "Accelerate, rows by a seedable sampler",
    "Accelerate, ShardSampler that is told beside the prepared loader",
    "Lightning, rows",
    "Lightning, loader",
)
"""Ways of each trainer with a known epoch, and without one."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a folder of 64 rows: two of three ranks would have one batch less than the third."""
    out = tmp_path_factory.mktemp("built") / "ncbi"
    made.built(out, pipeline=made.pipeline_of(encode={"max_tokens": 48}))
    return out


def check_law(folder: Path, told: list[dict[str, Any]], *, resumed: bool, workers: int = 0) -> None:
    """Check the results of all processes for each way."""
    expected = list(expected_masks(str(folder)))
    for way in told[0]:
        of_ranks = [of_rank[way] for of_rank in told]
        if way in REFUSED or (resumed and REFUSED_AFTER_A_RESUME.get(way, 2) <= workers):
            assert all(ran["refused"] and not ran["seen"] for ran in of_ranks), way
            continue

        assert not any(ran["refused"] for ran in of_ranks), (way, of_ranks[0]["refused"])
        for epoch in range(1 if resumed else 0, EPOCHS):
            seen = [row for ran in of_ranks for row in ran["seen"] if row[0] == epoch]
            for _, key, places in seen:
                assert places == expected[epoch][key], (way, epoch)
            every = {key for _, key, _ in seen}
            assert every == expected[epoch].keys() or (resumed and epoch == 1), (way, epoch)
            assert len(every) > 8


def test_expected_masks__differ_between_epochs(folder: Path) -> None:
    first, *others = expected_masks(str(folder))

    for other in others:
        assert sum(first[key] == other[key] for key in first) < len(first) / 8


def test_ways__in_one_resumed_process(
    folder: Path,
    tmp_path: Path,
    no_accelerator: None,  # noqa: F811
) -> None:
    options = {"rank": 0, "world": 1, "workers": 0, "persistent": False, "resumed": True}

    told = run_ways(list(DAILY), folder=str(folder), out=str(tmp_path), **options)

    check_law(folder, [told], resumed=True)


@pytest.mark.parametrize(
    ("ways", "world", "workers", "persistent", "resumed"),
    [
        (DAILY, 2, 0, False, False),
        *(
            pytest.param(WAYS, world, workers, persistent, resumed, marks=pytest.mark.long)
            for world in (1, 2, 3)
            for workers, persistent in ((0, False), (1, False), (1, True))
            for resumed in (False, True)
        ),
    ],
)
def test_ways__in_several_processes_with_workers(
    folder: Path,
    tmp_path: Path,
    ways: Collection[str],
    world: int,
    workers: int,
    persistent: bool,
    resumed: bool,
) -> None:
    options = {
        "folder": str(folder),
        "world": world,
        "workers": workers,
        "persistent": persistent,
        "resumed": resumed,
    }
    port = free_port()

    started = [
        processes.start(
            run_rank,
            list(ways),
            port,
            str(tmp_path / "told"),
            {**options, "rank": rank, "out": str(tmp_path / "out")},
        )
        for rank in range(world)
    ]
    for process in started:
        process.join(200)

    assert [process.exitcode for process in started] == [0] * world
    told = [json.loads((tmp_path / f"told-{rank}.json").read_text()) for rank in range(world)]
    check_law(folder, told, resumed=resumed, workers=workers)
