"""The programs of `examples/`, run with the command lines in their docstrings."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("torch")
for name in ("transformers", "accelerate", "lightning"):
    pytest.importorskip(name)

from transformers import (  # noqa: E402
    AutoModel,
    AutoModelForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
)

import mslm_data as md  # noqa: E402
from mslm_data.torch import MaskedDataset, MslmModel  # noqa: E402
from tests.support.waiting import PATIENCE_S  # noqa: E402
from tests.torch import processes  # noqa: E402
from tests.torch.processes import SHOWN  # noqa: E402
from tests.torch.tiny_models import save_tiny_bert  # noqa: E402

PROGRAMS = ("plain_torch", "hf_trainer", "accelerate_loop", "lightning_fit")
ROOT = SHOWN.parent


def lines_of(program: str) -> list[str]:
    """Return the command lines in a program's docstring."""
    text = ast.get_docstring(ast.parse((SHOWN / f"{program}.py").read_text(encoding="utf-8")))
    assert text is not None
    indented = re.findall(r"^    (\S.*)$", text.replace("\\\n", " "), re.MULTILINE)
    return [" ".join(line.split()) for line in indented]


ALONE = {program: lines_of(program)[0] for program in PROGRAMS}
TOGETHER = [line for program in PROGRAMS for line in lines_of(program)[1:]]


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("shards") / "ncbi"
    md.build("blurb/ncbi-disease", sample=True, out=out, workers=1)
    return out


@pytest.fixture(scope="module")
def checkpoint(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_bert(md.load(shards), tmp_path_factory.mktemp("model") / "tiny")


class Places(NamedTuple):
    """Replacements for the manual's folders and model."""

    shards: Path
    out: Path
    checkpoint: Path

    def put(self, line: str) -> list[str]:
        """Return the words of a command line, with the replacements."""
        named = {"shards/ncbi": str(self.shards), "bert-base-cased": str(self.checkpoint)}
        words = [named.get(word, word) for word in shlex.split(line)]
        return [str(self.out) if word.startswith("out/") else word for word in words]


@pytest.fixture
def places(shards: Path, checkpoint: Path, tmp_path: Path) -> Places:
    return Places(shards, tmp_path / "out", checkpoint)


def run(line: str, *more: str, places: Places) -> str:
    """Run a command line as in a terminal; return its output."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    path = os.pathsep.join([str(Path(__file__).parent / "at_end"), str(ROOT)])
    offline = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    done = subprocess.run(
        [*places.put(line), "--batch-tokens", "256", *more],
        cwd=ROOT,
        env=os.environ | offline | {"PATH": programs},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("program", PROGRAMS)
def test_program__trains_and_saves(program: str, places: Places, tmp_path: Path) -> None:
    _, name, *words = places.put(ALONE[program])
    small = ("--steps", "2", "--save-steps", "2", "--batch-tokens", "256")

    process = processes.example(Path(name).name, tmp_path / "said", *words, *small)
    process.join(PATIENCE_S)

    assert process.exitcode == 0, (tmp_path / "said.err").read_text()
    said = (tmp_path / "said").read_text()
    assert "process 0 of 1" in said
    assert "step 2: " in said
    assert MslmModel.from_pretrained(places.out).config.labels == ["Disease"]
    assert AutoModel.from_pretrained(places.out / "encoder").config.hidden_size == 32


@pytest.mark.long
@pytest.mark.parametrize("line", lines_of("weighted_decoder"))
def test_weighted_decoder__trains_and_resumes(line: str, places: Places, tmp_path: Path) -> None:
    config = LlamaConfig(
        vocab_size=md.load(places.shards).manifest.token_ids.size,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
    )
    LlamaForCausalLM(config).save_pretrained(tmp_path / "tiny")
    line = line.replace("gpt2", str(tmp_path / "tiny"))

    first = run(line, "--steps", "2", "--save-steps", "2", places=places)
    again = run(line, "--steps", "3", "--save-steps", "1", places=places)

    assert "step 2: " in first
    assert "checkpoint-2" in again
    assert "step 3: " in again
    assert AutoModelForCausalLM.from_pretrained(places.out).config.hidden_size == 32


@pytest.mark.long
@pytest.mark.parametrize("line", [*ALONE.values(), *TOGETHER])
def test_line__trains_and_resumes(line: str, places: Places) -> None:
    ranks = ["0", "1"] if line in TOGETHER else ["0"]

    first = run(line, "--steps", "2", "--save-steps", "2", places=places)
    again = run(line, "--steps", "3", "--save-steps", "1", places=places)

    for said in (first, again):
        assert sorted(re.findall(rf"process (\d) of {len(ranks)}", said)) == ranks
    assert "step 2: " in first
    assert "step 2: " not in again
    assert "step 3: " in again


def test_lines__start_two_processes_of_each_program() -> None:
    for program in PROGRAMS:
        assert len(lines_of(program)) > 1, program
        for line in lines_of(program)[1:]:
            assert re.search(r"(_per_node|processes|--devices) 2\b", line), line


@pytest.mark.long
def test_programs__fill_batches_that_are_useful_on_two_processes(
    real: Path, tmp_path: Path
) -> None:
    """A position is useful if it holds a token; both processes wait for the larger batch of a step."""
    texts = {program: (SHOWN / f"{program}.py").read_text(encoding="utf-8") for program in PROGRAMS}
    defaults = [re.findall(r'"--batch-tokens", type=int, default=(\d+)', t) for t in texts.values()]
    ((tokens,),) = {tuple(found) for found in defaults}
    shards = md.build(
        "blurb/ncbi-disease",
        input=real / "blurb" / "NCBI-disease-IOB",
        tokenizer=real / "tokenizers" / "bert-base-cased__Bio_ClinicalBERT.vocab.txt",
        out=tmp_path / "ncbi",
    )

    data = MaskedDataset(shards["train"], "joint", seed=0)
    options = {"batch_tokens": int(tokens), "world": 2}
    loaders = [data.loader(rank=rank, **options) for rank in range(2)]
    useful = places = 0
    for step in zip(*loaders, strict=True):
        useful += sum(int(batch["attention_mask"].sum()) for batch in step)
        places += 2 * max(batch["attention_mask"].numel() for batch in step)

    assert useful / places > 0.95
