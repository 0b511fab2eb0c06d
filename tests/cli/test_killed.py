"""Temporary files of killed commands, and their removal."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mslm_data.io import files
from tests import made
from tests.cli.running import run

STOPPED = """
import os, signal, stat, sys

def die(handle):
    if stat.S_ISREG(os.fstat(handle).st_mode):
        os.kill(os.getpid(), signal.SIGKILL)

os.fsync = die
from mslm_data.cli import main
main(sys.argv[1:])
"""
"""A program that runs a command and kills it after its first file is written, before the rename."""


def killed(*words: object) -> None:
    """Run a command and kill it before its file is renamed into place."""
    done = subprocess.run(
        [sys.executable, "-c", STOPPED, *map(str, words)], capture_output=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


def temporaries(folder: Path) -> list[Path]:
    return sorted(folder.rglob(".*.tmp"))


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("shards") / "ncbi"
    made.built(out)
    return out


@pytest.mark.parametrize("name", ["pmi", "page"])
def test_writing_whole__command_removes_files_of_a_killed_run(
    name: str, shards: Path, tmp_path: Path
) -> None:
    if name == "pmi":
        words = ["vocab", "pmi", shards, "--size", 20, "--min-count", 2]
        folder = shards / "vocab"
    else:
        words = ["look", shards, "--out", tmp_path / "page.html"]
        folder = tmp_path
    killed(*words)
    left = temporaries(folder)
    others = folder / ".notes.tmp"
    others.write_text("of another program", encoding="utf-8")

    done = run(*words)

    assert len(left) == 1
    assert done.code == 0, done.err
    assert temporaries(folder) == [others]


def test_writing_whole__command_keeps_files_of_a_running_process(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    with files.writing_whole(path) as file:
        file.write(b"half")
        (held,) = temporaries(tmp_path)
        subprocess.run(
            [
                sys.executable,
                "-c",
                "import sys; from pathlib import Path; from mslm_data.io import files; "
                "files.write_whole(Path(sys.argv[1]), [b'of another process'])",
                str(tmp_path / "other.html"),
            ],
            check=True,
        )
        assert temporaries(tmp_path) == [held]

    assert path.read_bytes() == b"half"
    assert temporaries(tmp_path) == []


def test_making_folder__removes_files_of_a_killed_run(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path; from mslm_data.io import files\n"
        "with files.making_folder(Path(sys.argv[1]), taken=OSError()) as folder:\n"
        "    (folder / 'names').write_text('x')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    for _ in range(2):
        subprocess.run([sys.executable, "-c", program, str(tmp_path / "pack")], check=False)
        assert len(temporaries(tmp_path)) == 1, "that of the process before is gone"

    with files.making_folder(tmp_path / "pack", taken=OSError()) as folder:
        assert temporaries(tmp_path) == [folder]
    assert temporaries(tmp_path) == []
