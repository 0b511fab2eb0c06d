"""Programs run as by a user on shards of a corpus and of notes, killed and resumed.

test_ways.py compares the batches of all trainers, and test_programs.py runs the other examples.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

pytest.importorskip("torch")
for name in ("transformers", "accelerate", "lightning"):
    pytest.importorskip(name)

from transformers import AutoModel  # noqa: E402

import mslm_data as md  # noqa: E402
from mslm_data.torch import MaskedDataset  # noqa: E402
from tests.support.waiting import PATIENCE_S  # noqa: E402
from tests.torch import processes  # noqa: E402

JOINT = md.strategy("joint", elm=0.5, blm=0.15)


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
    arguments = (str(long_notes), str(tmp_path / "out"))

    before, *first, after = ran("continued_pretraining.py", tmp_path / "first", *arguments, "12000")
    resumed, *rest, last = ran("continued_pretraining.py", tmp_path / "rest", *arguments, "16000")

    seen = [0, *(step["seen"] for step in first + rest)]
    assert all(0 < stop - start <= 1_024 for start, stop in pairwise(seen))
    assert 12_000 <= first[-1]["seen"] < rest[-1]["seen"] >= 16_000
    assert after["after"] == pytest.approx(resumed["before"])  # equal masks, equal weights
    assert last["after"] < resumed["before"] < before["before"]
    assert (tmp_path / "out" / "encoder" / "model.safetensors").is_file()

    # Special tokens are never masked, so shares are slightly below the rates.
    assert 0.25 < fmean(step["masked"] for step in first[:3]) < 0.32
    assert 0.14 < fmean(step["masked"] for step in first[-3:]) < 0.20


@pytest.mark.long
def test_causal_detour__turns_once_and_resumes(long_notes: Path, tmp_path: Path) -> None:
    def steps(out: str, masked: str) -> list[dict[str, Any]]:
        given = (str(long_notes), str(tmp_path / out), "8000", masked)
        return ran("causal_detour.py", tmp_path / f"{out} {masked}", *given)

    whole = steps("whole", "4000")
    # Once within the causal phase, once within the masked one.
    parts = [steps("cut", masked) for masked in ("-4000", "2000", "4000")]

    assert [step for part in parts for step in part] == whole
    phases = [step["causal"] for step in whole]
    assert phases == sorted(phases, reverse=True)
    last_causal = max(step["seen"] for step in whole if step["causal"])
    assert 8_000 <= last_causal < 9_024
    assert AutoModel.from_pretrained(tmp_path / "cut" / "encoder").config.model_type == "modernbert"


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
