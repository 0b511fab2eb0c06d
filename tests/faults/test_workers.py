"""Processes that die, hang or raise at a unit: the build continues, and shows no text."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mslm_data.api.loading import load
from mslm_data.builds import stages, steps
from mslm_data.builds.verify import verify
from mslm_data.errors import BuildError, ShardError
from mslm_data.pipeline import Pipeline
from tests import made
from tests.cli.running import run
from tests.faults import works
from tests.faults.corpora import CORPORA, pipeline_of
from tests.support.cases import long
from tests.support.waiting import PATIENCE_S, wait_for

LINES = CORPORA["lines"]
Notes = tuple[Path, dict[str, bytes]]
"""Input notes, and the bytes of their folder."""
SET_ASIDE = "expected text that the models of the pipeline can take, got"


@pytest.fixture(autouse=True)
def faulty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "BuildWork", works.FaultyWork)
    monkeypatch.setattr(stages, "_LOADED", {})  # Other annotations would still be cached.


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("whole")
    LINES.build(LINES.write(folder), folder / "out")
    return made.tree(folder / "out")


def aside(out: Path) -> dict[str, str]:
    lines = (out / "set_aside.jsonl").read_text(encoding="utf-8").splitlines()
    return {line["id"]: line["reason"] for line in map(json.loads, lines)}


def words_of(inputs: Path, number: int) -> list[str]:
    text: str = json.loads(inputs.read_text(encoding="utf-8").splitlines()[number])["text"]
    return [word for word in text.split() if len(word) > 6]


@pytest.mark.parametrize("workers", [2, *long(4)])
@pytest.mark.parametrize("document", ["21", *long("0", "59")])
def test_build__continues_when_a_worker_dies_once(
    document: str, workers: int, whole: dict[str, bytes], tmp_path: Path
) -> None:
    inputs, out = LINES.write(tmp_path), tmp_path / "out"
    works.tell(out, do="die", document=document, times=1)

    LINES.build(inputs, out, workers=workers)

    assert works.deaths(out) == 1
    assert made.tree(out) == whole


@pytest.mark.parametrize("part", [None, *long(((2, 2),))])
def test_build__names_a_document_that_kills_its_worker_twice(
    part: tuple[int, int] | None, whole: dict[str, bytes], tmp_path: Path
) -> None:
    inputs, out = LINES.write(tmp_path), tmp_path / "out"
    works.tell(out, do="die", document="21")

    with pytest.raises(
        BuildError,
        match=r"^train\.jsonl:22: document 21: a worker process died twice at this document or close "
        r"to it \(the last: signal 9\); remove the document, or set it aside with "
        r"--set source\.on_crash=skip, and run the same command again$",
    ):
        LINES.build(inputs, out, workers=2, part=part)

    assert works.deaths(out) == 2
    works.tell(out)  # the model is mended
    LINES.build(inputs, out, workers=2)
    assert made.tree(out) == whole


def test_build__sets_aside_a_document_that_kills_its_worker(
    whole: dict[str, bytes], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With the option, in the folder in which the build ended without it."""
    inputs, out = LINES.write(tmp_path), tmp_path / "out"
    works.tell(out, do="die", document="21")
    with pytest.raises(BuildError, match="on_crash"):
        LINES.build(inputs, out, workers=2)

    pipeline = corpus_pipeline(on_crash="skip")
    manifest = made.build(pipeline, [inputs], made.word_piece(), out, workers=2)

    assert manifest
    assert works.deaths(out) == 4
    assert aside(out)["21"] == f"{SET_ASIDE} a process that died"
    assert "train.jsonl:22: document 21 is set aside" in caplog.text
    assert not any(word in caplog.text for word in words_of(inputs, 21))
    train = manifest.splits["train"]
    assert (train.read, train.aside) == (60, whole["set_aside.jsonl"].count(b"\n") + 1)
    assert verify(out)[1] == []


def corpus_pipeline(**source: Any) -> Pipeline:
    return pipeline_of(LINES.unit_bytes, "lines", {"use": "jsonl", **source})


@pytest.mark.parametrize(
    ("do", "message"), [("memory", "out of memory"), *long(("disk", "OSError in works.py"))]
)
def test_build__stops_when_no_document_is_the_cause(
    do: str, message: str, whole: dict[str, bytes], tmp_path: Path
) -> None:
    inputs, out = LINES.write(tmp_path), tmp_path / "out"
    works.tell(out, do=do, document="21", times=1)

    with pytest.raises(BuildError, match=message) as error:
        LINES.build(inputs, out, workers=2)

    assert not any(word in str(error.value) for word in words_of(inputs, 21))
    LINES.build(inputs, out, workers=2)
    assert made.tree(out) == whole


@pytest.mark.long
def test_build__continues_when_a_hanging_worker_is_killed(
    whole: dict[str, bytes], tmp_path: Path
) -> None:
    inputs, out = LINES.write(tmp_path), tmp_path / "out"
    works.tell(out, do="hang", document="21", times=1)

    def end_it() -> None:
        wait_for(lambda: works.deaths(out))
        os.kill(int((tmp_path / "out.fault.pid").read_text()), signal.SIGKILL)

    killer = threading.Thread(target=end_it)
    killer.start()
    LINES.build(inputs, out, workers=2)
    killer.join()

    assert made.tree(out) == whole


# Complete programs --------------------------------------------------------------------------------


def words_for(inputs: Path, out: Path, *more: str) -> list[Any]:
    """Return the command that builds notes."""
    vocab = made.SAMPLE / "vocab.txt"
    pipeline = inputs.parent / "notes.toml"
    if not pipeline.exists():  # Running programs may be reading it.
        pipeline.write_text(
            'name = "notes"\n[source]\nuse = "notes"\nshares = { train = 1.0 }\n'
            '[segment]\nuse = "clinical"\n'
            f'[annotate]\nuse = "terms"\ntable = "{made.SAMPLE / "concepts.csv"}"\n'
            'labels = ["Treatment", "Disease", "Symptom"]\n[shard]\ninput_bytes = 4000\n'
        )
    given = ("--source", pipeline, "--input", inputs, "--tokenizer", vocab)
    return ["build", *given, "--out", out, *more]


def program(*words: Any) -> subprocess.Popen[bytes]:
    """Start a command in a process group of its own, like a shell."""
    command = [sys.executable, "-m", "mslm_data", *map(str, words)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )


def descendants(pid: int) -> set[int]:
    """Return all descendants of a process."""
    try:
        children = {
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        }
    except OSError:
        return set()
    return children.union(*map(descendants, children))


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def wait_for_end(pids: set[int]) -> None:
    wait_for(lambda: not any(command_of(pid) for pid in pids))


def finish(notes: Notes, out: Path) -> None:
    """Run the command again, to the end."""
    inputs, expected = notes
    assert run(*words_for(inputs, out)).code == 0
    assert made.tree(out) == expected


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Notes:
    folder = tmp_path_factory.mktemp("notes")
    inputs = CORPORA["notes"].write(folder / "in")
    assert run(*words_for(inputs, folder / "out", "--workers", "1")).code == 0
    return inputs, made.tree(folder / "out")


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks for processes in /proc")
@pytest.mark.parametrize("number", [0, *long(1, 2, 3)])
def test_build__program_killed_while_its_workers_run(
    number: int, notes: Notes, tmp_path: Path
) -> None:
    inputs, _ = notes
    chance = random.Random(number)
    started = program(*words_for(inputs, tmp_path / "out", "--workers", "2"))
    receipts = tmp_path / "out" / ".build" / "receipts"
    wait_for(lambda: len(list(receipts.glob("*.json"))) > 2 * number or started.poll() is not None)
    below = descendants(started.pid)
    time.sleep(chance.random() * 0.1)

    started.kill()
    started.wait()

    wait_for_end(below)
    if not (tmp_path / "out" / "manifest.json").is_file():  # It is written last.
        with pytest.raises(ShardError):
            load(tmp_path / "out")
    finish(notes, tmp_path / "out")


@pytest.mark.parametrize("workers", [*long("1"), "2"])
@pytest.mark.parametrize("sent", [signal.SIGINT, *long(signal.SIGTERM)])
def test_build__interrupted_program_leaves_no_process_and_resumes(
    sent: signal.Signals, workers: str, notes: Notes, tmp_path: Path
) -> None:
    inputs, _ = notes
    started = program(*words_for(inputs, tmp_path / "out", "--workers", workers))
    wait_for(
        lambda: (
            list((tmp_path / "out").glob(".build/receipts/*.json")) or started.poll() is not None
        )
    )
    below = descendants(started.pid)

    started.send_signal(sent)
    out, err = started.communicate(timeout=PATIENCE_S)

    assert started.returncode in (130 if sent == signal.SIGINT else 143, 0)
    if started.returncode:
        assert b"run the same command again" in err
    assert b"Traceback" not in out + err
    wait_for_end(below)
    finish(notes, tmp_path / "out")


@pytest.fixture(scope="module")
def long_notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Enough notes for a build that lasts until its interruption."""
    path = tmp_path_factory.mktemp("long") / "NOTEEVENTS.csv"
    header, rows = (made.SAMPLE / "mimic" / "NOTEEVENTS.csv").read_text("utf-8").split("\n", 1)
    path.write_text(f"{header}\n{rows * 300}", encoding="utf-8")
    return path


def host_catches(leader: int, number: signal.Signals) -> bool:
    """Whether the host process of the workers has a handler for a signal."""
    for pid in descendants(leader):
        with suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text()
            caught = int(status.partition("SigCgt:")[2].split()[0], 16)
            if "import serve" in command_of(pid) and caught >> (number - 1) & 1:
                return True
    return False


def imports(leader: int) -> bool:
    """Whether Python has started in the host process."""
    return host_catches(leader, signal.SIGINT)


def has_imported(leader: int) -> bool:
    """Whether the host process has loaded all modules of the workers."""
    return host_catches(leader, signal.SIGTERM)


def has_workers(leader: int) -> bool:
    return len(descendants(leader)) > 1


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks for processes in /proc")
@pytest.mark.long
@pytest.mark.parametrize("moment", [imports, has_imported, has_workers])
@pytest.mark.parametrize(
    ("sent", "to"),
    [
        (signal.SIGINT, "group"),  # Like a terminal.
        (signal.SIGTERM, "group"),  # Like a scheduler.
        (signal.SIGTERM, "program"),
    ],
)
def test_build__program_interrupted_while_workers_start_prints_one_line(
    sent: signal.Signals, to: str, moment: Callable[[int], bool], long_notes: Path, tmp_path: Path
) -> None:
    started = program(*words_for(long_notes, tmp_path / "out", "--workers", "2"))
    wait_for(lambda: moment(started.pid))
    below = descendants(started.pid)

    if to == "group":
        os.killpg(started.pid, sent)
    else:
        started.send_signal(sent)
    out, err = started.communicate(timeout=PATIENCE_S)

    assert started.returncode == 128 + sent
    assert (out, err.strip().count(b"\n")) == (b"", 0), err.decode()
    assert b"run the same command again" in err
    assert not list(tmp_path.rglob("*.tmp"))
    wait_for_end(below)


@pytest.mark.long
def test_build__four_programs_at_once_make_one_folder(notes: Notes, tmp_path: Path) -> None:
    inputs, expected = notes
    out = tmp_path / "out"

    racers = [program(*words_for(inputs, out, "--workers", "1")) for _ in range(4)]
    results = [(racer.communicate(timeout=PATIENCE_S), racer.returncode) for racer in racers]

    assert 0 in [code for _, code in results]
    for (_, err), code in results:
        assert code == 0 or (code == 1 and b"another build is running" in err), err
    assert made.tree(out) == expected


def test_build__concurrent_and_repeated_parts_make_one_folder(notes: Notes, tmp_path: Path) -> None:
    inputs, _ = notes
    out = tmp_path / "out"

    parts = [
        program(*words_for(inputs, out, "--workers", "1", "--part", part))
        for part in ("1/3", "2/3", "3/3", "1/2")
    ]
    codes = [part.wait(PATIENCE_S) for part in parts]

    assert codes == [0, 0, 0, 0]
    finish(notes, out)
