"""Commands whose mapped files become shorter while they read them."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mslm_data.cli.bus_errors import shorter_files
from tests.cli.running import run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds files in /proc")

_MASK_STATS = """
import os, sys
from mslm_data.cli import main
from mslm_data.shard import split

def cut_off(self, rows=1):
    for start in range(len(self)):
        yield self.examples(start, start + 1)
        os.truncate(self._shards[0].path, 1)

split.IN_MEMORY = 0
split.Split.chunks = cut_off
sys.exit(main(["mask-stats", sys.argv[1]]))
"""
_READINGS = """
import mmap, os, re, signal, sys, threading
import numpy as np
from mslm_data.cli.bus_errors import explained_bus_errors

def sum_up():
    np.frombuffer(data, np.int64).sum()

READINGS = {
    "while Python waits": lambda: re.search(b"x", data),
    "while Python runs": sum_up,
    "in another thread": lambda: (thread := threading.Thread(target=sum_up), thread.start(), thread.join()),
    "afterwards": None,
}
path = sys.argv[1]
for name, reading in READINGS.items():
    with open(path, "wb") as file:
        file.write(bytes(1 << 22))
    child = os.fork()
    if not child:
        with explained_bus_errors(), open(path, "rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            os.truncate(path, 1)
            if reading:
                reading()
        os.kill(os.getpid(), signal.SIGBUS)
    print(name, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_mask_stats__of_a_shard_that_becomes_shorter_is_one_message(tmp_path: Path) -> None:
    run("build", "--source", "blurb/bc2gm", "--sample", "--out", tmp_path / "built")

    words = [sys.executable, "-c", _MASK_STATS, tmp_path / "built"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)

    shard = tmp_path / "built" / "train" / "data-00000-of-00001.arrow"
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"error: {shard}: expected a file that stays as it is while it is read, got one that became "
        "shorter; restore it, or build again, and run the same command again\n"
    )


def test_explained_bus_errors__wherever_the_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "data"
    words = [sys.executable, "-c", _READINGS, path]

    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)

    assert done.stdout.splitlines() == [
        "while Python waits 1",
        "while Python runs 1",
        "in another thread 1",
        f"afterwards {-signal.SIGBUS}",
    ]
    assert done.stderr.count(f"error: {path}: expected a file that stays as it is") == 3


def test_shorter_files__are_those_mapped_beyond_their_end(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("shorter", "whole", "gone", "a name with blanks")]
    for path in paths:
        path.write_bytes(bytes(3 * mmap.PAGESIZE + 1))
    files = [path.open("rb") for path in paths]
    mapped = [mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) for file in files]

    os.truncate(paths[0], 3 * mmap.PAGESIZE)
    os.truncate(paths[1], 3 * mmap.PAGESIZE + 2)
    paths[2].unlink()
    os.truncate(paths[3], 0)
    found = shorter_files()
    for file, data in zip(files, mapped, strict=True):
        data.close()
        file.close()

    assert sorted(found) == sorted([str(paths[0]), str(paths[3])])
    assert shorter_files() == []
