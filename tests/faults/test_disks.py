"""Disks that fail, fill up or lose power: one clear error, and the same bytes in the end."""

from __future__ import annotations

import errno
import os
import random
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mslm_data.api.loading import load
from mslm_data.builds.verify import verify
from mslm_data.errors import MslmDataError, ShardError
from tests import made
from tests.cli.running import run
from tests.faults.corpora import CORPORA
from tests.faults.disk import watched
from tests.faults.power import Disk

WORDS = CORPORA["words"]
CODES = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS)


def failing(code: int) -> Callable[[str], None]:
    def fail(_: str) -> None:
        raise OSError(code, os.strerror(code))

    return fail


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "out"
    WORDS.build(WORDS.write(out.parent), out)
    return out


def test_build__resumes_after_a_failed_disk_call(whole: Path, tmp_path: Path) -> None:
    inputs, expected = WORDS.write(tmp_path), made.tree(whole)
    with watched(0, failing(0)) as count:
        WORDS.build(inputs, tmp_path / "counted")

    failed = 0
    for at in range(1, count.calls + 1, 3):
        out, code = tmp_path / "out", CODES[at % len(CODES)]
        with watched(at, failing(code)):
            try:
                WORDS.build(inputs, out)
            except (OSError, MslmDataError):
                failed += 1
                with pytest.raises(ShardError):
                    load(out)
            else:
                assert (out / "manifest.json").is_file(), at  # Only the cleanup failed.
        WORDS.build(inputs, out)
        assert made.tree(out) == expected, at
        shutil.rmtree(out)
    assert failed > 20


@contextmanager
def small_files(size: int) -> Iterator[None]:
    """Reject writes beyond a file size, like a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


@pytest.mark.parametrize("size", [0, 100, 3000, 8000])
def test_build__resumes_after_torn_writes(size: int, whole: Path, tmp_path: Path) -> None:
    inputs, out = WORDS.write(tmp_path), tmp_path / "out"

    with small_files(size), pytest.raises((OSError, MslmDataError)):
        WORDS.build(inputs, out)

    assert not list(out.rglob("*.tmp"))
    with pytest.raises(ShardError):
        load(out)
    WORDS.build(inputs, out)
    assert made.tree(out) == made.tree(whole)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 128 KiB, if this process may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        pytest.skip("no permission to mount a small disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_build__reports_a_full_disk_and_resumes_with_more_space(
    whole: Path, small_disk: Path
) -> None:
    out = small_disk / "out"
    given = ("--source", "blurb/ncbi-disease", "--sample", "--set", "shard.input_bytes=3000")
    words = ("build", *given, "--out", out)

    full = run(*words)
    subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True)
    more = run(*words)

    assert (full.code, more.code) == (1, 0)
    assert full.err.startswith("error: ")
    assert f" {out}/" in full.err
    assert ": No space left on device; free some space, then run the same command" in full.err
    assert "Traceback" not in full.err
    assert verify(out)[1] == []


def test_export__full_disk_leaves_nothing(whole: Path, small_disk: Path) -> None:
    (small_disk / "other").write_bytes(bytes(120 << 10))

    done = run("export", whole, "--to", "jsonl", "--out", small_disk / "out")

    assert done.code == 1
    assert done.err.startswith("error: ")
    assert "No space left on device" in done.err
    assert "free some space" in done.err
    assert "Traceback" not in done.err
    assert [path.name for path in small_disk.iterdir()] == ["other"]


# Power loss ---------------------------------------------------------------------------------------


def images(record: Disk, folder: Path, moments: Iterable[int]) -> Iterator[Path]:
    """Yield disk contents after a loss of power: synced data, and none, all or some of the rest."""
    chance = random.Random(0)
    for moment in moments:
        for kept in (0.0, 1.0, 0.5):
            image = folder / "image"
            record.replay(moment, image, keeps=lambda kept=kept: chance.random() < kept)
            yield image
            shutil.rmtree(image, ignore_errors=True)


def lies(image: Path, expected: dict[str, bytes]) -> bool:
    """Whether a folder claims to be built and is incomplete."""
    return (image / "manifest.json").exists() and not made.tree(image).items() >= expected.items()


def test_build__claims_no_success_after_a_loss_of_power(whole: Path, tmp_path: Path) -> None:
    expected, record = made.tree(whole), Disk(tmp_path / "out")
    with record.watching():
        WORDS.build(WORDS.write(tmp_path), tmp_path / "out")
    assert len(record.events) > 100

    checked = 0
    for image in images(record, tmp_path, range(len(record.events) + 1)):
        assert not lies(image, expected)
        checked += 1
        if checked % 20 == 0:
            WORDS.build(WORDS.write(tmp_path), image)
            assert made.tree(image) == expected
    assert checked > 300


@pytest.mark.parametrize("forgotten", ["file", "folder"])
def test_replay__shows_the_effect_of_a_missing_sync(
    forgotten: str, whole: Path, tmp_path: Path
) -> None:
    """The test above can fail: without one kind of sync, some images are incomplete."""
    expected, record = made.tree(whole), Disk(tmp_path / "out", forget=forgotten)
    with record.watching():
        WORDS.build(WORDS.write(tmp_path), tmp_path / "out")

    assert any(
        lies(image, expected) for image in images(record, tmp_path, [len(record.events)] * 20)
    )
