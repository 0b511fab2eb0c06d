"""Variables that limit threads, the cache folder, its locks, and what is not said."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

import filelock
import pytest

from mslm_data.doctor import machine
from mslm_data.io import cache


def test_threads__are_numbers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("MKL_NUM_THREADS", "a secret")
    monkeypatch.setenv("NUMBA_NUM_THREADS", "9" * 5000)  # more digits than Python reads

    threads = machine.threads()

    assert threads["OMP_NUM_THREADS"] == 3
    assert "MKL_NUM_THREADS" not in threads
    assert "NUMBA_NUM_THREADS" not in threads


def test_cache_folder__is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "kept").write_bytes(b"12345")

    found = machine.cache_folder()

    assert found["writable"]
    assert found["error"] is None
    assert (found["named_by"], found["files"], found["bytes"]) == (cache.VARIABLE, 1, 5)
    assert machine.locks() == machine.FLOCK
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["kept"]


def test_cache_folder__that_cannot_be_made_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "file" / "cache"))

    found = machine.cache_folder()

    assert not found["writable"]
    assert found["error"] == "File exists"


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOSYS, machine.OWNER_FILES),
        (errno.ENOLCK, "its lock service does not answer"),
    ],
)
def test_locks__says_what_a_file_system_has(
    number: int, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(lock: filelock.FileLock, **_: object) -> None:
        raise OSError(number, "refused")

    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    monkeypatch.setattr(filelock.FileLock, "acquire", refuse)

    assert expected in machine.locks()


def test_anonymous__names_neither_user_nor_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/jdoe")
    monkeypatch.setenv("LOGNAME", "jdoe")
    monkeypatch.setattr(socket, "gethostname", lambda: "node17")

    words = "/home/jdoe/x, /home/jdoe2, /scratch/jdoe/y, node17:/export, node170"

    assert machine.anonymous(words) == "~/x, /home/jdoe2, /scratch/USER/y, HOST:/export, node170"
