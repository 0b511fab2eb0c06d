"""The README shows what the program prints."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from mslm_data.cli import main
from mslm_data.io.resources import pipeline_names
from mslm_data.mask import STRATEGIES
from mslm_data.mask.table import strategy
from mslm_data.pipeline import of_tables
from mslm_data.source import SOURCES
from tests.generate import fixed_examples

ROOT = Path(__file__).parent.parent


def shown_demo() -> list[tuple[str, str]]:
    """Return the demo's commands in the README with what it shows of their output."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"<!-- demo:.*?-->\n```console\n(.*?)```\n<!-- end -->", text, re.DOTALL)
    assert block is not None
    pieces = re.split(r"^\$ (.+)\n", block[1], flags=re.MULTILINE)
    return list(zip(pieces[1::2], pieces[2::2], strict=True))


def test_readme__demo_prints_what_is_shown(tmp_path: Path) -> None:
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200"}

    for command, shown in shown_demo():
        words = [sys.executable, "-m", "mslm_data", *shlex.split(command)[1:]]
        done = subprocess.run(
            words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )

        assert done.stdout == shown


def test_readme__demo_is_what_make_demo_runs() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(r"^demo:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert recipe is not None

    commands = [line.strip().replace("$(BIN)/", "") for line in recipe[1].splitlines()]

    assert commands == [command for command, _ in shown_demo()]


def test_readme__python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert (
        main(["build", "--source", "blurb/ncbi-disease", "--sample", "--out", "shards/ncbi"]) == 0
    )
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 2

    for block in blocks:
        names: dict[str, object] = {}
        exec(block, names)  # noqa: S102 - the README's own code

        assert names


def test_readme__toml_is_a_pipeline_and_a_strategy(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    pipeline_block, mask_block = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "mine.toml").write_text(mask_block, encoding="utf-8")

    pipeline = of_tables(tomllib.loads(pipeline_block), name="readme")
    made = strategy(str(tmp_path / "mine.toml"))

    assert SOURCES.load(pipeline.source.use)
    assert made.plan(fixed_examples(), epoch=3).counts() > (0, 0)


def test_readme__names_every_pipeline_source_and_strategy() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")

    for name in (*pipeline_names(), *SOURCES.names(), *STRATEGIES.names()):
        assert f"`{name.split('/')[-1].rsplit('.v', 1)[0]}`" in text, name
