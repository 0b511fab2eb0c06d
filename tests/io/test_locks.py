from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mslm_data.errors import BuildError
from mslm_data.io import cache, locks
from mslm_data.io.locks import HeldError, locked
from tests.io.locking import without_flock
from tests.support.waiting import PATIENCE_S

WITHOUT_LOCKS = ["ENOSYS", "EOPNOTSUPP"]
"""Errors of `flock` on file systems without locks."""


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


@pytest.fixture(params=["", *WITHOUT_LOCKS])
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The error of `flock`, also in this process; "" keeps the real `flock`."""
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


@pytest.mark.parametrize("name", WITHOUT_LOCKS, indirect=True)
def test_locked__names_the_lock_file_of_an_owner_on_another_machine(name: str, lock: Path) -> None:
    owner = lock.with_name("build.owner")
    owner.write_text("4711\nnode-17\n", encoding="ascii")
    owner.chmod(0o600)

    with pytest.raises(HeldError) as error, locked(lock, error=BuildError, patience=0):
        pass

    assert f"the lock {owner} belongs to process 4711 on node-17: if that is gone" in str(
        error.value
    )
    owner.unlink()
    with locked(lock, error=BuildError, patience=0):
        pass


@pytest.mark.parametrize("name", ["ENOLCK", "EIO"], indirect=True)
def test_locked__reports_a_rejected_lock(name: str, lock: Path) -> None:
    with (
        pytest.raises(BuildError) as error,
        locked(lock, error=BuildError, patience=0),
    ):
        pass

    assert str(error.value).startswith(f"{lock}: expected a lock on this file, got 'pretended")
    assert ("its lock service does not answer" in str(error.value)) == (name == "ENOLCK")
    assert "another" in str(error.value)


@pytest.mark.parametrize("name", ["ENOSYS"], indirect=True)
def test_locked__warns_once_about_lock_files(
    name: str, lock: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            with locked(lock, error=BuildError):
                assert (lock.stat().st_mode & 0o777) == 0o600

    (record,) = caplog.records
    assert f"{lock.parent}: the file system has no locks (flock)" in record.getMessage()


def test_locked__reports_the_lock_it_waits_for(
    name: str, lock: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_WARN_AFTER_S", 0.2)
    with other(name, lock) as process, caplog.at_level(logging.WARNING):
        assert said(process) == "held"
        threading.Timer(0.5, end, [process]).start()

        with locked(lock, error=BuildError):
            pass

    assert "waiting for another process that holds this lock" in caplog.text


@pytest.mark.parametrize("name", WITHOUT_LOCKS, indirect=True)
def test_make_once__repeats_after_a_kill_without_locks(name: str, tmp_path: Path) -> None:
    made = [cache.make_once(tmp_path / "place", lambda path: path.touch()) for _ in range(2)]

    assert made == [tmp_path / "place"] * 2


def build(out: Path, folder: Path, name: str) -> subprocess.Popen[str]:
    """Start the command on a file system with a failing `flock`."""
    site = folder / "site"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(
        f"from tests.io.locking import without_flock\nwithout_flock({name!r})\n", encoding="utf-8"
    )
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", ""), os.getcwd()])
    }
    command = [sys.executable, "-m", "mslm_data", "build", "--sample", "--source", "mimic"]
    return subprocess.Popen(
        [*command, "--out", str(out), "--workers", "2"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.long
def test_build__resumes_after_a_kill_without_locks(tmp_path: Path) -> None:
    out = tmp_path / "out"
    owner = out / ".build" / "locks" / "build.owner"
    first = build(out, tmp_path, "ENOSYS")
    while not (owner.is_file() and owner.stat().st_size) and first.poll() is None:
        time.sleep(0.001)
    first.send_signal(signal.SIGSTOP)  # Alive, and still running when the second build checks.
    second = build(out, tmp_path, "ENOSYS")
    _, message = second.communicate(timeout=PATIENCE_S)
    first.kill()
    first.communicate()
    was_left = owner.is_file()

    again = build(out, tmp_path, "ENOSYS")
    _, warning = again.communicate(timeout=PATIENCE_S)

    assert second.returncode == 1
    assert "another build is running in this folder" in message
    assert f"the lock {owner} belongs to process {first.pid} on" in message
    assert was_left
    assert again.returncode == 0, warning
    assert "the file system has no locks (flock)" in warning
    assert (out / "manifest.json").is_file()


@pytest.mark.long
def test_build__names_the_rejected_lock(tmp_path: Path) -> None:
    process = build(tmp_path / "out", tmp_path, "ENOLCK")
    _, message = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 1
    assert f"error: {tmp_path / 'out' / '.build' / 'locks' / 'build'}: expected a lock" in message
