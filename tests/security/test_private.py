"""Private files and folders, and warnings about folders that others can enter."""

from __future__ import annotations

import os
import shutil
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import mslm_data as md
from mslm_data.cli import COMMANDS
from mslm_data.io.files import make_folder
from tests import made
from tests.cli.running import run
from tests.security.canary import CONCEPTS, build_words, short_folder, start, write_notes
from tests.support.caches import share_kernels
from tests.support.waiting import PATIENCE_S

VOCAB = made.SAMPLE / "vocab.txt"


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_notes(tmp_path_factory.mktemp("notes") / "NOTEEVENTS.csv")


@pytest.fixture
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    """Set the umask during the test."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def open_to_others(folder: Path) -> list[str]:
    """Return the files and folders that others can read, write or enter."""
    paths = [folder, *sorted(folder.rglob("*"))]
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in paths}
    return [f"{mode:o} {path.relative_to(folder)}" for path, mode in modes.items() if mode & 0o077]


@pytest.mark.parametrize("umask", [0o000, 0o022], indirect=True)
def test_main__all_files_of_commands_are_private(
    umask: int, notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = tmp_path / "world"
    monkeypatch.setenv("MSLM_DATA_CACHE", str(world / "cache"))
    with zipfile.ZipFile(tmp_path / "notes.zip", "w") as archive:
        archive.write(notes, "NOTEEVENTS.csv")
    (tmp_path / "counts.txt").write_text("the\t900\nof\t500\n")
    out = world / "shards" / "notes"
    commands = (
        build_words(
            tmp_path / "notes.zip",
            out,
            "--set",
            "about.protected=false",
            "--set",
            "encode.keep_text=true",
        ),
        ("look", out, "--out", world / "page.html"),
        ("export", out, "--to", "jsonl", "--out", world / "exported"),
        ("vocab", "pmi", out, "--min-count", 2, "--list", world / "lists" / "pmi.txt"),
        ("vocab", "anchors", out, "--general", tmp_path / "counts.txt", "--min-count", 2),
        ("vocab", "scores", "frequency", out),
        ("vocab", "concepts", "--from", CONCEPTS, "--out", world / "tables" / "mine.csv"),
    )

    done = [run(*words) for words in commands]

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
    assert not open_to_others(world)
    assert os.umask(umask) == umask  # Unchanged.


@pytest.mark.parametrize("umask", [0o000], indirect=True)
def test_build__all_files_of_functions_are_private(
    umask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    assert not [line for line in [*seen, *open_to_others(world)] if "kernels" not in line]


@pytest.mark.parametrize("umask", [0o000], indirect=True)
def test_build__all_files_of_workers_are_private(umask: int, notes: Path) -> None:
    with short_folder() as world:
        process = start(build_words(notes, world / "out", "--workers", "2", "--part", "1/2"), world)

        _, err = process.communicate(timeout=PATIENCE_S)

        assert process.returncode == 0, err
        assert list((world / "out" / ".build").rglob("*.json"))
        assert not open_to_others(world / "out")


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
    for command, file in ((listed, "pmi.txt"), (page, "page.html")):
        assert [len(warnings_of(run(*command, at / file).err)) for at in (others, inner)] == [1, 0]
    shutil.rmtree(out / "vocab")
    assert not warnings_of(run("vocab", "pmi", out, "--min-count", 2).err)


def test_help__mentions_patients_text_beside_show_text() -> None:
    assert "may contain corpus text" in run("--help").out
    for command in COMMANDS:
        text = " ".join(run(command, "--help").out.split())
        assert "--show-text" not in text or "patients' text" in text
