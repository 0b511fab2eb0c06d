from __future__ import annotations

import errno
import hashlib
import itertools
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mslm_data.errors import BuildError
from mslm_data.io import files
from mslm_data.io.files import (
    canonical_json,
    clear_temporaries,
    hash_file,
    make_folder,
    making_folder,
    open_private,
    private_folder,
    write_whole,
    writing_whole,
)
from mslm_data.io.locks import HeldError


class Crash(BaseException):
    """Simulates a crash of the machine: no code catches it."""


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def crash(*_: Any, **__: Any) -> Any:
    raise Crash


def pieces_that_crash() -> Iterator[bytes]:
    yield b"new, but only the fir"
    raise Crash


@pytest.mark.parametrize("step", ["open", "write", "fsync", "replace"])
@pytest.mark.parametrize("old", [b"old", None])
def test_write_whole__keeps_the_old_file_after_a_crash(
    step: str, old: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash of the machine skips `finally` blocks, so the temporary file remains."""
    path = tmp_path / "file"
    if old is not None:
        path.write_bytes(old)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda *_, **__: None)
        if step == "replace":
            patch.setattr(Path, "replace", crash)
            patch.setattr(os, "replace", crash)
        elif step != "write":
            patch.setattr(os, step, crash)
        with pytest.raises(Crash):
            write_whole(path, pieces_that_crash() if step == "write" else [b"new"])

    assert (path.read_bytes() if path.exists() else None) == old

    write_whole(path, [b"new"])
    clear_temporaries(tmp_path)

    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_write_whole__cleans_up_after_an_error(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    with monkeypatch.context() as patch:
        if step == "replace":
            patch.setattr(Path, "replace", crash)
        elif step == "fsync":
            patch.setattr(os, "fsync", crash)
        with pytest.raises(Crash):
            write_whole(path, pieces_that_crash() if step == "write" else [b"new"])

    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("error", "left"), [(Crash(), ["file"]), (OSError(errno.EIO, os.strerror(errno.EIO)), [])]
)
def test_write_whole__fails_when_the_folder_cannot_be_synced(
    error: BaseException, left: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Path) -> None:
        raise error

    monkeypatch.setattr(files, "sync_folder", fail)

    with pytest.raises(type(error)):
        write_whole(tmp_path / "file", [b"new"])

    assert names(tmp_path) == left


def test_write_whole__syncs_the_file_before_the_rename_and_the_folder_after(
    tmp_path: Path, disk_steps: list[str]
) -> None:
    write_whole(tmp_path / "file", [b"a", memoryview(b"b")])

    assert disk_steps == ["file", "replace", "folder"]
    assert (tmp_path / "file").read_bytes() == b"ab"


@pytest.mark.parametrize("other", ["a file", "a folder with files", "an empty folder", "nothing"])
def test_making_folder__replaces_only_an_empty_folder(other: str, tmp_path: Path) -> None:
    path = tmp_path / "folder"

    def make() -> None:
        with making_folder(path, taken=ValueError("taken")) as made:
            (made / "file").write_bytes(b"new")
            if other == "a file":
                path.write_bytes(b"theirs")
            elif other != "nothing":
                path.mkdir()
                if other == "a folder with files":
                    (path / "file").write_bytes(b"theirs")

    if other in ("a file", "a folder with files"):
        with pytest.raises(ValueError, match="taken"):
            make()
        assert [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()] == [b"theirs"]
    else:
        make()
        assert (path / "file").read_bytes() == b"new"
    assert names(tmp_path) == ["folder"]


def test_making_folder__leaves_nothing_after_an_error(tmp_path: Path) -> None:
    def fail() -> None:
        with making_folder(tmp_path / "folder", taken=ValueError("taken")) as made:
            (made / "file").write_bytes(b"new")
            raise FileExistsError(errno.EEXIST, "of the block")

    with pytest.raises(FileExistsError, match="of the block"):
        fail()

    assert names(tmp_path) == []


def test_clear_temporaries__removes_ours_only(tmp_path: Path) -> None:
    (tmp_path / ".rows.arrow.x1.mslm.tmp").write_bytes(b"half")
    (tmp_path / ".folder.x2.mslm.tmp" / "below").mkdir(parents=True)
    (tmp_path / ".notes.tmp").write_bytes(b"of another program")
    (tmp_path / ".folder.tmp").mkdir()
    (tmp_path / "report.mslm.tmp").write_bytes(b"named by a user")

    clear_temporaries(tmp_path)

    assert names(tmp_path) == [".folder.tmp", ".notes.tmp", "report.mslm.tmp"]


def test_private_folder__is_emptied_of_a_killed_process(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path\n"
        "from mslm_data.errors import BuildError; from mslm_data.io.files import private_folder\n"
        "with private_folder(Path(sys.argv[1]), error=BuildError) as folder:\n"
        "    (folder / 'train.jsonl').write_text('text')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "out")], check=False)
    assert [path.name for path in tmp_path.rglob("*.jsonl")] == ["train.jsonl"]

    with private_folder(tmp_path / "out", error=BuildError) as folder:
        assert names(folder) == []
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert names(tmp_path) == []


def test_private_folder__is_for_one_process_at_a_time(tmp_path: Path) -> None:
    def take() -> None:
        with private_folder(tmp_path / "out", error=BuildError):
            pass

    with private_folder(tmp_path / "out", error=BuildError) as folder:
        (folder / "train.jsonl").touch()
        with pytest.raises(HeldError):
            take()
        assert names(folder) == ["train.jsonl"]


@pytest.mark.parametrize("number", [errno.EIO, errno.EFBIG, errno.ENOSPC])
def test_writing_whole__names_the_file_in_errors_without_one(number: int, tmp_path: Path) -> None:
    def fail() -> None:
        with writing_whole(tmp_path / "rows.arrow"):
            raise OSError(number, os.strerror(number))

    with pytest.raises(OSError, match=r"rows\.arrow"):
        fail()


def test_hash_file__names_the_file_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> Any:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    (tmp_path / "train.tsv").touch()
    monkeypatch.setattr(hashlib, "file_digest", failing)

    with pytest.raises(OSError, match=r"train\.tsv"):
        hash_file(tmp_path / "train.tsv")


def test_open_private__does_not_follow_links(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(OSError, match="link"):
        open_private(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()


def test_make_folder__makes_paths_as_deep_as_the_system_allows(tmp_path: Path) -> None:
    folders = list(itertools.accumulate(["x"] * 1200, Path.joinpath, initial=tmp_path))

    make_folder(folders[-1])

    assert folders[-1].is_dir()
    for folder in reversed(folders[1:]):  # A recursive cleanup would need as many calls.
        folder.rmdir()


def test_make_folder__keeps_an_existing_folder(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0o755)
    mode = (tmp_path / "a").stat().st_mode

    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")

    assert (tmp_path / "a").stat().st_mode == mode


def test_write_whole__does_not_follow_a_planted_link(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"mine")
    (tmp_path / "file").symlink_to(target)

    write_whole(tmp_path / "file", [b"new"])

    assert target.read_bytes() == b"mine"
    assert (tmp_path / "file").read_bytes() == b"new"
    assert not (tmp_path / "file").is_symlink()
    assert names(tmp_path) == ["file", "target"]


def test_canonical_json__is_unique() -> None:
    assert canonical_json({"b": [1], "a": "é"}) == canonical_json({"a": "é", "b": [1]})
    assert canonical_json({"b": [1], "a": "é"}) == '{\n "a": "é",\n "b": [\n  1\n ]\n}\n'.encode()


def test_hash_file__equals_the_digest_of_the_bytes(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")

    assert hash_file(tmp_path / "file").startswith("ba7816bf8f01cfea414140de5dae2223")
