"""`md.build`: the same result as the command, its errors, and its files."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

import mslm_data as md
from mslm_data.api.building import default_folder, read_named
from mslm_data.builds import Progress, steps
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
from mslm_data.pipeline import read
from tests import made
from tests.cli.running import run
from tests.support.terminal import shown_at_terminal

VOCAB = made.SAMPLE / "vocab.txt"
BC2GM = made.SAMPLE / "bc2gm"
NAME = "blurb/bc2gm"


OPTIONS: dict[str, Any] = {"tokenizer": VOCAB, "options": {"encode.keep_text": True}}


@pytest.fixture(scope="module")
def by_command(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the files of a folder built by the command."""
    out = tmp_path_factory.mktemp("by command") / "out"
    words = ("--tokenizer", VOCAB, "--set", "encode.keep_text=true")
    assert run("build", "--source", NAME, "--input", BC2GM, "--out", out, *words).code == 0
    return made.tree(out)


# Results ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [BC2GM, (str(BC2GM),)])
def test_build__equals_the_command(
    given: Any, by_command: dict[str, bytes], tmp_path: Path
) -> None:
    shards = md.build(NAME, input=given, **OPTIONS, out=tmp_path / "out", workers=1)

    assert made.tree(tmp_path / "out") == by_command
    assert shards.folder == tmp_path / "out"
    assert shards.splits == ("train", "validation", "test")
    assert len(shards["train"]) == 60


DEALS = json.dumps({"id": "a", "text": "Acme owes Bolt 5 Euro.", "entities": [[0, 4, "Party"]]})


def test_build__accepts_a_file_or_its_tables(tmp_path: Path) -> None:
    (tmp_path / "deals.jsonl").write_text(DEALS)
    (tmp_path / "deals.toml").write_text('[source]\nuse = "jsonl"\n')
    tables = {"name": "deals", "source": {"use": "jsonl"}, "encode": {"tokenizer": str(VOCAB)}}
    given = tmp_path / "deals.jsonl"

    by_file = md.build(tmp_path / "deals.toml", input=given, tokenizer=VOCAB, out=tmp_path / "a")
    by_tables = md.build(tables, input=[str(given)], out=tmp_path / "b")

    assert by_file.labels == by_tables.labels == ("Party",)
    assert made.tree(tmp_path / "a") == made.tree(tmp_path / "b")


def test_build__accepts_a_source_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deals.jsonl").write_text(DEALS)
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


def folder_of(source: Any, *, sample: bool = False) -> Path:
    name = source["name"] if isinstance(source, dict) else "a/deals"
    return default_folder(source, read({"name": name, "source": {"use": "jsonl"}}), sample=sample)


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
    assert folder_of(source) == Path(expected)
    assert folder_of(source, sample=True) == Path(f"{expected}-sample")


@pytest.mark.parametrize("name", ["", ".", "..", "/", "a/.."])
def test_default_folder__rejects_names_that_cannot_name_a_folder(name: str) -> None:
    with pytest.raises(
        PipelineError, match=r"the name cannot be a folder's name; pass out \(--out\)"
    ):
        folder_of({"name": name})


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


def test_build__second_call_only_opens_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = md.build(NAME, sample=True)
    before = (tmp_path / first.folder / "manifest.json").stat().st_mtime_ns

    second = md.build(NAME, sample=True)

    assert first.folder == second.folder == Path("shards/bc2gm-sample")
    assert second.manifest == first.manifest
    assert (tmp_path / first.folder / "manifest.json").stat().st_mtime_ns == before


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

    with pytest.raises(KeyboardInterrupt):
        md.build(NAME, input=BC2GM, out=tmp_path, **OPTIONS, progress=stop)
    md.build(NAME, input=BC2GM, out=tmp_path, **OPTIONS)

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


@pytest.mark.parametrize(("size", "expected"), [(99, 0), (100, 1)])
def test_build__chooses_workers_by_input_size(
    size: int,
    expected: int,
    hosts: list[Host],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(steps, "WORTH_WORKERS", 100)
    (tmp_path / "train.tsv").write_bytes(b"\n" * size)

    with pytest.raises(MslmDataError):  # There is no document.
        md.build(NAME, input=tmp_path / "train.tsv", tokenizer=VOCAB, out=tmp_path / "out")

    assert len(hosts) == expected


def test_build__dry_run_starts_no_workers(hosts: list[Host], tmp_path: Path) -> None:
    words = ("--sample", "--dry-run", "--workers", "2", "--out", tmp_path / "out")

    assert run("build", "--source", NAME, *words).code == 0

    assert hosts == []


@pytest.mark.long
@pytest.mark.skipif(bool(os.environ.get("NUMBA_DISABLE_JIT")), reason="nothing is compiled")
def test_build__command_reports_kernel_compilation_once(tmp_path: Path) -> None:
    """Not once for each worker."""
    environment = {**os.environ, "MSLM_DATA_CACHE": str(tmp_path / "cache")}
    words = ("-m", "mslm_data", "build", "--source", NAME, "--sample", "--workers", "2", "--out")

    shown = [
        shown_at_terminal([sys.executable, *words, str(tmp_path / name)], environment)
        for name in ("first", "second")
    ]

    said = "compiling kernels, once after an installation; this takes some seconds"
    assert [text.count(said) for text in shown] == [1, 0]


# Errors -------------------------------------------------------------------------------------------

WRONG: list[tuple[dict[str, Any], type[MslmDataError], str]] = [
    (
        {"source": NAME, "sample": True, "input": "x"},
        CallError,
        "expected a sample or an input, got both; a sample has its own",
    ),
    ({"source": "blurb/bc2gn"}, PipelineError, "did you mean 'blurb/bc2gm'?"),
    ({"source": "bc2", "input": BC2GM}, PipelineError, "did you mean 'bc2gm'?"),
    (
        {"source": "docano", "input": BC2GM},
        PipelineError,
        "no shipped pipeline or source 'docano'; did you mean 'doccano'?",
    ),
    ({"source": "nope.toml"}, PipelineError, "nope.toml: expected a pipeline file, found none"),
    (
        {"source": {"name": "mine", "source": {"use": "jsonl"}}, "sample": True},
        PipelineError,
        "pipeline 'mine': it has no sample; pass your corpus (--input)",
    ),
    (
        {"source": NAME, "input": "nowhere"},
        PipelineError,
        "it needs a tokenizer; pass a tokenizer.json, a vocab.txt, a Hugging Face folder or a",
    ),
    (
        {"source": NAME, "tokenizer": "v.txt"},
        TokenizerError,
        "v.txt: no such file or folder; pass a tokenizer.json, a vocab.txt or a folder",
    ),
    (
        {"source": NAME, "input": "nowhere", "tokenizer": VOCAB},
        SourceError,
        "nowhere: expected a file or a folder",
    ),
    (
        {"source": NAME, "sample": True, "options": {"encode.max": 3}},
        PipelineError,
        "unknown option 'max'",
    ),
    (
        {"source": NAME, "sample": True, "options": {"encod.max_tokens": 3}},
        PipelineError,
        "unknown stage 'encod'; did you mean 'encode'?",
    ),
    (
        {"source": NAME, "sample": True, "options": {"encode.max_tokens": "many"}},
        PipelineError,
        "expected `int`, got `str` for option 'max_tokens'",
    ),
    (
        {"source": "doccano", "tokenizer": VOCAB},
        FetchError,
        "pipeline 'doccano': it has no download URL; pass the corpus with --input",
    ),
    ({"source": NAME, "sample": True, "engine": "locl"}, PipelineError, "did you mean 'local'?"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), WRONG)
def test_build__rejects_wrong_calls(
    arguments: dict[str, Any], error: type[MslmDataError], message: str, tmp_path: Path
) -> None:
    """The command prints the same messages: tests/cli/test_wrong_calls.py."""
    with pytest.raises(error, match=re.escape(message)) as raised:
        md.build(**arguments, out=tmp_path / "out")

    assert type(raised.value) is error
    assert not (tmp_path / "out").exists()


def test_build__rejects_a_folder_of_another_build(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()

    with pytest.raises(BuildError, match="an empty folder or an unfinished build, got other files"):
        md.build(NAME, sample=True, out=tmp_path)
