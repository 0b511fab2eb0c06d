from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from mslm_data import annotating
from mslm_data.annotating import appending
from mslm_data.errors import AnnotateError
from tests.io.locking import without_flock

RECORD = b"{}\n"
FIRST = '{"id": "first", "entities": []}\n'
SECOND = '{"id": "second", "entities": [{"start": 1, "end": 2, "label": "X", "score": 1.0}]}\n'
THIRD = '{"id": "third", "entities": []}\n'

WRITER = f"""
import sys
from pathlib import Path
from mslm_data.annotating import appending

with appending(Path(sys.argv[1]), {RECORD!r}) as (write, _):
    write({FIRST!r})
    print("writing", flush=True)
    sys.stdin.readline()
    write({SECOND!r})
"""


@contextmanager
def other(out: Path) -> Iterator[subprocess.Popen[str]]:
    """Run another process that has written a line, and writes a second after one of its input."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(out)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "writing\n"
            yield process
        finally:
            process.kill()


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "found.jsonl"


@pytest.mark.parametrize("name", ["found.jsonl", "link.jsonl"])
def test_appending__refuses_a_file_that_another_process_writes(
    out: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "link.jsonl").symlink_to(out)
    (tmp_path / "link.jsonl.made.json").write_bytes(RECORD)
    with other(out) as process:
        with pytest.raises(
            AnnotateError,
            match=rf"/{name}: expected a file that no other process writes, got one that another "
            "`mslm-data annotate` is writing; wait for it, or name another --out$",
        ):
            appending(tmp_path / name, RECORD).__enter__()
        process.communicate("\n")

    assert process.returncode == 0
    with appending(tmp_path / name, RECORD) as (write, done):
        write(THIRD)
    assert done == {"first": 1, "second": 1}
    assert out.read_text() == FIRST + SECOND + THIRD


def test_appending__leaves_no_lock(out: Path, tmp_path: Path) -> None:
    with appending(out, RECORD) as (write, _):
        write(FIRST)
        lock = tmp_path / ".found.jsonl.lock"
        mode = lock.stat().st_mode & 0o777

    with pytest.raises(KeyboardInterrupt), appending(out, RECORD):
        raise KeyboardInterrupt

    assert mode == 0o600
    assert names_in(tmp_path) == ["found.jsonl", "found.jsonl.made.json"]


def test_appending__goes_on_after_a_kill(out: Path, tmp_path: Path) -> None:
    with other(out) as process:
        process.kill()
        process.wait()
        left = names_in(tmp_path)

        with appending(out, RECORD) as (write, done):
            write(THIRD)

    assert ".found.jsonl.lock" in left
    assert done == {"first": 1}
    assert out.read_text() == FIRST + THIRD
    assert names_in(tmp_path) == ["found.jsonl", "found.jsonl.made.json"]


def test_appending__says_whose_file_stands_for_a_lock(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    monkeypatch.setattr(fcntl, "flock", fcntl.flock)
    without_flock("ENOSYS")
    owner = tmp_path / ".found.jsonl.lock.owner"
    owner.write_text("4711\nnode-17\n", encoding="ascii")
    owner.chmod(0o600)

    with pytest.raises(AnnotateError, match="belongs to process 4711 on node-17: if that is gone"):
        appending(out, RECORD).__enter__()

    owner.unlink()
    with appending(out, RECORD) as (write, _):
        write(FIRST)
    assert names_in(tmp_path) == ["found.jsonl", "found.jsonl.made.json"]


def test_appending__overwrites_no_line_where_a_lock_is_granted_twice(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(annotating, "locked", lambda *_, **__: nullcontext())

    with appending(out, RECORD) as (write, _):
        write(FIRST)
        with appending(out, RECORD) as (write_too, _):
            write(SECOND)
            write_too(THIRD)

    assert out.read_text() == FIRST + SECOND + THIRD
