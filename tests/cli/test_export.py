"""Output of `mslm-data export`; the files are tested in tests/shard/test_export.py."""

from __future__ import annotations

from pathlib import Path

from tests.cli.running import run


def test_export__lists_the_chosen_splits_and_says_that_they_are_patients_text(
    notes: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"

    done = run(
        "export", notes, "--to", "jsonl", "--split", "test", "--split", "train", "--out", out
    )

    assert sorted(path.name for path in out.iterdir() if path.is_dir()) == ["test", "train"]
    assert done.out.splitlines() == [
        f"{out}/test: 20 rows in 1 file",
        f"{out}/train: 60 rows in 1 file",
        f"{out}: patients' text, as token ids can be turned back into it",
    ]
