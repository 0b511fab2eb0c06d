"""The private cache folder."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import platformdirs
import pytest

from mslm_data.errors import AnnotateError, SourceError
from mslm_data.io import cache


def test_folder__prefers_argument_then_environment_then_platform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name: tmp_path / "platform" / name)
    monkeypatch.delenv("MSLM_DATA_CACHE", raising=False)
    assert cache.folder("corpora") == tmp_path / "platform" / "mslm-data" / "corpora"
    monkeypatch.setenv("MSLM_DATA_CACHE", str(tmp_path / "environment"))
    assert cache.folder("corpora") == tmp_path / "environment" / "corpora"

    assert cache.folder("corpora", cache=tmp_path / "argument") == tmp_path / "argument" / "corpora"


def test_folder__is_private_even_in_a_shared_root(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)

    folder = cache.folder("inputs", cache=tmp_path)

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


@pytest.mark.parametrize("kind", ["corpora", "inputs", "packs", "shards", "unpacked"])
def test_folder__rejects_folders_that_others_can_write(kind: str, tmp_path: Path) -> None:
    """In a shared root, another user could create the folder first, with files to be read."""
    (tmp_path / kind).mkdir()
    (tmp_path / kind).chmod(0o777)

    with pytest.raises(SourceError, match=f"{kind}: other users can change this cache folder"):
        cache.folder(kind, cache=tmp_path)


def test_folder__code_is_never_below_a_folder_that_others_can_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)

    assert cache.folder("inputs", cache=tmp_path).is_dir()
    with pytest.raises(AnnotateError, match=f"packs: other users can .*: {tmp_path} is"):
        cache.folder("packs", cache=tmp_path, error=AnnotateError)


def test_folder__reports_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(
        SourceError, match=r"corpora: expected a cache folder .*, got .*; set MSLM_DATA_CACHE"
    ):
        cache.folder("corpora", cache=tmp_path / "file" / "below")


# make_once ------------------------------------------------------------------------------------------------------------


def visible(folder: Path) -> list[str]:
    """Return the files of a cache folder without locks."""
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith(".lock-"))


def slowly(made: Path) -> None:
    """Make a file with the name of its maker, slowly, and count the makers."""
    with (made.parents[1] / ".makers").open("a") as file:
        file.write(f"{os.getpid()}\n")
    with made.open("w") as file:
        file.write(str(os.getpid()))
        file.flush()
        time.sleep(0.2)


def make_slowly(place: Path) -> str:
    return cache.make_once(place, slowly).read_text()


@pytest.mark.parametrize("processes", [True, False])
def test_make_once__has_one_maker_and_others_wait(processes: bool, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(4, mp_context=context) if processes else ThreadPoolExecutor(4)
    with pool:
        read = set(pool.map(make_slowly, [tmp_path / "place"] * 4))

    assert len(read) == 1
    assert len((tmp_path / ".makers").read_text().split()) == 1
    assert visible(tmp_path) == [".makers", "place"]


def test_make_once__keeps_an_existing_place(tmp_path: Path) -> None:
    (tmp_path / "place").write_text("first")

    assert (
        cache.make_once(tmp_path / "place", lambda made: made.write_text("second")).read_text()
        == "first"
    )


_KILLED = """
import sys, time
from pathlib import Path
from mslm_data.io import cache

def half(made):
    made.mkdir()
    (made / "half").touch()
    print("half", flush=True)
    time.sleep(60)

cache.make_once(Path(sys.argv[1]), half)
"""


def killed(place: Path) -> None:
    """Kill a process while it makes a folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(place)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert process.stdout.readline() == "half\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()


def test_make_once__leaves_nothing_of_a_killed_process(tmp_path: Path) -> None:
    killed(tmp_path / "place")
    assert any(name.endswith(".mslm.tmp") for name in visible(tmp_path))

    cache.make_once(tmp_path / "place", lambda made: made.mkdir())

    assert visible(tmp_path) == ["place"]
    assert list((tmp_path / "place").iterdir()) == []


def test_make_once__keeps_temporaries_of_running_processes(tmp_path: Path) -> None:
    def work(made: Path) -> None:
        made.mkdir()
        with ThreadPoolExecutor(1) as other:
            other.submit(cache.make_once, tmp_path / "another", Path.touch).result()
        (made / "file").touch()

    cache.make_once(tmp_path / "place", work)

    assert visible(tmp_path) == ["another", "place"]


def full(made: Path) -> None:
    made.mkdir()
    (made / "half").touch()
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_make_once__syncs_all_files_before_the_rename(
    tmp_path: Path, disk_steps: list[str]
) -> None:
    """An entry is not checked again, so a power cut must not leave its name without its bytes."""

    def make_two(made: Path) -> None:
        (made / "below").mkdir(parents=True)
        (made / "a").write_bytes(b"a")
        (made / "below" / "b").write_bytes(b"b")

    cache.make_once(tmp_path / "place", make_two)

    assert disk_steps == ["file", "file", "replace", "folder"]


def test_make_once__reports_a_full_disk_and_leaves_nothing(tmp_path: Path) -> None:
    said = r"place: expected to write it, got No space left on device; is the disk full\? MSLM_DATA_CACHE names another"
    for error in (SourceError, AnnotateError):
        with pytest.raises(error, match=said):
            cache.make_once(tmp_path / "place", full, error=error)

    assert visible(tmp_path) == []


def test_make_once__leaves_nothing_when_making_fails(tmp_path: Path) -> None:
    def broken(made: Path) -> None:
        made.mkdir()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.make_once(tmp_path / "place", broken)

    assert visible(tmp_path) == []


# holds ------------------------------------------------------------


def test_holds__hashes_a_changed_file_again(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a")
    digest = cache.hash_file(path)

    assert cache.holds(path, digest)
    path.write_bytes(b"longer")
    assert not cache.holds(path, digest)
    assert not cache.holds(tmp_path / "none", digest)
