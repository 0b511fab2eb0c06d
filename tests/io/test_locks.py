from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mslm_data.errors import BuildError
from mslm_data.io import locks
from mslm_data.io.locks import HeldError, locked
from tests.io.locking import without_flock


@contextmanager
def other(name: str, path: Path, seconds: float = 60) -> Iterator[subprocess.Popen[str]]:
    """Run another process that takes the lock; `name` is the error of its `flock`."""
    command = [sys.executable, "-m", "tests.io.locking", name, str(path), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "build"


@pytest.fixture(params=["", "ENOSYS"])
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The error of `flock`, also in this process; "" keeps the real `flock`.

    With ENOSYS, filelock uses a file with the owner's name.
    """
    import fcntl

    monkeypatch.setattr(fcntl, "flock", fcntl.flock)
    if request.param:
        without_flock(request.param)
    return str(request.param)


def test_locked__excludes_others_until_it_is_released(name: str, lock: Path) -> None:
    with other(name, lock) as process:
        assert said(process) == "held"
        with pytest.raises(HeldError), locked(lock, error=BuildError, patience=0):
            pass
    with locked(lock, error=BuildError, patience=0), other(name, lock) as process:
        assert said(process).startswith("refused")
    with other(name, lock) as process:
        assert said(process) == "held"


def test_locked__is_free_after_its_owner_was_killed(name: str, lock: Path) -> None:
    with other(name, lock) as process:
        assert said(process) == "held"
        end(process)

        with locked(lock, error=BuildError, patience=0):
            pass


@pytest.mark.parametrize("name", ["ENOLCK", "EIO", "EOPNOTSUPP"], indirect=True)
def test_locked__reports_a_rejected_lock(name: str, lock: Path) -> None:
    with (
        pytest.raises(BuildError) as error,
        locked(lock, error=BuildError, patience=0),
    ):
        pass

    assert str(error.value).startswith(f"{lock}: expected a lock on this file, got 'pretended")
    assert "start the lock service" in str(error.value)


def test_locked__reports_the_lock_it_waits_for(
    lock: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_WARN_AFTER_S", 0.2)
    with other("", lock) as process, caplog.at_level(logging.WARNING):
        assert said(process) == "held"
        threading.Timer(0.5, end, [process]).start()

        with locked(lock, error=BuildError):
            pass

    assert "waiting for another process that holds this lock" in caplog.text
