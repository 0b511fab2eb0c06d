"""CPUs that control groups allow, the cache folder, its locks, and what is not said."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

import filelock
import pytest

from mslm_data.doctor import machine
from mslm_data.io import cache


def group(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_cpus_of_group__takes_the_least_of_a_group_and_those_above(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("0::/pods/mine\n")
    group(tmp_path / "groups" / "pods", cpu__max="150000 100000\n")
    group(tmp_path / "groups" / "pods" / "mine", cpu__max="max 100000\n")

    assert machine.cpus_of_group(tmp_path / "groups", tmp_path / "own") == 1.5


def test_cpus_of_group__reads_version_1(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("5:memory:/job\n4:cpu,cpuacct:/job\n")
    job = tmp_path / "groups" / "cpu" / "job"
    group(job, cpu__cfs_quota_us="400000\n", cpu__cfs_period_us="100000\n")
    group(job.parent, cpu__cfs_quota_us="-1\n", cpu__cfs_period_us="100000\n")

    assert machine.cpus_of_group(tmp_path / "groups", tmp_path / "own") == 4


@pytest.mark.parametrize("own", ["0::/mine\n", "nonsense\n", ""])
def test_cpus_of_group__without_a_limit_is_none(own: str, tmp_path: Path) -> None:
    (tmp_path / "own").write_text(own)

    assert machine.cpus_of_group(tmp_path / "groups", tmp_path / "own") is None
    assert machine.cpus_of_group(tmp_path / "groups", tmp_path / "nothing") is None


def test_threads__are_numbers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("MKL_NUM_THREADS", "a secret")

    threads = machine.threads()

    assert threads["OMP_NUM_THREADS"] == 3
    assert "MKL_NUM_THREADS" not in threads


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
