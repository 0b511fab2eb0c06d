"""A law over trainers: a row that comes again in another epoch has another mask, or the way is refused at once.

It is checked in its strongest form: each row that a model is given has the mask of the epoch that the trainer is in.
"""

from __future__ import annotations

import json
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
"""Ways in which nobody says which epoch begins."""
REFUSED_AFTER_A_RESUME = {"Accelerate, ShardSampler that is told beside the prepared loader"}
"""Ways in which two say it, and the one that counts from 0 again does so last."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a folder of 64 rows; two of three ranks have a batch less than others would."""
    out = tmp_path_factory.mktemp("built") / "ncbi"
    made.built(out, pipeline=made.pipeline_of(encode={"max_tokens": 48}))
    return out


def check_law(folder: Path, told: list[dict[str, Any]], *, resumed: bool) -> None:
    """Check what each of several processes says of each way."""
    expected = list(expected_masks(str(folder)))
    for way in told[0]:
        of_ranks = [of_rank[way] for of_rank in told]
        if way in REFUSED or (resumed and way in REFUSED_AFTER_A_RESUME):
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


def test_expected__masks_of_a_row_differ_from_epoch_to_epoch(folder: Path) -> None:
    first, *others = expected_masks(str(folder))

    for other in others:
        assert sum(first[key] == other[key] for key in first) < len(first) / 8


@pytest.mark.parametrize("resumed", [False, True])
def test_ways__in_one_process(
    folder: Path,
    tmp_path: Path,
    resumed: bool,
    no_accelerator: None,  # noqa: F811
) -> None:
    options = {"rank": 0, "world": 1, "workers": 0, "persistent": False, "resumed": resumed}

    told = run_ways(list(WAYS), folder=str(folder), out=str(tmp_path), **options)

    check_law(folder, [told], resumed=resumed)


@pytest.mark.parametrize(
    ("world", "workers", "persistent", "resumed"),
    [
        (2, 1, True, False),
        *(
            pytest.param(world, workers, persistent, resumed, marks=pytest.mark.long)
            for world in (1, 2, 3)
            for workers, persistent in ((0, False), (1, False), (1, True))
            for resumed in (False, True)
            if (world, workers, persistent, resumed) != (2, 1, True, False)
        ),
    ],
)
def test_ways__in_several_processes_with_workers(
    folder: Path, tmp_path: Path, world: int, workers: int, persistent: bool, resumed: bool
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
            list(WAYS),
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
    check_law(folder, told, resumed=resumed)
