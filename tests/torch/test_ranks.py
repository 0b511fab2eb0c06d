"""Two processes that train together see each row once per epoch, with all trainers and shapes of batches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
for name in ("transformers", "accelerate", "lightning"):
    pytest.importorskip(name)

import mslm_data as md  # noqa: E402
from tests import made  # noqa: E402
from tests.support.waiting import PATIENCE_S  # noqa: E402
from tests.torch import processes, ranks  # noqa: E402
from tests.torch.test_steps import free_port  # noqa: E402

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("built") / "ncbi"
    made.built(out, pipeline=made.pipeline_of(unit_bytes=1500, encode={"max_tokens": 48}))
    return out


@pytest.fixture(scope="module")
def told(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The results of two processes, started once for all tests here."""
    out = tmp_path_factory.mktemp("ranks")
    port = free_port()
    started = [
        processes.start(ranks.train_in_every_way, str(folder), str(out / "told"), rank, port)
        for rank in range(2)
    ]
    for process in started:
        process.join(PATIENCE_S)
    assert [process.exitcode for process in started] == [0, 0]
    return [json.loads((out / f"told-{rank}.json").read_text()) for rank in range(2)]


def keys_of(folder: Path) -> list[int]:
    keys: list[int] = md.load(folder)["train"].examples().keys.view("int64").tolist()
    return sorted(keys)


@pytest.mark.parametrize("shape", ranks.SHAPES)
@pytest.mark.parametrize(
    "way",
    [
        "plain, loader before the process group",
        "plain, loader after the process group",
        "Accelerate",
        "Lightning",
        "MslmTrainer",
        "MslmTrainer with a loader",
        "Trainer",
    ],
)
def test_ranks__see_each_row_once_per_epoch(
    way: str, shape: str, folder: Path, told: list[dict[str, Any]]
) -> None:
    every = keys_of(folder)

    for epoch in range(ranks.EPOCHS):
        of_ranks = [of_rank["seen"][f"{way}, {shape}"][epoch] for of_rank in told]

        assert all(of_ranks)
        assert sorted(key for keys in of_ranks for key in keys) == every


@pytest.mark.parametrize("shape", ranks.SHAPES)
def test_ranks__one_process_resumes_after_two(
    shape: str, folder: Path, told: list[dict[str, Any]]
) -> None:
    halves = [of_rank["halves"][shape] for of_rank in told]
    loader = ranks.dataset_of(str(folder)).loader(**ranks.SHAPES[shape])

    loader.load_state_dict(halves[0]["state"])
    rest = [batch["keys"].tolist() for batch in loader]

    assert halves[0]["state"] == halves[1]["state"]
    assert len(rest) > 2
    given = [keys for half in halves for keys in half["keys"]]
    assert sorted(key for keys in [*given, *rest] for key in keys) == keys_of(folder)
