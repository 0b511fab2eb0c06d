"""No word of a note leaves the shards, whatever a command prints or writes, and however it ends."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.running import run
from tests.security import faults
from tests.security.canary import (
    CONCEPTS,
    MARKED,
    SAMPLE,
    build_words,
    found_in,
    leaks,
    processes,
    short_folder,
    start,
    write_notes,
)
from tests.support.cases import long
from tests.support.waiting import PATIENCE_S, wait_for

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/cmdline").exists(), reason="there is no /proc here"
)


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_notes(tmp_path_factory.mktemp("notes") / "NOTEEVENTS.csv")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that contains every place a command in this process can write to."""
    for name in ("tmp", "cache"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("MSLM_DATA_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def short() -> Iterator[Path]:
    with short_folder() as folder:
        yield folder


def test_found_in__finds_canaries_in_any_case_and_in_parts(tmp_path: Path) -> None:
    (tmp_path / "set_aside.jsonl").write_text("expected a word, got ZEB ##ulon ##kanarie")

    assert found_in("x MISTELBRUNNER y") == ["mistelbrunner"]
    assert leaks(tmp_path) == ["set_aside.jsonl"]


@pytest.mark.parametrize("keep_text", [False, True])
def test_build__success_leaks_no_text(
    world: Path, notes: Path, keep_text: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    words = build_words(
        notes, world / "out", "--set", f"encode.keep_text={str(keep_text).lower()}", "--workers", 1
    )

    done = [run(*words), run(*words, "--json"), run(*words, "--dry-run")]

    assert [one.code for one in done] == [0, 0, 0]
    assert not found_in(f"{done} {capfd.readouterr()}")
    assert not leaks(world, shards_too=not keep_text)
    assert bool(leaks(world)) is keep_text


def test_leaks__commands_on_notes_leak_no_text(
    world: Path, notes: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = world / "out"
    assert run(*build_words(notes, out)).code == 0
    general = shutil.copytree(out, world / "general")
    gold = ("--gold", SAMPLE.parent.parent / "ncbi-disease", "--gold-source", "blurb/ncbi-disease")
    works = (
        ("mask-stats", out, "--sweep"),
        ("look", out, "--out", world / "page.html"),
        ("look", out, out, "--out", world / "beside_gold.html"),
        ("export", out, "--to", "parquet", "--out", world / "exported"),
        ("verify", out),
        ("vocab", "pmi", out, "--min-count", 2),
        ("vocab", "anchors", out, "--general", general, "--min-count", 2),
        ("vocab", "scores", "frequency", out),
        (
            "audit", out, *gold, "--label", "Disease=Disease", "--train", out, "--set",
            f"annotate.table={CONCEPTS}",
        ),
    )  # fmt: skip
    refused = (
        ("inspect", out),
        ("mask-stats", out, "--top-words", 5),
        ("push", out, "me/notes"),
    )

    done = [
        run(*words, *json)
        for words in works
        for json in ((), ("--json",))
        if not (json and words[0] in ("look", "export"))  # pages have no JSON; exports are new
    ]
    not_done = [run(*words, *json) for words in refused for json in ((), ("--json",))]

    assert [one.code for one in done] == [0] * len(done)
    assert [one.code for one in not_done] == [1] * len(not_done)
    assert not found_in(f"{done} {not_done} {capfd.readouterr()}")
    assert not leaks(world)
    assert (world / "page.html").is_file()


@pytest.mark.parametrize("fault", faults.HERE)
def test_build__failure_in_this_process_leaks_no_text(
    world: Path,
    notes: Path,
    fault: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with monkeypatch.context() as patches:
        faults.inject(fault, patches.setattr)
        done = run(*build_words(notes, world / "out", "--workers", 1, "--json"))

    expected = {"annotator": 0, "annotator interrupted": 130}.get(fault, 1)
    assert done.code == expected
    assert bool(done.err) is (expected != 0)
    assert not found_in(f"{done} {capfd.readouterr()}")
    assert not leaks(world)
    assert expected == 0 or not (world / "out" / "manifest.json").exists()


SAID = {
    "annotator chained": "expected a score",
    "annotator of the system": "OSError",
    "annotator with a path": "File name too long",
    "annotator out of memory": "out of memory",
    "annotator in Rust": "Panic",
    "annotator that exits": "SystemExit",
    "annotator that dies": "set it aside with --set source.on_crash=skip",
}
"""The expected message of each fault, if the build fails."""


@pytest.mark.parametrize("fault", [*faults.IN_WORKERS[:1], *long(*faults.IN_WORKERS[1:])])
def test_build__failure_in_a_worker_leaks_no_text(short: Path, notes: Path, fault: str) -> None:
    process = start(build_words(notes, short / "out", "--workers", "2"), short, fault)

    out, err = process.communicate(timeout=PATIENCE_S)

    aside = short / "out" / "set_aside.jsonl"
    if aside.exists():  # Documents that end processes may be set aside.
        assert (process.returncode, err.count("error")) == (0, 0)
        assert f':"{MARKED + 1}",' in aside.read_text()
    else:
        assert process.returncode == 1
        assert SAID[fault] in err
    assert not found_in(f"{out} {err}")
    assert "Traceback" not in err
    assert not leaks(short)


@needs_proc
@pytest.mark.parametrize(
    ("number", "send", "code"),
    [*long((signal.SIGINT, os.killpg, 130)), (signal.SIGTERM, os.kill, 143)],
)
def test_build__signal_leaks_no_text(
    short: Path, notes: Path, number: int, send: Callable[[int, int], None], code: int
) -> None:
    process = start(
        build_words(notes, short / "out", "--workers", "2"), short, "annotator that is slow"
    )
    seen = _wait_for_workers(process.pid, short / "out")

    send(process.pid, number)
    out, err = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == code
    assert "run the same command again" in err
    assert not found_in(f"{out} {err}{seen}")
    assert "Traceback" not in err
    assert not leaks(short)
    assert not list((short / "out").rglob("*.tmp"))
    assert _all_gone(process.pid)


def _wait_for_workers(session: int, out: Path) -> str:
    """Wait until a worker is at the slow note. Return the `ps` entries of all processes."""
    end, finished = time.monotonic() + PATIENCE_S, -1
    while time.monotonic() < end:
        seen = list(processes(session))
        before, finished = finished, len(list(out.rglob("*.arrow")))
        if finished > 3 and finished == before and len(seen) > 3:
            return str(seen)
        time.sleep(0.5)
    raise AssertionError(f"no worker at work: {len(seen)} processes, {finished} shards")


def _all_gone(session: int) -> bool:
    return wait_for(lambda: not any(processes(session)))
