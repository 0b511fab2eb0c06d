"""Output files that commands replace, and those that they keep."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.cli.running import run


@pytest.fixture
def built(ncbi: Path, tmp_path: Path) -> Path:
    return shutil.copytree(ncbi, tmp_path / "built")


PMI = ("vocab", "pmi", "--min-count", 2)
FREQUENCY = ("vocab", "scores", "frequency")


@pytest.mark.parametrize(
    "name", ["manifest.json", "README.md", "train/data-00000-of-00001.arrow", "words.tsv"]
)
def test_output_file__keeps_files_that_are_no_lexicons(built: Path, name: str) -> None:
    (built / "words.tsv").write_text("gene\t5\n")
    before = (built / name).read_bytes()

    done = run(*PMI, built, "--out", built / name)

    assert done.code == 2
    assert f"expected a new file, or a lexicon to replace, got '{built / name}'" in done.err
    assert (built / name).read_bytes() == before


def test_output_file__replaces_lexicons_and_empty_files(ncbi: Path, tmp_path: Path) -> None:
    out = tmp_path / "made.arrow"
    out.touch()

    first = run(*FREQUENCY, ncbi, "--out", out)
    frequencies = out.read_bytes()
    second = run(*PMI, ncbi, "--out", out)

    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert out.read_bytes() != frequencies


@pytest.mark.parametrize("name", ["manifest.json", "tokenizer.json", "test/state.json"])
@pytest.mark.parametrize("option", ["--list", "--out"])
def test_output_file__keeps_files_of_a_build(
    built: Path, tmp_path: Path, option: str, name: str
) -> None:
    words = (*PMI, "--out", tmp_path / "x.arrow") if option == "--list" else ("look",)
    before = (built / name).read_bytes()

    done = run(*words, built, option, built / name)

    assert done.code == 2
    assert f"expected a new file, got '{built / name}', which belongs to a built folder" in done.err
    assert (built / name).read_bytes() == before


def test_output_file__replaces_other_files_in_a_built_folder(built: Path) -> None:
    (built / "masks.html").write_text("old")
    other = built.parent / "manifest.json"
    other.write_text("{}")

    inside = run("look", built, "--out", built / "masks.html")
    beside = run("look", built, "--out", other)

    assert (inside.code, beside.code) == (0, 0), inside.err + beside.err
    assert (built / "masks.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("words", [FREQUENCY, ("look",)])
def test_output_file__keeps_pipes(ncbi: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    os.mkfifo(tmp_path / "pipe")

    done = run(*words, ncbi, "--out", tmp_path / "pipe")

    assert done.code == 2
    assert (tmp_path / "pipe").is_fifo()
