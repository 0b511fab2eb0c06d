"""Output of `mslm-data subset`; the folders are tested in tests/builds/test_subset.py."""

from __future__ import annotations

from pathlib import Path

import mslm_data as md
from tests.cli.running import run


def test_subset__warns_of_labels_with_fewer_mentions(ncbi: Path, tmp_path: Path) -> None:
    mentions = md.load(ncbi)["train"].record.mentions

    few = run("subset", ncbi, "--shots", 2, "--out", tmp_path / "few")
    many = run("subset", ncbi, "--shots", 10_000, "--out", tmp_path / "many")

    assert (few.code, few.err) == (0, "")
    assert f"warning: --shots 10,000: split 'train' has only {mentions} of Disease" in many.err


def test_subset__says_that_a_protected_folder_holds_patients_text(
    ncbi: Path, notes: Path, tmp_path: Path
) -> None:
    plain = run("subset", ncbi, "--documents", 4, "--out", tmp_path / "few")
    protected = run("subset", notes, "--documents", 4, "--out", tmp_path / "few-notes")

    assert plain.out.startswith(f"{tmp_path / 'few'}: 4 documents of train, 4 rows, ")
    assert "patients' text" not in plain.out
    assert f"{tmp_path / 'few-notes'}: patients' text" in protected.out
