"""Private files and folders, and warnings about folders that others can enter."""

from __future__ import annotations

import gzip
import os
import shutil
import stat
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import mslm_data as md
from mslm_data import engine
from mslm_data.builds import scan
from mslm_data.builds.tasks import Unpack
from mslm_data.cli import COMMANDS
from mslm_data.io import cache
from mslm_data.io.archive import unpack
from mslm_data.io.files import hash_file, make_folder, making_folder, open_private, write_whole
from mslm_data.io.remote import fetch
from mslm_data.shard.export import FORMATS
from tests import made
from tests.cli.running import run
from tests.engine.tasks import Do, Work
from tests.io import test_archive
from tests.security.canary import CONCEPTS, build_words, write_notes
from tests.support.caches import share_kernels

VOCAB = made.SAMPLE / "vocab.txt"


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_notes(tmp_path_factory.mktemp("notes") / "NOTEEVENTS.csv")


@pytest.fixture
def no_umask() -> Iterator[None]:
    """Let other users read and write new files, unless their mode says otherwise."""
    before = os.umask(0)
    yield
    os.umask(before)


def open_to_others(folder: Path) -> list[str]:
    """Return the files and folders, except the kernels, that others can read, write or enter."""
    paths = [path for path in (folder, *sorted(folder.rglob("*"))) if "kernels" not in path.parts]
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in paths}
    return [f"{mode:o} {path.relative_to(folder)}" for path, mode in modes.items() if mode & 0o077]


def write_files(path: Path) -> None:
    with open_private(path / "open" / "file") as file:
        file.write(b"a")
    (path / "whole").touch()
    (path / "whole").chmod(0o644)
    write_whole(path / "whole", [b"new"])
    with making_folder(path / "folder", taken=ValueError()) as made_folder:
        write_whole(made_folder / "file", [b"a"])


def unpack_archives(path: Path) -> None:
    for name in ("a.tgz", "a.zip"):
        archive = test_archive.make(path.parent / name, test_archive.FILES.items())
        unpack(archive, path / name)


def unpack_before_a_build(path: Path) -> None:
    packed = path.parent / "train.tsv.gz"
    packed.write_bytes(gzip.compress(b"a"))
    scan.unpack(Unpack(str(packed), hash_file(packed), str(path / "staging" / "train.tsv")))


def fetch_a_file(path: Path) -> None:
    (path.parent / "a.bin").touch()
    fetch(path.parent.as_uri(), path / "here" / "a", name="a.bin")


def run_workers(path: Path) -> None:
    make_folder(path / "work")
    with engine.start(Work(path / "work"), workers=2) as run_tasks:
        assert [*run_tasks([Do(1), Do(2, "die_once")])]


WRITERS: dict[str, Callable[[Path], object]] = {
    "files": write_files,
    "archives": unpack_archives,
    "compressed inputs": unpack_before_a_build,
    "downloads": fetch_a_file,
    "the cache": lambda path: cache.folder("inputs", cache=path),
    "workers": run_workers,
}


@pytest.mark.usefixtures("no_umask")
@pytest.mark.parametrize("name", WRITERS)
def test_writers__make_private_files_and_folders(name: str, tmp_path: Path) -> None:
    """With the folders above them that they make."""
    WRITERS[name](tmp_path / "new")

    assert [*(tmp_path / "new").rglob("*")]
    assert not open_to_others(tmp_path / "new")


@pytest.mark.usefixtures("no_umask")
def test_main__all_files_of_commands_are_private(
    notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = tmp_path / "world"
    make_folder(world)
    monkeypatch.setenv("MSLM_DATA_CACHE", str(share_kernels(world / "cache")))
    with zipfile.ZipFile(tmp_path / "notes.zip", "w") as archive:
        archive.write(notes, "NOTEEVENTS.csv")
    (tmp_path / "counts.txt").write_text("the\t900\nof\t500\n")
    out = world / "shards" / "notes"
    build = build_words(
        tmp_path / "notes.zip", out, "--set", "about.protected=false", "--set",
        "encode.keep_text=true",
    )  # fmt: skip
    commands = (
        (*build, "--workers", 2, "--part", "1/2"),
        (*build, "--workers", 1),
        ("look", out, "--out", world / "page.html"),
        *(("export", out, "--to", kind, "--out", world / kind) for kind in FORMATS),
        ("vocab", "pmi", out, "--min-count", 2, "--list", world / "lists" / "pmi.txt"),
        ("vocab", "anchors", out, "--general", tmp_path / "counts.txt", "--min-count", 2),
        ("vocab", "scores", "frequency", out),
        ("vocab", "concepts", "--from", CONCEPTS, "--out", world / "tables" / "mine.csv"),
    )

    done = []
    for words in commands:
        done.append(run(*words))
        assert not open_to_others(world)

    written = [path for path in world.rglob("*") if path.is_file()]
    assert [one.code for one in done] == [0] * len(commands), done
    assert {path.suffix for path in written} >= {
        ".arrow",
        ".json",
        ".html",
        ".txt",
        ".csv",
        ".md",
        ".jsonl",
    }
    assert os.umask(0) == 0  # Unchanged.


@pytest.mark.usefixtures("no_umask")
def test_build__all_files_of_functions_are_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while documents from Python are read."""
    world = tmp_path / "world"
    make_folder(world)
    monkeypatch.setenv("MSLM_DATA_CACHE", str(share_kernels(world / "cache")))
    seen: list[str] = []

    def documents() -> Iterator[dict[str, object]]:
        for number in range(3):
            yield {"id": str(number), "text": "Gene BRCA1.", "entities": [[5, 10, "Gene"]]}
            seen.extend(open_to_others(world))

    shards = md.build(documents=documents(), tokenizer=VOCAB, out=world / "out", workers=1)
    shards.export(to="jsonl", out=world / "exported")
    archive = shutil.make_archive(str(tmp_path / "a"), "zip", world)
    md.load(f"zip://out::file://{archive}")["train"].examples()

    assert list((world / "cache" / "shards").glob("*.arrow"))
    assert not [*seen, *open_to_others(world)]


def warnings_of(err: str) -> list[str]:
    return [
        line
        for line in err.splitlines()
        if line.startswith("warning:") and "others can enter" in line
    ]


@pytest.mark.parametrize(("mode", "count"), [(0o755, 1), (0o710, 1), (0o701, 1), (0o700, 0)])
def test_build__warns_when_others_can_enter(
    notes: Path, tmp_path: Path, mode: int, count: int
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    out.chmod(mode)

    done = run(*build_words(notes, out))

    assert done.code == 0
    assert len(warnings_of(done.err)) == count
    assert all(f"(mode {mode:o}); `chmod 700 {out}`" in line for line in warnings_of(done.err))
    assert not warnings_of(done.out)


@pytest.mark.parametrize(("keep_text", "count"), [("true", 1), ("false", 0)])
def test_build__public_corpus_warns_about_text_only(
    tmp_path: Path, keep_text: str, count: int
) -> None:
    tmp_path.chmod(0o755)

    done = run("build", "--source", "blurb/bc2gm", "--sample", "--out", tmp_path, "--json",
               "--set", f"encode.keep_text={keep_text}")  # fmt: skip

    assert (done.code, len(warnings_of(done.err))) == (0, count)
    assert done.json["written"]


def test_build__warns_about_a_cache_open_to_others(
    notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MSLM_DATA_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache" / "unpacked").mkdir(parents=True)
    (tmp_path / "cache" / "unpacked").chmod(0o755)
    with zipfile.ZipFile(tmp_path / "notes.zip", "w") as archive:
        archive.write(notes, "NOTEEVENTS.csv")

    packed = run(*build_words(tmp_path / "notes.zip", tmp_path / "one"))
    plain = run(*build_words(notes, tmp_path / "two"))

    assert (packed.code, plain.code) == (0, 0)
    assert [str(tmp_path / "cache" / "unpacked") in line for line in warnings_of(packed.err)] == [
        True
    ]
    assert not warnings_of(plain.err)


def test_pmi__vocab_commands_warn_when_others_can_enter(notes: Path, tmp_path: Path) -> None:
    out, counts = tmp_path / "out", tmp_path / "counts.txt"
    counts.write_text("the\t900\nof\t500\n")
    run(*build_words(notes, out))
    (out / "vocab").mkdir()
    (out / "vocab").chmod(0o750)

    done = [
        run("vocab", "pmi", out, "--min-count", 2),
        run("vocab", "anchors", out, "--general", counts, "--min-count", 2),
        run("vocab", "scores", "frequency", out),
    ]

    assert [(one.code, len(warnings_of(one.err))) for one in done] == [(0, 1)] * 3
    inner, others = tmp_path / "inner", tmp_path / "others"
    inner.mkdir(mode=0o700)
    others.mkdir(mode=0o755)
    page = ("look", out, "--out")
    listed = ("vocab", "pmi", out, "--min-count", 2, "--out", inner / "pmi.arrow", "--list")
    assert [len(warnings_of(run(*listed, at / "pmi.txt").err)) for at in (others, inner)] == [1, 0]
    assert not warnings_of(run(*page, others / "page.html").err)  # a page holds no protected text
    shutil.rmtree(out / "vocab")
    assert not warnings_of(run("vocab", "pmi", out, "--min-count", 2).err)


def test_help__mentions_patients_text_beside_show_text() -> None:
    assert "may contain corpus text" in run("--help").out
    for command in COMMANDS:
        text = " ".join(run(command, "--help").out.split())
        assert "--show-text" not in text or "patients' text" in text
