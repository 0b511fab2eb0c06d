"""The benchmark of a GPU, tiny and on the CPU: all of its steps."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")
pytest.importorskip("accelerate")
from benchmarks.gpu import __main__ as program
from benchmarks.gpu import data, part, suite
from benchmarks.gpu.page import page
from benchmarks.gpu.part import NO_TIME, Part
from benchmarks.gpu.scale import TINY
from benchmarks.inputs import ROOT

# Runs and bounds ----------------------------------------------------------------------------------


def measured(out: Path, seconds: float = 60, **runs: Any) -> dict[str, Any]:
    def reached(rows: Any) -> tuple[str, bool]:
        return f"{rows['b']['tokens/s']}", rows["b"]["tokens/s"] > 2

    part.measure(
        Part(title="A part", about=["of numbers"], runs=runs, goals={"more than 2": reached}),
        seconds,
        out,
    )
    return dict(json.loads(out.read_text()))


def test_measure__continues_after_a_failed_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> Any:
        raise ValueError("/a/path")

    found = measured(tmp_path / "a.json", a=fails, b=lambda: {"tokens/s": 3})

    assert found["rows"] == [
        {"name": "a", "error": "ValueError"},
        {"name": "b", "numbers": {"tokens/s": 3}},
    ]
    assert found["goals"] == [{"goal": "more than 2", "reached": "3", "met": True}]
    assert "/a/path" in capsys.readouterr().err


def test_measure__skips_runs_that_would_exceed_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]

    def ten_seconds() -> Any:
        now[0] += 10
        return {"tokens/s": 1}

    monkeypatch.setattr(part.time, "monotonic", lambda: now[0])
    found = measured(tmp_path / "a.json", 25, a=ten_seconds, c=ten_seconds, b=ten_seconds)

    assert [row.get("left out") for row in found["rows"]] == [None, None, NO_TIME]
    assert found["goals"] == [{"goal": "more than 2", "reached": "not measured", "met": False}]


def test_run_within__stops_a_program_and_its_children() -> None:
    script = "import subprocess, sys; print('begun', flush=True); subprocess.run(['sleep', '600'])"

    assert part.run_within([sys.executable, "-c", "print('x')"], 60) == (0, "x\n")
    assert part.run_within([sys.executable, "-c", script], 2) == (None, "begun\n")


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param(
            "tests/gpu/test_a.py::test_x[two words] PASSED    [ 50%]\n"
            "tests/gpu/test_a.py::test_y FAILED               [ 99%]\n"
            "FAILED tests/gpu/test_a.py::test_y - AssertionError: assert 1\n",
            {"passed": 1, "failed": 1, "skipped": 0, "failing": "test_y"},
            id="pytest",
        ),
        pytest.param(
            "[gw0] [ 50%] PASSED tests/gpu/test_a.py::test_x[two words] \n"
            "[gw1] [100%] SKIPPED tests/gpu/test_a.py::test_z \n"
            "[gw1] [100%] ERROR tests/gpu/test_a.py::test_y \n",
            {"passed": 1, "failed": 1, "skipped": 1, "failing": "test_y"},
            id="pytest-xdist",
        ),
    ],
)
def test_counted__reads_the_output_of_pytest(output: str, expected: dict[str, Any]) -> None:
    assert suite.counted(output, 1) == expected


@pytest.mark.parametrize(
    ("code", "failing"), [(0, ""), (None, "stopped before its end"), (4, "exit code 4")]
)
def test_counted__counts_a_crash_as_a_failure(code: int | None, failing: str) -> None:
    found = suite.counted("tests/gpu/test_a.py::test_x PASSED [ 5%]\n", code)

    assert found == {"passed": 1, "failed": int(bool(failing)), "skipped": 0, "failing": failing}


# Parts --------------------------------------------------------------------------------------------


def test_lengths__match_the_corpus() -> None:
    lengths = np.array(data.sentence_lengths(12_574))

    assert 39 < lengths.mean() < 42  # BC2GM: 40.5
    assert 36 <= np.median(lengths) <= 38
    assert lengths.min() >= 4
    assert lengths.max() <= 244


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpu")
    program.run_one("data", TINY, folder, 600)
    return folder


def test_data__has_rows_of_the_requested_lengths(built: Path) -> None:
    split = data.open_built(built, "sentences")["train"]

    lengths = sorted(split.lengths(np.arange(len(split))).tolist())
    assert lengths == sorted(data.sentence_lengths(TINY.sentences))


@pytest.mark.parametrize(
    "name",
    [
        "loss",
        "entities",
        *(
            pytest.param(name, marks=pytest.mark.long)
            for name in program.PARTS
            if name.startswith(("sentences", "notes"))
        ),
    ],
)
def test_part__measures_all_rows(name: str, built: Path) -> None:
    program.run_one(name, TINY, built, 600)

    found = json.loads((built / f"{name}.json").read_text())
    for row in found["rows"]:
        if "left out" in row:
            assert row["left out"].startswith("not installed: ")
            continue
        assert row.get("error") is None, row
        assert all(value is None or value >= 0 for value in row["numbers"].values())
    assert found["goals"]
    assert all(goal["reached"] != "not measured" for goal in found["goals"])
    if name == "loss":
        assert all(row["numbers"]["off by"] < 0.01 for row in found["rows"] if "numbers" in row)
    if name == "entities":
        ours, *others = found["rows"][:3]
        assert ours["numbers"]["entities"] > 20
        assert {row["numbers"]["the same"] for row in others} == {ours["numbers"]["entities"]}


WITHOUT = """
import builtins, importlib

real = builtins.__import__

def guarded(name, globals=None, *others, **more):
    caller = (globals or {}).get("__name__", "").split(".")[0]
    if caller in ("benchmarks", "mslm_data", "tests") and name.split(".")[0] in ABSENT:
        raise ImportError(f"{caller} wants {name}")
    return real(name, globals, *others, **more)

builtins.__import__ = guarded
for module in MODULES:
    importlib.import_module(module)
"""
"""Imports modules where some packages are not installed, as far as the project's own code can tell."""


@pytest.mark.long
def test_modules__need_only_packages_named_in_the_readme() -> None:
    absent = {
        "datasets",
        "lightning",
        "medcat",
        "nltk",
        "pandas",
        "polars",
        "scipy",
        "seqeval",
        "spacy",
    }
    modules = [f"benchmarks.gpu.{plan.module}" for plan in program.PARTS.values()]
    modules += [f"tests.gpu.{path.stem}" for path in (ROOT / "tests" / "gpu").glob("test_*.py")]

    script = f"ABSENT = {absent}\nMODULES = {modules}\n{WITHOUT}"
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, cwd=ROOT, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr


# The program --------------------------------------------------------------------------------------


@pytest.mark.long
def test_main__writes_numbers_and_page_and_reports_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = ["--part", "tests", "--part", "loss", "--part", "sentences-bert"]

    code = program.main(["--tiny", "--out", str(tmp_path), "--seconds", "4000", *parts])

    found = json.loads((tmp_path / "gpu.json").read_text())
    text = (tmp_path / "gpu.md").read_text()
    assert [one["title"] for one in found["parts"]] == ["Tests", "Loss", "sentences-bert"]
    assert found["parts"][0]["rows"][0]["numbers"]["passed"] == 3
    # It had no built folder to read.
    assert found["parts"][2]["error"] == "ShardError"
    assert code == 1
    assert "failed: sentences-bert" in capsys.readouterr().err
    assert "Ended early: ShardError." in text
    assert "| Tests | no test fails | 0 failed, 3 passed | yes |" in text
    assert str(tmp_path) not in text
    assert text == page(found)


def test_page__compares_rows_with_the_first() -> None:
    rows = [
        {"name": "peer", "numbers": {"tokens/s": 1000.0, "GiB": None, "failing": ""}},
        {"name": "ours", "numbers": {"tokens/s": 2500.0, "GiB": None, "failing": ""}},
        {"name": "broken", "error": "OutOfMemoryError"},
        {"name": "late", "left out": NO_TIME},
    ]
    goal = {"goal": "2.5x", "reached": "2.50x", "met": True}
    section = {"title": "T", "about": ["on what"], "rows": rows, "goals": [goal]}

    text = page({"machine": ["a card"], "seconds": 12.3, "parts": [section]})

    assert "| T | 2.5x | 2.50x | yes |" in text
    assert (
        "|  | tokens/s | of the first |\n| --- | ---: | ---: |\n"
        "| peer | 1,000 | 1.00x |\n| ours | 2,500 | 2.50x |\n"
        "| broken | failed: OutOfMemoryError |  |\n| late | no time left |  |\n"
    ) in text


def test_main__refuses_a_machine_without_a_gpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "_sees_card", lambda: False)

    assert program.main([]) == 1
    assert "card: expected one that torch sees, found none" in capsys.readouterr().err


def test_main__names_missing_packages(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "_NEEDED", ("numpy", "package_that_nobody_installs"))

    assert program.main([]) == 1
    assert "expected package_that_nobody_installs, found none" in capsys.readouterr().err


def test_make_gpu__uses_the_available_python() -> None:
    done = subprocess.run(
        ["make", "--dry-run", "gpu", "PYTHON=the-python", "OUT=here"],
        check=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )

    wheels, run = done.stdout.splitlines()
    assert wheels.startswith("test ! -d wheels || the-python -m pip install ")
    assert "--no-index" in wheels
    assert run.endswith("the-python -m benchmarks.gpu --out here")
