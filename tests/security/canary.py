"""Corpora with canary words, builds of them in an isolated folder, and a search for the words."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from mslm_data.io import resources
from tests.security.faults import MARK
from tests.security.network import ROOT
from tests.support.caches import share_kernels

SAMPLE = resources.path("vocab", "sample/mimic/NOTEEVENTS.csv")
CONCEPTS = resources.path("vocab", "sample/concepts.csv")
VOCAB = resources.path("vocab", "sample/vocab.txt")
WORDS = ("zebulonkanarie", "quorvexine", MARK.lower())
"""Lower-case canaries: in every note, within a placeholder, and in one note only."""
NUMBER = 16
"""Note ids."""
MARKED = NUMBER // 2
"""Index of the note with the marker in its text."""
_NO_LETTERS = re.compile(r"[^a-z]+")
_SHARD = re.compile(r"data-\d+-of-\d+(-[0-9a-f]+)?\.arrow")


def write_notes(path: Path) -> Path:
    """Write the shipped notes with canaries in their texts, and in no other column."""
    with SAMPLE.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))[:NUMBER]
    for number, row in enumerate(rows):
        mark = f"{MARK}, {MARK.upper()}" if number == MARKED else "Somebody"
        row["TEXT"] = (
            f"Zebulonkanarie saw [**Name (NI) Quorvexine**] {mark}.\n{row['TEXT']}\nZEBULONKANARIE-3\n"
        )
    rows[3]["ISERROR"] = "1"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def build_words(notes: Path, out: Path, *more: object) -> list[str]:
    """Return the arguments of a command that builds notes in several units."""
    sets = (
        "annotate.use=terms",
        f"annotate.table={CONCEPTS}",
        "shard.input_bytes=3000",
        "source.max_loss=1",
    )
    words = [
        "build",
        "--source",
        "mimic",
        "--input",
        notes,
        "--out",
        out,
        "--tokenizer",
        VOCAB,
        *more,
    ]
    return [str(word) for word in words] + [
        word for assignment in sets for word in ("--set", assignment)
    ]


@contextmanager
def short_folder() -> Iterator[Path]:
    """Create a folder with a short path, as sockets between processes lie in its temporary folder."""
    with tempfile.TemporaryDirectory(prefix="mslm-") as folder:
        yield Path(folder)


def environment(world: Path, fault: str = "") -> dict[str, str]:
    """Return an environment in which a process writes below one folder only."""
    places = {
        "HOME": "home",
        "TMPDIR": "tmp",
        "MSLM_DATA_CACHE": "cache",
        "XDG_CACHE_HOME": "xdg",
        "HF_HOME": "hf",
    }
    for place in places.values():
        (world / place).mkdir(parents=True, exist_ok=True)
    share_kernels(world / places["MSLM_DATA_CACHE"])
    paths = os.pathsep.join(map(str, (ROOT / "tests" / "security" / "site", ROOT)))
    own = {name: str(world / place) for name, place in places.items()}
    return {
        **os.environ,
        **own,
        "PYTHONPATH": paths,
        "MSLM_TEST_FAULT": fault,
    }


def start(words: list[str], world: Path, fault: str = "") -> subprocess.Popen[str]:
    """Start a command with an isolated folder and a session of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "mslm_data", *words], env=environment(world, fault), cwd=world, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def found_in(text: str) -> list[str]:
    """Return the canaries in a text, in any case, also in parts."""
    low = text.lower()
    letters = _NO_LETTERS.sub("", low)
    return [word for word in WORDS if word in low or word in letters]


def leaks(world: Path, *, shards_too: bool = True) -> list[str]:
    """Return the files that contain a canary. Shards may contain one only with `keep_text`."""
    paths = [path for path in sorted(world.rglob("*")) if path.is_file() and not path.is_symlink()]
    return [
        str(path.relative_to(world))
        for path in paths
        if (shards_too or not _SHARD.fullmatch(path.name))
        and found_in(path.read_bytes().decode(errors="ignore"))
    ]


class Process(NamedTuple):
    """The `ps` entry of a process, and its environment."""

    pid: int
    shown: str


def processes(session: int) -> Iterator[Process]:
    """Return the processes of a session."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                shown = [(folder / name).read_bytes() for name in ("cmdline", "comm", "environ")]
                yield Process(int(folder.name), b" ".join(shown).decode(errors="ignore"))
        except OSError:
            continue
