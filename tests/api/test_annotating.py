"""Annotation files: written in units, resumable and with equal bytes."""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from mslm_data.api.annotating import annotate, check_sets, finding_texts
from mslm_data.api.building import read_named
from mslm_data.builds import line_sink
from mslm_data.builds.line_forms import EntityLines
from mslm_data.builds.line_sink import LineCounts
from mslm_data.builds.tasks import BuildUnit
from mslm_data.errors import AnnotateError, BuildError, PipelineError, SourceError
from mslm_data.pipeline import AnnotateOptions
from tests import made
from tests.faults.disk import watched
from tests.support.build_tasks import Interruption, at_task, interrupt, tasks_run

LABELS = ("Treatment", "Disease", "Symptom")
TERMS = AnnotateOptions(
    use="terms", options={"table": str(made.SAMPLE / "concepts.csv")}, labels=LABELS
)
TEXTS = [f"{'No ' * number}aspirin for heart failure." for number in range(8)]


class Killed(KeyboardInterrupt):
    """Simulates a killed process."""


def annotated(
    out: Path | None,
    *inputs: object,
    source: str = "text",
    sets: tuple[str, ...] = ("shard.input_bytes=100",),
    write: Callable[[bytes], object] = print,
    show_text: bool = False,
) -> LineCounts:
    """Annotate inputs with a term table, in units of a few documents."""
    pipeline = replace(read_named(source, sets=sets), annotate=TERMS)
    with finding_texts(pipeline, [str(given) for given in inputs]) as found:
        return annotate(found, out, write, EntityLines(show_text=show_text))


def rows_in(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write_rows(path: Path, *texts: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "in" / "s.jsonl", *TEXTS)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder / "found.jsonl"


def give(monkeypatch: pytest.MonkeyPatch, data: bytes) -> io.BytesIO:
    stream = io.BytesIO(data)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))
    return stream


# Files -------------------------------------------------------------------------------------------


def test_annotate__writes_the_lines_of_all_units_and_removes_the_parts(
    table: Path, out: Path
) -> None:
    counts = annotated(out, table)
    at_once: list[bytes] = []
    annotated(None, table, write=at_once.append)

    rows = rows_in(out)
    assert [row["id"] for row in rows] == [f"s:{number}" for number in range(8)]
    assert counts.documents == 8
    assert counts.entities == sum(len(row["entities"]) for row in rows) > 8
    assert b"".join(at_once) == out.read_bytes()
    assert names_in(out.parent) == ["found.jsonl"]
    assert out.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("first", [1, 2, 3])
def test_annotate__resumes_with_the_same_bytes_after_any_kill(
    first: int, table: Path, tmp_path: Path
) -> None:
    def die(_: str) -> None:
        raise Killed

    whole = tmp_path / "whole" / "found.jsonl"
    with watched(0, die) as count:
        expected = annotated(whole, table)
    assert count.calls > 30

    for at in range(first, count.calls + 1, 7):
        out = tmp_path / f"out-{at}" / "found.jsonl"
        with pytest.raises(Killed), watched(at, die):
            annotated(out, table)

        if not out.exists():  # the last calls remove the parts, when the file is complete
            assert annotated(out, table) == expected
            assert names_in(out.parent) == ["found.jsonl"]
        assert out.read_bytes() == whole.read_bytes()


def test_annotate__runs_each_unit_once(table: Path, out: Path) -> None:
    with at_task(BuildUnit, 3, interrupt), tasks_run() as first, pytest.raises(Interruption):
        annotated(out, table)
    with tasks_run() as second:
        annotated(out, table)

    built = [[task.name for task in run if isinstance(task, BuildUnit)] for run in (first, second)]
    assert built[0]
    assert built[1]
    assert len(built[0]) + len(built[1]) - len({*built[0], *built[1]}) <= 1


def test_annotate__rejects_other_inputs_and_options_when_it_resumes(table: Path, out: Path) -> None:
    with at_task(BuildUnit, 2, interrupt), pytest.raises(Interruption):
        annotated(out, table)

    with pytest.raises(BuildError, match=r"unfinished build of something else.*show_text"):
        annotated(out, table, show_text=True)
    write_rows(table, "Another.", *TEXTS)
    with pytest.raises(BuildError, match=r"build of something else; different: inputs; choose"):
        annotated(out, table)


@pytest.mark.parametrize("is_stdin", [False, True])
def test_annotate__rejects_an_output_file_that_exists(
    is_stdin: bool, table: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, b"No aspirin.")
    out.write_text("{}\n")

    with pytest.raises(AnnotateError, match=r"found\.jsonl: the file exists; name another --out"):
        annotated(out, "-" if is_stdin else table)
    assert out.read_text() == "{}\n"


@pytest.mark.parametrize("at_once", [False, True])
def test_annotate__rejects_an_input_that_changes_meanwhile(
    at_once: bool, table: Path, out: Path
) -> None:
    """The same command then annotates the file as it is."""

    def change() -> None:
        table.write_text(table.read_text().replace("heart", "liver"))

    with (
        nullcontext() if at_once else at_task(BuildUnit, 3, change),
        pytest.raises(SourceError, match=r"s\.jsonl: the file has changed since"),
    ):
        annotated(None if at_once else out, table, write=lambda _: change())
    assert not out.exists()

    annotated(out, table)
    annotated(out.with_name("again.jsonl"), table)
    assert out.read_bytes() == out.with_name("again.jsonl").read_bytes()


def test_annotate__rejects_losses_above_the_maximum(table: Path, out: Path) -> None:
    table.write_text(table.read_text() + "{broken\n")

    with pytest.raises(BuildError, match=r"got 1 of 9\n.*s\.jsonl:9"):
        annotated(out, table)
    assert not out.exists()

    counts = annotated(out, table, sets=("shard.input_bytes=100", "source.max_loss=1"))
    assert (counts.documents, sum(counts.set_aside.values())) == (8, 1)


def test_annotate__reads_complete_files_unchanged(out: Path, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    for name in ("a", "a-ward/a", "ward/a"):
        path = folder / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\xef\xbb\xbf\r\n\r\nNo aspirin.\r\n")

    annotated(out, folder, show_text=True)

    rows = rows_in(out)
    assert [row["id"] for row in rows] == ["a-ward/a", "a", "ward/a"]
    assert [(e["start"], e["text"]) for row in rows for e in row["entities"]] == [
        (7, "aspirin")
    ] * 3


def test_annotate__writes_a_line_for_every_document_id(out: Path, tmp_path: Path) -> None:
    for year in ("2023", "2024"):
        write_rows(tmp_path / "tables" / year / "s.jsonl", "a", "b")

    annotated(out, tmp_path / "tables")
    at_once: list[bytes] = []
    annotated(None, tmp_path / "tables", write=at_once.append)

    expected = ["2023/s:0", "2023/s:1", "2024/s:0", "2024/s:1"]
    assert [row["id"] for row in rows_in(out)] == expected
    assert b"".join(at_once) == out.read_bytes()


def test_annotate__adds_flags_of_context_if_asked(table: Path, out: Path) -> None:
    pipeline = replace(read_named("text"), annotate=replace(TERMS, context=True))
    with finding_texts(pipeline, [str(table)]) as found:
        annotate(found, out, print)

    first, second, *_ = rows_in(out)
    assert [entity["context"] for entity in first["entities"]] == [[], []]
    assert [entity["context"] for entity in second["entities"]] == [["negated"], []]


@pytest.mark.skipif(sys.platform != "linux", reason="file names are text elsewhere")
def test_annotate__rejects_names_that_are_not_text(tmp_path: Path, out: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.txt")).write_text("a")

    with pytest.raises(SourceError, match="expected names of files and folders in UTF-8"):
        annotated(out, folder)


# Standard input ----------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8"])
@pytest.mark.parametrize("documents", ["file", "line"])
def test_annotate__reads_standard_input_in_the_given_encoding(
    encoding: str, documents: str, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, "na\u00efve aspirin".encode(encoding))

    annotated(
        out,
        "-",
        sets=(f"source.encoding={encoding}", f"source.documents={documents}"),
        show_text=True,
    )

    assert [(e["start"], e["text"]) for e in rows_in(out)[0]["entities"]] == [(6, "aspirin")]


def test_annotate__reads_lines_of_standard_input_unchanged(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"\xef\xbb\xbfone\r\n \t\n" + "\ufefftwo\n".encode() + b"\xff\nsix"
    stream = give(monkeypatch, data)

    counts = annotated(out, "-", sets=("source.documents=line", "source.max_loss=1"))

    assert [row["id"] for row in rows_in(out)] == ["stdin:0", "stdin:1", "stdin:3"]
    assert list(counts.places.values()) == ["stdin.txt:4"]
    assert not stream.closed


def test_annotate__sets_a_text_of_standard_input_aside_that_is_too_large(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_sink, "MAX_BYTES", 8)
    give(monkeypatch, b"No aspirin.")

    counts = annotated(out, "-", sets=("source.max_loss=1",))

    assert counts.documents == 0
    assert list(counts.places.values()) == ["stdin.txt:1"]


def test_annotate__resumes_with_the_same_standard_input_and_leaves_no_copy(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    sets = ("source.documents=line", "shard.input_bytes=100")
    data = "\n".join(TEXTS).encode()
    whole = out.with_name("whole.jsonl")

    give(monkeypatch, data)
    annotated(whole, "-", sets=sets)
    give(monkeypatch, data)
    with at_task(BuildUnit, 2, interrupt), pytest.raises(Interruption):
        annotated(out, "-", sets=sets)
    give(monkeypatch, data)
    annotated(out, "-", sets=sets)

    assert out.read_bytes() == whole.read_bytes()
    assert list(temporary.iterdir()) == []


# Options -----------------------------------------------------------------------------------------


OF_BUILDS = (
    "annotate.min_scor annotate.use encode.max_tokens shard.input_bytes about.title "
    "source.duplicates source.duplicate_similarity source.decontaminate source.sample source.fetch"
)


@pytest.mark.parametrize("path", OF_BUILDS.split())
def test_check_sets__rejects_options_of_builds(path: str) -> None:
    with pytest.raises(
        PipelineError,
        match=rf"^--set {path}: expected an option for reading documents, such as "
        r"source\.text_column, source\.documents or source\.max_loss; this option is "
        "for builds only, so leave it out$",
    ):
        check_sets(["source.documents=line", f" {path} = 8"])


@pytest.mark.parametrize(
    "text", ["source.max_loss=1", "source.splits.train=['*']", "about.protected=true", "sorce.x=1"]
)
def test_check_sets__leaves_other_options_to_the_pipeline(text: str) -> None:
    check_sets([text])
