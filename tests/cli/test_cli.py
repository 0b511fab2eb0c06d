from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mslm_data.cli import COMMANDS
from mslm_data.io import resources
from tests.cli.running import run


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("built")
    run("build", "--source", "blurb/bc5cdr-chem", "--sample", "--out", out)
    return out


HEAVY = (
    "numpy",
    "numba",
    "pyarrow",
    "tokenizers",
    "rich",
    "datasets",
    "torch",
    "spacy",
    "pooch",
    "fsspec",
)


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], *([command, "--help"] for command in COMMANDS)]
)
def test_help__loads_nothing_heavy(words: list[str]) -> None:
    script = f"import sys; from mslm_data.cli import main; main({words!r}); print(*sys.modules, file=sys.stderr)"

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stdout
    assert not set(HEAVY) & set(done.stderr.split())


def test_import__loads_nothing_heavy() -> None:
    script = "import sys, mslm_data; print(*sys.modules)"

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert not set(HEAVY) & set(done.stdout.split())


def test_help__names_every_command() -> None:
    done = run("--help")

    assert done.code == 0
    assert all(command in done.out for command in COMMANDS)


def test_recipes__lists_and_prints() -> None:
    listed = run("recipes")
    printed = run("recipes", "blurb/bc2gm")

    assert listed.out.split() == resources.pipeline_names()
    assert printed.out == resources.path("pipelines", "blurb/bc2gm.toml").read_text(
        encoding="utf-8"
    )
    assert run("recipes", "--json").json["recipes"] == resources.pipeline_names()
    assert run("recipes", "blurb/bc2").code == 1


def test_verify__finds_a_flipped_bit(built: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(built, damaged)
    shard = next((damaged / "train").glob("*.arrow"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 4
    shard.write_bytes(data)

    whole, broken = run("verify", built, "--json"), run("verify", damaged, "--json")

    assert (whole.code, whole.json["ok"], whole.json["problems"]) == (0, True, [])
    assert broken.code == 1
    assert not broken.json["ok"]
    assert "train/data-00000-of-00001.arrow" in broken.json["problems"][0]["place"]
    assert "problems" in run("verify", damaged).out


def test_inspect__marks_mentions_and_masks(built: Path) -> None:
    done = run(
        "inspect", built, "--start", "6", "--rows", "1", "--strategy", "joint", "--strategy", "elm"
    )

    assert done.code == 0
    assert "{[[baclofen]]}Chemical" in done.out
    assert done.out.count("joint:") == done.out.count("elm:") == 1


def test_inspect__json_has_tokens_mentions_and_kinds(built: Path) -> None:
    row = run("inspect", built, "--start", "6", "--rows", "1", "--json").json["rows"][0]

    (mention,) = row["mentions"]
    assert row["tokens"][0] == "[CLS]"
    assert set(row["masks"]["joint"][mention["start"] : mention["end"]]) == {2}
    assert len(row["masks"]["joint"]) == len(row["tokens"])


def test_inspect__patients_text_needs_a_flag(built: Path, tmp_path: Path) -> None:
    words = (
        "build",
        "--source",
        "blurb/bc5cdr-chem",
        "--sample",
        "--out",
        tmp_path,
        "--set",
        "about.protected=true",
    )
    run(*words)

    refused = run("inspect", tmp_path, "--start", "6", "--rows", "1")
    shown = run("inspect", tmp_path, "--start", "6", "--rows", "1", "--show-text")

    assert refused.code == 1
    assert "--show-text" in refused.err
    assert "baclofen" not in refused.out + refused.err
    assert "baclofen" in shown.out
    assert "Patients' text" in (tmp_path / "README.md").read_text()


def test_main__an_error_nobody_thought_of_shows_no_text(
    monkeypatch: pytest.MonkeyPatch, built: Path
) -> None:
    from mslm_data.shard import verify

    def fails(_: Path) -> None:
        raise KeyError("Zebulonkanarie")

    monkeypatch.setattr(verify, "verify", fails)

    done = run("verify", built)

    assert done.code == 1
    assert "KeyError in" in done.err
    assert "Zebulonkanarie" not in done.err
    with pytest.raises(KeyError):
        run("--debug", "verify", built)
