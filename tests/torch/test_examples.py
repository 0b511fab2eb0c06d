"""The examples, run as by a user on shards of a corpus and of notes, killed and resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
for name in ("transformers", "accelerate", "lightning"):
    pytest.importorskip(name)

import mslm_data as md  # noqa: E402
from mslm_data.torch import MaskedDataset  # noqa: E402
from tests.support.waiting import PATIENCE_S  # noqa: E402
from tests.torch import processes  # noqa: E402

JOINT = md.strategy("joint", elm=0.5, blm=0.15)
PARTS = ("mslm_loss", "detection_loss", "classification_loss")


@pytest.fixture(scope="module")
def ncbi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory, "blurb/ncbi-disease")


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory, "mimic")


@pytest.fixture(scope="module")
def long_notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    long_rows = ("encode.join=document", "encode.max_tokens=512")
    return build(tmp_path_factory, "mimic", *long_rows)


@pytest.fixture(scope="module")
def uninterrupted(ncbi: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The output of an uninterrupted run of `plain_resume.py`."""
    state = tmp_path_factory.mktemp("whole") / "state"
    script = processes.EXAMPLES / "plain_resume.py"
    alone = os.environ | {"OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        [sys.executable, str(script), str(ncbi), str(state)],
        capture_output=True,
        text=True,
        check=True,
        env=alone,
    )
    return [json.loads(line) for line in ended.stdout.splitlines()]


def build(factory: pytest.TempPathFactory, source: str, *options: str) -> Path:
    """Build from the shipped sample, like the command."""
    out = factory.mktemp("shards") / "built"
    arguments = ["build", "--source", source, "--sample", "--out", str(out), "--workers", "1"]
    arguments += [word for option in options for word in ("--set", option)]
    subprocess.run([sys.executable, "-m", "mslm_data", *arguments], check=True, capture_output=True)
    return out


def ran(name: str, out: Path, *arguments: str) -> list[dict[str, Any]]:
    """Run an example to its end; return its output."""
    process = processes.example(name, out, *arguments)
    process.join(PATIENCE_S)
    errors = Path(f"{out}.err").read_text()
    assert process.exitcode == 0, errors
    assert "MslmModel: " not in errors  # no warning, for example about dropout
    return said(out)


def said(out: Path) -> list[dict[str, Any]]:
    lines = out.read_text().splitlines() if out.exists() else []
    return [json.loads(line) for line in lines if line.startswith('{"') and line.endswith("}")]


def expected(folder: Path, **options: Any) -> list[list[int]]:
    """Return the rows of each batch of two epochs."""
    loader = MaskedDataset(md.load(folder)["train"], JOINT, seed=7).loader(**options)
    keys = []
    for epoch in range(2):
        loader.set_epoch(epoch)
        keys += [batch["keys"].tolist() for batch in loader]
    return keys


@pytest.mark.long
def test_hf_trainer__trains_evaluates_and_resumes(notes: Path, tmp_path: Path) -> None:
    rows = len(md.load(notes)["train"])
    steps = 2 * -(-rows // 8)

    (first,) = ran("trainer_resumed.py", tmp_path / "first", str(notes), str(tmp_path / "out"))
    last = max(
        (tmp_path / "out").glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1])
    )
    for path in sorted(last.rglob("*"), reverse=True):
        path.unlink()
    last.rmdir()
    (again,) = ran("trainer_resumed.py", tmp_path / "again", str(notes), str(tmp_path / "out"))

    assert first["steps"] == again["steps"] == steps
    assert len(first["eval_loss"]) == 2
    assert sum(first["parts"].values()) == pytest.approx(first["eval_loss"][-1], rel=1e-4)
    assert again["eval_loss"][-1] == pytest.approx(first["eval_loss"][-1], abs=1e-5)
    assert not [
        line
        for line in (tmp_path / "first.err").read_text().splitlines()
        if "epoch: expected" in line
    ]


@pytest.mark.long
def test_accelerate__two_processes_see_each_row_once(ncbi: Path, tmp_path: Path) -> None:
    """The example itself checks that a checkpoint in mid-epoch is restored."""
    ranks = {line["rank"]: line for line in ran("accelerate_two.py", tmp_path / "out", str(ncbi))}

    keys = [key for rank in ranks.values() for batch in rank["seen"] for key in batch]
    assert sorted(ranks) == [0, 1]
    assert len(ranks[0]["seen"]) == len(ranks[1]["seen"])
    for kind in ("train", "eval"):
        assert ranks[0][kind] == ranks[1][kind]
        loss, *parts = ranks[0][kind].values()
        assert len(parts) == 3
        assert sum(parts) == pytest.approx(loss, rel=1e-4)
    split = md.load(ncbi)["train"]
    assert sorted(keys) == sorted(2 * split.examples().keys.view("int64").tolist())


@pytest.mark.long
def test_lightning__resumes_in_mid_epoch(ncbi: Path, tmp_path: Path) -> None:
    whole = expected(ncbi, batch_size=4)

    (first,) = ran(
        "lightning_stopped.py", tmp_path / "first", str(ncbi), str(tmp_path / "out"), "10"
    )
    (again,) = ran("lightning_stopped.py", tmp_path / "again", str(ncbi), str(tmp_path / "out"))

    assert [keys for _, keys in first["seen"] + again["seen"]] == whole
    assert [epoch for epoch, _ in first["seen"] + again["seen"]] == [0] * 15 + [1] * 15
    assert again["steps"] == len(whole) == 30
    for kind in ("train", "val"):
        parts = [again["losses"][f"{kind}_{part}"] for part in PARTS]
        assert sum(parts) == pytest.approx(again["losses"][f"{kind}_loss"], rel=1e-4)


@pytest.mark.long
def test_plain_torch__resumes_equally_after_a_kill(
    ncbi: Path, tmp_path: Path, uninterrupted: list[dict[str, Any]]
) -> None:
    whole = uninterrupted
    process = processes.example(
        "plain_resume.py", tmp_path / "run", str(ncbi), str(tmp_path / "two")
    )
    while len(said(tmp_path / "run")) < 8:
        assert process.is_alive()
        time.sleep(0.005)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    before = said(tmp_path / "run")

    after = ran("plain_resume.py", tmp_path / "rest", str(ncbi), str(tmp_path / "two"))

    assert 8 <= len(before) < len(whole)
    assert before == whole[: len(before)]
    assert after == whole[len(whole) - len(after) :]
    assert 0 <= len(before) + len(after) - len(whole) <= 3
    assert [step["keys"] for step in whole] == expected(ncbi, batch_size=4)


@pytest.mark.long
def test_continued_pretraining__lowers_the_rate_and_resumes(
    long_notes: Path, tmp_path: Path
) -> None:
    arguments = (str(long_notes), str(tmp_path / "checkpoint.pt"))

    (first,) = ran("continued_pretraining.py", tmp_path / "first", *arguments, "12000")
    (again,) = ran("continued_pretraining.py", tmp_path / "again", *arguments, "16000")

    steps = first["steps"] + again["steps"]
    assert sum(step["tokens"] for step in steps) == again["seen"] >= 16_000
    assert all(step["tokens"] <= 1_024 for step in steps)
    assert first["after"] == pytest.approx(again["before"])  # equal masks, equal weights
    assert again["after"] < again["before"] < first["before"]

    # Special tokens are never masked, so shares are slightly below the rates.
    def masked(steps: list[dict[str, Any]]) -> float:
        return sum(step["hidden"] for step in steps) / sum(step["tokens"] for step in steps)

    assert 0.25 < masked(first["steps"][:3]) < 0.32
    assert 0.14 < masked(first["steps"][-3:]) < 0.20


@pytest.mark.long
@pytest.mark.parametrize("units", ["tokens", "mentions"])
def test_masked_diffusion__bounds_lie_below_a_unigram_model(
    units: str, notes: Path, tmp_path: Path
) -> None:
    (found,) = ran("masked_diffusion.py", tmp_path / "run", str(notes), units)

    bound, unigram = found["bound"], found["unigram"]
    assert bound["high"] < unigram["nats"] - 1
    for part in ("terms", "others"):
        assert bound[part]["high"] < unigram[part]
