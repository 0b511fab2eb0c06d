"""Which splits `mslm-data overlap` compares, and its table; sentences are in tests/stats/test_overlap.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from mslm_data.shard.built_folder import load_splits
from tests.cli.running import run
from tests.stats.test_overlap import FILLER, folder_of


def compared(*words: object) -> list[tuple[str, str]]:
    """Return the names of the compared splits."""
    pairs = run("overlap", *words, "--json").json["pairs"]
    return sorted((pair["of"]["split"], pair["in"]["split"]) for pair in pairs)


def test_overlap__prints_one_line_per_pair_without_text(tmp_path: Path) -> None:
    here = folder_of(tmp_path / "here", ["Kinase inhibitors.", f"{FILLER} x", "a gene"])
    there = folder_of(tmp_path / "there", ["none", "kinase inhibitors", f"y {FILLER}"])

    done = run("overlap", here, there)

    head, line = done.out.splitlines()
    assert head.split("  ")[0] == "sentences of"
    assert line.split() == [f"{there}/train", f"{here}/train", "3", "1", "1", "1", "0.6667"]
    assert "kinase" not in (done.out + done.err).lower()


def test_overlap__compares_a_split_with_all_others_and_never_with_itself(
    ncbi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("test", "train", "validation")
    every = [(one, other) for one in names for other in names if one != other]

    assert compared(ncbi) == every
    assert compared(ncbi / "train") == [("test", "train"), ("validation", "train")]
    monkeypatch.chdir(ncbi.parent)
    assert compared(f"{ncbi.name}/test", ncbi / ".." / "ncbi", ncbi / "train") == [
        ("train", "test"),
        ("train", "test"),
        ("validation", "test"),
    ]
    monkeypatch.chdir(ncbi / "test")
    assert compared(".") == [("train", "test"), ("validation", "test")]


def test_overlap__rejects_a_folder_of_one_split(tmp_path: Path) -> None:
    done = run("overlap", folder_of(tmp_path / "alone", ["kinase"]))

    assert (done.code, done.out) == (2, "")
    assert "expected another split to compare with, got only this one" in done.err


def test_load_splits__accepts_a_folder_or_one_split(ncbi: Path) -> None:
    assert load_splits(ncbi)[1] == ("train", "validation", "test")
    assert load_splits(ncbi / "test")[1] == ("test",)
    assert load_splits(f"file://{ncbi}/test")[1] == ("test",)
