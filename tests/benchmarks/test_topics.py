"""The whole suite: its modules, missing peers, and failing topics."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import types
from pathlib import Path

import pytest

import benchmarks
import experiments
from benchmarks import __main__ as suite
from benchmarks import faults, harness, inputs, report
from benchmarks.harness import Results, Row, Table
from mslm_data.encode.tokenizer import load_tokenizer
from mslm_data.pipeline import read
from tests.made import build

MODULES = [
    f"{package.__name__}.{module.name}"
    for package in (benchmarks, experiments)
    for module in pkgutil.iter_modules(package.__path__)
]
NOWHERE = "package_that_nobody_installs"
INPUTS = inputs.Inputs(train=Path("train.tsv"), vocab=Path("vocab.txt"), description="nothing")


@pytest.mark.parametrize("module", MODULES)
def test_modules__import_existing_names(module: str) -> None:
    try:
        importlib.import_module(module)
    except ImportError as error:
        if harness.is_ours(error):
            raise
        pytest.skip(str(error))


def test_topics__are_modules_that_run() -> None:
    for topic in (*suite.TOPICS, *suite.PAGES):
        assert f"benchmarks.{topic}" in MODULES


def _topic(monkeypatch: pytest.MonkeyPatch, error: Exception) -> str:
    """Add a topic that raises an error, and return its name."""

    def run(*_: object) -> Results:
        raise error

    module = types.ModuleType("benchmarks.made_up")
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "benchmarks.made_up", module)
    return "made_up"


def test_measure__gives_the_reason_if_a_peer_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    absent = ModuleNotFoundError(f"No module named '{NOWHERE}'", name=NOWHERE)
    name = _topic(monkeypatch, absent)

    (row,) = suite.measure(name, INPUTS, tmp_path).rows

    assert (row.name, row.ours) == ("made_up", None)
    assert row.met == f"left out: No module named '{NOWHERE}'"


def test_measure__raises_if_our_own_module_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name = _topic(monkeypatch, ImportError("renamed", name="mslm_data.mask"))

    with pytest.raises(ImportError, match="renamed"):
        suite.measure(name, INPUTS, tmp_path)


def test_released__is_skipped_if_its_code_cannot_be_imported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("transformers")
    from benchmarks import released

    package = tmp_path / "mslm" / "masking"
    package.mkdir(parents=True)
    (package / "custom_mask.py").write_text(f"import {NOWHERE}\n", encoding="utf-8")
    monkeypatch.setenv(released.FOLDER, str(tmp_path))
    monkeypatch.setattr(sys, "path", [*sys.path])

    (row,) = released.run(INPUTS, tmp_path).rows

    assert row.met == f"left out: No module named '{NOWHERE}'"


def test_released__is_skipped_without_a_checkout(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("transformers")
    from benchmarks import released

    monkeypatch.delenv(released.FOLDER, raising=False)

    (row,) = released.run(INPUTS, tmp_path).rows

    assert row.met == "left out: MSLM_RELEASED_CODE names no checkout of it"


def test_released__refuses_a_folder_other_than_a_checkout(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("transformers")
    from benchmarks import released

    monkeypatch.setenv(released.FOLDER, str(tmp_path))

    with pytest.raises(FileNotFoundError, match=r"expected a checkout with mslm/masking/custom_"):
        released.run(INPUTS, tmp_path)


def test_run_in_process__returns_none_for_a_failed_topic(
    capfd: pytest.CaptureFixture[str],
) -> None:
    found = suite.run_in_process("no_such_topic")

    assert found is None
    assert "benchmarks.no_such_topic" in capfd.readouterr().err


def test_main__keeps_other_topics_if_one_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {
        "reading": [Row(name="read words", what="who", unit="words", ours=2e6)],
        "loss": [Row(name="loss", what="who", unit="steps", ours=3)],
    }
    earlier = Results(rows=[Row(name="encode words", what="who", unit="words", ours=4)])
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / report.SPEED).parent.mkdir(parents=True)
    report.store("encode", earlier, root=tmp_path)
    topics = {"reading": "Reading", "encode": "Encoding", "loss": "Loss"}
    monkeypatch.setattr(suite, "TOPICS", topics)
    monkeypatch.setattr(
        suite, "run_in_process", lambda name: Results(rows=rows[name]) if name in rows else None
    )

    code = suite.main([], root=tmp_path)

    page = (tmp_path / report.SPEED).read_text(encoding="utf-8")
    assert code == 1
    assert "| read words | words | 2 M |" in page
    assert "| encode words | words | 4 |" in page
    assert "| loss | steps | 3 |" in page
    assert (
        capsys.readouterr()
        .err.strip()
        .endswith("failed: encode; see above, without results the earlier ones stay")
    )


def test_main__stores_nothing_of_a_try(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = Row(name="encode words", what="who", unit="words", ours=2e6)
    (tmp_path / "benchmarks").mkdir()
    monkeypatch.setattr(suite, "run_in_process", lambda _: Results(rows=[row]))

    assert suite.main(["encode", "--try"], root=tmp_path) == 0

    assert "| encode words | words | 2 M |" in capsys.readouterr().out
    assert not list((tmp_path / "benchmarks").iterdir())


def test_main__succeeds_if_a_peer_is_absent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    row = harness.left_out("count n-grams", f"No module named '{NOWHERE}'")
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / report.SPEED).parent.mkdir(parents=True)
    monkeypatch.setattr(suite, "TOPICS", {"ngrams": "N-grams"})
    monkeypatch.setattr(suite, "run_in_process", lambda _: Results(rows=[row]))

    assert suite.main([], root=tmp_path) == 0


def test_main__lists_the_topics_if_a_name_is_unknown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="2"):
        suite.main(["encod"])

    assert "topics: expected some of encode, build, masking" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["faults", "--set", "kill=2"], "expected one of kills, seed, engines, rounds, got 'kill'"),
        (["encode", "--set", "kills=2"], "expected one topic with a page, of growth, faults"),
        (["faults", "soak", "--set", "seed=2"], "expected one topic with a page, of growth"),
    ],
)
def test_main__refuses_options_of_no_topic(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        suite.main(arguments)

    assert f"--set: {message}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("found", "code", "is_stored"),
    [
        (Results(tables=[Table(header=("n",), rows=[(1,)], align="r")]), 0, True),
        (Results(tables=[Table(header=("n",), rows=[(1,)], align="r")], failures=["x"]), 1, True),
        (harness.AbsentError("not installed here"), 0, False),
    ],
    ids=["sound", "a failure", "absent"],
)
def test_main__runs_a_topic_with_a_page(
    found: Results | Exception,
    code: int,
    is_stored: bool,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = []

    def run(_: object, scratch: Path, *, kills: int = 9) -> Results:
        asked.append((scratch.is_dir(), kills))
        if isinstance(found, Exception):
            raise found
        return found

    module = types.ModuleType("benchmarks.made_up")
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "benchmarks.made_up", module)
    monkeypatch.setattr(suite, "PAGES", {"made_up": ("Made up", "docs/results/made_up.md")})
    for name in ("benchmarks", "docs/results"):
        (tmp_path / name).mkdir(parents=True)

    assert suite.main(["made_up", "--set", "kills=2"], root=tmp_path) == code

    assert asked == [(True, 2)]
    assert (tmp_path / "docs" / "results" / "made_up.md").is_file() == is_stored
    assert is_stored or "made_up: left out: not installed here" in capsys.readouterr().err


def test_careless__builds_the_same_folder_without_its_precautions(tmp_path: Path) -> None:
    sample = inputs.ROOT / "vocab" / "sample"
    inputs.write(tmp_path / "train.tsv", inputs.read(sample / "bc2gm" / "train.tsv")[:20])
    pipeline = read({"name": "careless", "source": {"use": "conll"}})
    tokenizer = load_tokenizer(str(sample / "vocab.txt"))

    build(pipeline, [tmp_path / "train.tsv"], tokenizer, tmp_path / "careful", workers=1)
    with faults.careless():
        build(pipeline, [tmp_path / "train.tsv"], tokenizer, tmp_path / "careless", workers=1)

    assert faults.tree(tmp_path / "careless") == faults.tree(tmp_path / "careful")
