from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import made
from tests.cli.running import run


@pytest.fixture
def built(tmp_path: Path) -> Path:
    made.built(tmp_path / "built", made.SAMPLE / "ncbi-disease")
    return tmp_path / "built"


PMI = ("vocab", "pmi", "--min-count", 2)
FREQUENCY = ("vocab", "scores", "frequency")


@pytest.mark.parametrize(
    "name", ["manifest.json", "README.md", "train/data-00000-of-00001.arrow", "words.tsv"]
)
@pytest.mark.parametrize("words", [PMI, FREQUENCY])
def test_lexicon_file__keeps_files_that_are_no_lexicons(
    built: Path, words: tuple[str, ...], name: str
) -> None:
    (built / "words.tsv").write_text("gene\t5\n")
    before = (built / name).read_bytes()

    done = run(*words, built, "--out", built / name)

    assert done.code == 2
    assert f"expected a new file, or a lexicon to replace, got '{built / name}'" in done.err
    assert (built / name).read_bytes() == before


def test_lexicon_file__keeps_the_input_table(built: Path) -> None:
    table = built / "words.tsv"
    table.write_text("gene\t5\n")

    done = run("vocab", "scores", "table", built, "--from", table, "--out", table)

    assert done.code == 2
    assert table.read_text() == "gene\t5\n"


def test_lexicon_file__replaces_lexicons_and_empty_files(built: Path, tmp_path: Path) -> None:
    out = tmp_path / "made.arrow"
    out.touch()

    first = run(*FREQUENCY, built, "--out", out)
    frequencies = out.read_bytes()
    second = run(*PMI, built, "--out", out)

    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert out.read_bytes() != frequencies


def test_lexicon_file__keeps_non_files(built: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    done = run(*FREQUENCY, built, "--out", tmp_path / "pipe")

    assert done.code == 2
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("name", ["manifest.json", "tokenizer.json", "test/state.json"])
@pytest.mark.parametrize("option", ["--list", "--out"])
def test_text_file__keeps_files_of_a_build(
    built: Path, tmp_path: Path, option: str, name: str
) -> None:
    words = (*PMI, "--out", tmp_path / "x.arrow") if option == "--list" else ("look",)
    before = (built / name).read_bytes()

    done = run(*words, built, option, built / name)

    assert done.code == 2
    assert f"expected a new file, got '{built / name}', which belongs to a built folder" in done.err
    assert (built / name).read_bytes() == before


def test_text_file__replaces_other_files_in_a_built_folder(built: Path) -> None:
    (built / "masks.html").write_text("old")
    other = built.parent / "manifest.json"
    other.write_text("{}")

    inside = run("look", built, "--out", built / "masks.html")
    beside = run("look", built, "--out", other)

    assert (inside.code, beside.code) == (0, 0), inside.err + beside.err
    assert (built / "masks.html").read_text().startswith("<!doctype html>")


def test_text_file__keeps_non_files(built: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    done = run("look", built, "--out", tmp_path / "pipe")

    assert done.code == 2
    assert "expected a file, got " in done.err
    assert (tmp_path / "pipe").is_fifo()
