"""`md.build`: the same result as the command, its errors, and its files."""

from __future__ import annotations

import json
import logging
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

import mslm_data as md
from mslm_data.api.building import read_named
from mslm_data.builds import Progress
from mslm_data.engine import Preload
from mslm_data.engine.host import Host
from mslm_data.errors import (
    BuildError,
    CallError,
    FetchError,
    MslmDataError,
    PipelineError,
    SourceError,
    TokenizerError,
)
from tests import made
from tests.cli.running import run
from tests.support.terminal import shown_at_terminal

VOCAB = made.SAMPLE / "vocab.txt"
BC2GM = made.SAMPLE / "bc2gm"
NAME = "blurb/bc2gm"


@pytest.fixture(scope="module")
def by_command(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the files of a folder built by the command."""
    out = tmp_path_factory.mktemp("by command") / "out"
    words = ("--tokenizer", VOCAB, "--set", "encode.keep_text=true")
    assert run("build", "--source", NAME, "--input", BC2GM, "--out", out, *words).code == 0
    return made.tree(out)


# Results ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [BC2GM, str(BC2GM), [BC2GM], (str(BC2GM),)])
def test_build__equals_the_command(
    given: Any, by_command: dict[str, bytes], tmp_path: Path
) -> None:
    shards = md.build(
        NAME,
        input=given,
        tokenizer=VOCAB,
        out=tmp_path / "out",
        workers=1,
        options={"encode.keep_text": True},
    )

    assert made.tree(tmp_path / "out") == by_command
    assert shards.folder == tmp_path / "out"
    assert shards.splits == ("train", "validation", "test")
    assert len(shards["train"]) == 60


def test_build__accepts_a_file_or_its_tables(tmp_path: Path) -> None:
    row = {"id": "a", "text": "Acme owes Bolt 5 Euro.", "entities": [[0, 4, "Party"]]}
    (tmp_path / "deals.jsonl").write_text(json.dumps(row))
    (tmp_path / "deals.toml").write_text('[source]\nuse = "jsonl"\n')
    tables = {"name": "deals", "source": {"use": "jsonl"}, "encode": {"tokenizer": str(VOCAB)}}

    by_file = md.build(
        tmp_path / "deals.toml",
        input=tmp_path / "deals.jsonl",
        tokenizer=VOCAB,
        out=tmp_path / "a",
    )
    by_tables = md.build(tables, input=[str(tmp_path / "deals.jsonl")], out=tmp_path / "b")

    assert by_file.labels == by_tables.labels == ("Party",)
    assert made.tree(tmp_path / "a") == made.tree(tmp_path / "b")


def test_build__accepts_a_source_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    row = {"id": "a", "text": "Acme owes Bolt 5 Euro.", "entities": [[0, 4, "Party"]]}
    (tmp_path / "deals.jsonl").write_text(json.dumps(row))
    tables = {"name": "jsonl", "source": {"use": "jsonl"}, "segment": {"use": "given"}}

    by_name = md.build("jsonl", input="deals.jsonl", tokenizer=VOCAB)
    md.build(tables, input="deals.jsonl", tokenizer=VOCAB, out="by tables")

    assert by_name.folder == Path("shards/jsonl")
    assert made.tree(by_name.folder) == made.tree(tmp_path / "by tables")


@pytest.mark.parametrize(
    ("name", "segmenter"), [("notes", "clinical"), ("text", "clinical"), ("conll", "given")]
)
def test_read_named__selects_the_segmenter_for_the_source(name: str, segmenter: str) -> None:
    assert read_named(name).segment.use == segmenter


def test_build__sample_has_a_default_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    shards = md.build(NAME, sample=True)

    assert shards.folder == Path("shards/bc2gm-sample")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("blurb/bc2gm", "shards/bc2gm"),
        ("of/mine.toml", "shards/mine"),
        (Path("of/mine.toml"), "shards/mine"),
        ({"name": "a/deals"}, "shards/deals"),
        ({"name": "deals.2026"}, "shards/deals.2026"),
    ],
)
def test_default_folder__is_named_after_the_pipeline(source: Any, expected: str) -> None:
    from mslm_data.api.building import default_folder
    from mslm_data.pipeline import read

    name = source["name"] if isinstance(source, dict) else "a/deals"
    pipeline = read({"name": name, "source": {"use": "jsonl"}})

    assert default_folder(source, pipeline, sample=False) == Path(expected)
    assert default_folder(source, pipeline, sample=True) == Path(f"{expected}-sample")


def test_build__auto_gives_the_same_keys_wherever_the_input_is(tmp_path: Path) -> None:
    shards = []
    for folder in ("in", "moved"):
        (tmp_path / folder).mkdir()
        shutil.copy(made.SAMPLE / "ncbi-disease" / "train.tsv", tmp_path / folder)
        words = {"input": tmp_path / folder, "tokenizer": VOCAB}
        shards.append(md.build("auto", **words, out=tmp_path / f"of-{folder}"))

    assert [each.manifest.name for each in shards] == ["conll", "conll"]
    assert made.tree(tmp_path / "of-in") == made.tree(tmp_path / "of-moved")
    assert md.build("auto", **words, out=tmp_path / "of-in").manifest == shards[0].manifest


@pytest.mark.parametrize("name", ["", ".", "..", "/", "a/.."])
def test_default_folder__rejects_names_that_cannot_name_a_folder(name: str) -> None:
    from mslm_data.api.building import default_folder
    from mslm_data.pipeline import read

    tables = {"name": name, "source": {"use": "jsonl"}}

    with pytest.raises(
        PipelineError, match=r"the name cannot be a folder's name; pass out \(--out\)"
    ):
        default_folder(tables, read({"name": "x", **tables}), sample=False)


@pytest.mark.parametrize("name", ["a\0b", "a" * 300, "\ud800"])
@pytest.mark.parametrize("argument", ["source", "input", "tokenizer", "out", "name", "options"])
def test_build__rejects_invalid_names(
    argument: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments: dict[str, Any] = {
        "source": {"name": "mine", "source": {"use": "conll"}},
        "input": made.SAMPLE / "ncbi-disease",
        "tokenizer": made.SAMPLE / "vocab.txt",
        "workers": 1,
    }
    if argument == "name":
        arguments["source"]["name"] = name
    elif argument == "options":
        arguments["options"] = {"source.decontaminate": [name]}
    else:
        arguments[argument] = name

    with pytest.raises(MslmDataError):
        md.build(**arguments)


def test_build__second_call_only_opens_the_folder(tmp_path: Path) -> None:
    first = md.build(NAME, sample=True, out=tmp_path)
    before = (tmp_path / "manifest.json").stat().st_mtime_ns

    second = md.build(NAME, sample=True, out=tmp_path)

    assert second.manifest == first.manifest
    assert (tmp_path / "manifest.json").stat().st_mtime_ns == before


def test_build__full_call_finishes_parts(tmp_path: Path) -> None:
    whole = md.build(NAME, sample=True, out=tmp_path / "whole")
    options: dict[str, Any] = {"sample": True, "out": tmp_path / "parts"}

    parts = [md.build(NAME, part=(i, 2), **options) for i in (1, 2)]
    shards = md.build(NAME, **options)

    assert parts == [None, None]
    assert shards.manifest == whole.manifest
    assert made.tree(tmp_path / "parts") == made.tree(tmp_path / "whole")


def test_build__reports_progress(tmp_path: Path) -> None:
    reports: list[Progress] = []

    md.build(NAME, sample=True, out=tmp_path, progress=reports.append)

    assert [one.done for one in reports] == [0, 1, 2, 3]
    assert {one.total for one in reports} == {3}
    assert reports[-1].documents == 100
    assert reports[-1].rows == 100
    assert reports[-1].bytes_done == reports[-1].bytes_total


def test_build__resumes_after_its_progress_callback_raises(
    by_command: dict[str, bytes], tmp_path: Path
) -> None:
    def stop(progress: Progress) -> None:
        if progress.done == 1:
            raise KeyboardInterrupt

    options: dict[str, Any] = {
        "input": BC2GM,
        "tokenizer": VOCAB,
        "out": tmp_path,
        "options": {"encode.keep_text": True},
    }

    with pytest.raises(KeyboardInterrupt):
        md.build(NAME, **options, progress=stop)
    md.build(NAME, **options)

    assert made.tree(tmp_path) == by_command


# Start --------------------------------------------------------------------------------------------


def test_build__import_of_building_loads_nothing_heavy() -> None:
    script = "import sys, mslm_data.api.building, mslm_data.cli.build, mslm_data.cli.progress; print(*sys.modules)"

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    heavy = {"numpy", "numba", "pyarrow", "tokenizers", "multiprocessing", "rich", "requests"}
    assert not heavy & set(done.stdout.split())


def test_build__imports_only_the_needed_modules_in_this_process(tmp_path: Path) -> None:
    words = ["build", "--source", NAME, "--sample", "--out", str(tmp_path / "out")]
    script = (
        "import sys\nfrom mslm_data.cli import main\n"
        f"assert main({words!r}) == 0\nprint(*sys.modules, file=sys.stderr)"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    unneeded = {"multiprocessing", "requests", "mslm_data.api.loading", "rich"}
    assert not unneeded & set(done.stderr.split())


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> list[Host]:
    """All hosts of workers started so far."""
    started: list[Host] = []
    start = Host.start

    def counted(self: Host, preload: Preload) -> None:
        started.append(self)
        start(self, preload)

    monkeypatch.setattr(Host, "start", counted)
    return started


def test_build__shares_its_workers_between_rounds(hosts: list[Host], tmp_path: Path) -> None:
    md.build(NAME, sample=True, out=tmp_path, workers=2)

    assert len(hosts) == 1
    assert psutil.Process().children() == []


@pytest.mark.parametrize(("size", "expected"), [(1 << 20, 0), (33 << 20, 1)])
def test_build__chooses_workers_by_input_size(
    size: int, expected: int, hosts: list[Host], tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "train.tsv").write_bytes(b"\n" * size)

    with pytest.raises(MslmDataError):  # There is no document.
        md.build(NAME, input=tmp_path / "in", tokenizer=VOCAB, out=tmp_path / "out")

    assert len(hosts) == expected


def test_build__dry_run_starts_no_workers(hosts: list[Host], tmp_path: Path) -> None:
    words = ("--sample", "--dry-run", "--workers", "2", "--out", tmp_path / "out")

    assert run("build", "--source", NAME, *words).code == 0

    assert hosts == []


@pytest.mark.long
@pytest.mark.skipif(bool(os.environ.get("NUMBA_DISABLE_JIT")), reason="nothing is compiled")
@pytest.mark.parametrize("command", ["build", "mask-stats"])
def test_build__command_reports_kernel_compilation_once(command: str, tmp_path: Path) -> None:
    said = "compiling kernels, once after an installation; this takes some seconds"
    environment = {**os.environ, "MSLM_DATA_CACHE": str(tmp_path / "cache")}
    out = tmp_path / "out"
    words: tuple[Any, ...] = ("build", "--source", NAME, "--sample", "--workers", "2", "--out")
    if command == "mask-stats":  # The reporting process compiles them.
        md.build(NAME, sample=True, out=out)
        words = ("mask-stats",)

    def seen(*words: Any) -> str:
        """Return the output as a terminal shows it."""
        command = [sys.executable, "-m", "mslm_data", *map(str, words)]
        return shown_at_terminal(command, environment)

    first = seen(*words, out)
    second = seen(*words, out if command == "mask-stats" else tmp_path / "again")

    assert [first.count(said), second.count(said)] == [1, 0]


# Privacy ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
def test_build__writes_private_files_and_keeps_the_umask(workers: int, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        md.build(NAME, sample=True, out=tmp_path / "world" / "out", workers=workers)
        md.build(NAME, sample=True, out=tmp_path / "world" / "part", part=(1, 2), workers=workers)
    finally:
        umask = os.umask(before)

    written = [tmp_path / "world", *(tmp_path / "world").rglob("*")]
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in written}
    assert umask == 0  # Other threads of a program write files too.
    assert len(written) > 15
    assert not [path for path, mode in modes.items() if mode & 0o077]


def test_build__warns_when_others_can_enter_the_folder(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tmp_path.chmod(0o755)

    with caplog.at_level(logging.WARNING, "mslm_data"):
        md.build(NAME, sample=True, out=tmp_path)
        assert caplog.messages == []  # A public corpus.

        md.build(
            NAME, sample=True, out=tmp_path / "x", part=(1, 1), options={"encode.keep_text": True}
        )
        assert caplog.messages == []  # A private folder.

        (tmp_path / "x").chmod(0o750)
        md.build(NAME, sample=True, out=tmp_path / "x", options={"encode.keep_text": True})

    assert len(caplog.messages) == 1
    assert f"can enter (mode 750); `chmod 700 {tmp_path / 'x'}` closes it" in caplog.messages[0]


# Errors -------------------------------------------------------------------------------------------

WRONG: list[tuple[Sequence[Any], dict[str, Any], type[MslmDataError], str]] = [
    (
        ["--source", NAME, "--sample", "--input", "x"],
        {"source": NAME, "sample": True, "input": "x"},
        CallError,
        "expected a sample or an input, got both; a sample has its own",
    ),
    (
        ["--source", "blurb/bc2gn"],
        {"source": "blurb/bc2gn"},
        PipelineError,
        "did you mean 'blurb/bc2gm'?",
    ),
    (
        ["--source", "nope.toml"],
        {"source": "nope.toml"},
        PipelineError,
        "nope.toml: expected a pipeline file, found none",
    ),
    (
        ["--source", NAME, "--input", "nowhere"],
        {"source": NAME, "input": "nowhere"},
        PipelineError,
        "it needs a tokenizer; pass a tokenizer.json, a vocab.txt, a Hugging Face folder or a",
    ),
    (
        ["--source", NAME, "--tokenizer", "v.txt"],
        {"source": NAME, "tokenizer": "v.txt"},
        TokenizerError,
        "v.txt: no such file or folder; pass a tokenizer.json, a vocab.txt or a folder",
    ),
    (
        ["--source", NAME, "--input", "nowhere", "--tokenizer", VOCAB],
        {"source": NAME, "input": "nowhere", "tokenizer": VOCAB},
        SourceError,
        "nowhere: expected a file or a folder",
    ),
    (
        ["--source", NAME, "--sample", "--set", "encode.max=3"],
        {"source": NAME, "sample": True, "options": {"encode.max": 3}},
        PipelineError,
        "unknown option 'max'",
    ),
    (
        ["--source", NAME, "--sample", "--set", "encod.max_tokens=3"],
        {"source": NAME, "sample": True, "options": {"encod.max_tokens": 3}},
        PipelineError,
        "unknown stage 'encod'; did you mean 'encode'?",
    ),
    (
        ["--source", NAME, "--sample", "--set", "encode.max_tokens=many"],
        {"source": NAME, "sample": True, "options": {"encode.max_tokens": "many"}},
        PipelineError,
        "expected `int`, got `str` for option 'max_tokens'",
    ),
    (
        ["--source", "docano", "--input", BC2GM],
        {"source": "docano", "input": BC2GM},
        PipelineError,
        "no shipped pipeline or source 'docano'; did you mean 'doccano'?",
    ),
    (
        ["--source", "bc2", "--input", BC2GM],
        {"source": "bc2", "input": BC2GM},
        PipelineError,
        "did you mean 'bc2gm'?",
    ),
    (
        ["--source", "doccano", "--tokenizer", VOCAB],
        {"source": "doccano", "tokenizer": VOCAB},
        FetchError,
        "pipeline 'doccano': it has no download URL; pass the corpus with --input",
    ),
    (
        ["--source", NAME, "--sample", "--engine", "locl"],
        {"source": NAME, "sample": True, "engine": "locl"},
        PipelineError,
        "did you mean 'local'?",
    ),
    (
        ["--source", NAME, "--sample", "--workers", "0"],
        {"source": NAME, "sample": True, "workers": 0},
        CallError,
        "0",
    ),
    (
        ["--source", NAME, "--sample", "--part", "3/2"],
        {"source": NAME, "sample": True, "part": (3, 2)},
        CallError,
        "with 1 <= ",
    ),
]


@pytest.mark.parametrize(("words", "arguments", "error", "message"), WRONG)
def test_build__raises_the_same_messages_as_the_command(
    words: Sequence[Any],
    arguments: dict[str, Any],
    error: type[MslmDataError],
    message: str,
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"

    done = run("build", *words, "--out", out)
    with pytest.raises(error) as raised:
        md.build(**arguments, out=out)

    assert done.code == (2 if error is CallError else 1)
    assert message in done.err
    assert message in str(raised.value)
    assert type(raised.value) is error
    assert not out.exists()


def test_build__rejects_sample_for_a_pipeline_without_one(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[source]\nuse = "jsonl"\n')
    expected = "pipeline 'mine': it has no sample; pass your corpus (--input)"

    done = run("build", "--source", tmp_path / "mine.toml", "--sample", "--out", tmp_path / "o")
    with pytest.raises(PipelineError) as raised:
        md.build(tmp_path / "mine.toml", sample=True, out=tmp_path / "o")

    assert done.err == f"error: {expected}\n"
    assert str(raised.value) == expected


def test_build__rejects_a_folder_of_another_build(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()

    done = run("build", "--source", NAME, "--sample", "--out", tmp_path)
    with pytest.raises(BuildError) as raised:
        md.build(NAME, sample=True, out=tmp_path)

    assert done.err == f"error: {raised.value}\n"
    assert "expected an empty folder or an unfinished build, got other files" in done.err


@pytest.mark.parametrize("part", [(0, 2), (3, 2), (1, 0)])
def test_build__rejects_parts_out_of_range(part: tuple[int, int], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^part: expected \(i, n\) with 1 <= i <= n, such as \(2"):
        md.build(NAME, sample=True, out=tmp_path, part=part)
