"""Array jobs on Slurm: the manual's recipe as a script, and a machine without Slurm."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from benchmarks import inputs, slurm
from benchmarks.harness import AbsentError
from benchmarks.slurm import Outcome, Recipe
from mslm_data.cli.build import command


def test_run__needs_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(AbsentError, match="Slurm is not installed here; missing: munged"):
        slurm.run(inputs.find(tmp_path), tmp_path)


def test_recipe__is_the_script_of_the_manual(tmp_path: Path) -> None:
    recipe = Recipe(tmp_path)

    array = recipe.script(tmp_path / "out").read_text("utf-8")
    whole = recipe.script(tmp_path / "out", whole=True).read_text("utf-8")

    assert array.startswith("#!/bin/bash\n")
    assert "\n#SBATCH --cpus-per-task=" in array.partition("\nexec ")[0]
    assert all(name not in array for name in ("notes.txt", "shards/notes", "--tokenizer sample"))
    assert f'--part "$SLURM_ARRAY_TASK_ID/{recipe.tasks}"' in array
    assert "--part" not in whole
    *_, build = whole.replace("\\\n", "").strip().splitlines()
    words = shlex.split(build.partition(" build ")[2].replace("$SLURM_CPUS_PER_TASK", "4"))
    given = command.make_context("build", words).params
    assert given["workers"] == 4
    assert given["out"] == tmp_path / "out"


def test_table__names_the_folder_that_differs() -> None:
    sound = Outcome({"requeued": 3, "cancelled": 1}, 2, 0, True, [])
    other = Outcome({"all cancelled": 1}, 4, 1, False, ["error: x"])

    rows = slurm.make_table([sound, other]).rows

    assert rows == [(1, 3, 1, "no", 2, 0, "yes"), (2, 0, 0, "yes", 4, 1, "NO")]
    assert sound.failures() == []
    assert other.failures() == [
        "the last exit code is 1",
        "other bytes",
        "a job printed `error: x`",
    ]
