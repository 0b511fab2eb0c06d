"""Output of `mslm-data annotate`; how texts are read and written is in tests/api/test_annotating.py."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
from mslm_data.cli import progress
from tests.annotate.model_made import name_tagger
from tests.cli.running import run


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(name_tagger(tmp_path_factory.mktemp("model"), ["aspirin", "unknown"]))


def test_annotate__prints_entities_on_stdout_and_counts_on_stderr(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = SimpleNamespace(buffer=io.BytesIO(b"No aspirin.\r\n\r\nNothing.\n"))
    monkeypatch.setattr(sys, "stdin", stdin)

    done = run("annotate", model, "--input", "-", "--set", "source.documents=line", "--json")

    rows = [json.loads(line) for line in done.out.splitlines()]
    assert done.code == 0, done.err
    assert [row["id"] for row in rows] == ["stdin:0", "stdin:1"]
    (entity,) = rows[0]["entities"]
    assert entity.keys() == {"start", "end", "label", "score"}
    assert (entity["start"], entity["end"]) == (3, 10)
    assert json.loads(done.err.splitlines()[-1]) == {
        "out": None,
        "documents": 2,
        "entities": 1,
        "left_out": {},
        "set_aside": 0,
    }


def test_annotate__reports_progress_and_losses(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_EVERY_S", 0)
    (tmp_path / "notes.csv").write_text(
        "ROW_ID,SUBJECT_ID,CATEGORY,ISERROR,TEXT\n"
        "1,1,Nursing,,Aspirin given by [**X**]\n"
        "2,2,Nursing,1,Withdrawn\n"
    )
    words = ("annotate", model, "--source", "notes", "--input", tmp_path / "notes.csv")

    done = run(*words, "--out", tmp_path / "found.jsonl")

    assert done.code == 0, done.err
    assert re.search(r" kB/s.*; 2 documents, 1/1 work units\n", done.err)
    assert "1 found and left out: in a placeholder\n" in done.err
    assert "1 set aside, the first at notes.csv:3: expected a valid note" in done.err
    assert done.out == f"{tmp_path}/found.jsonl: 1 documents; 1 entities found\n"


def test_annotate__rejects_files_beside_standard_input(model: Path, tmp_path: Path) -> None:
    done = run("annotate", model, "--input", "-", "--input", tmp_path)

    assert done.code == 2
    assert "standard input is read as plain text" in done.err


def test_annotate__writes_note_nlp_with_text_only_if_asked(model: Path, tmp_path: Path) -> None:
    note = tmp_path / "note.csv"
    note.write_text("note_id,person_id,note_text\n5,1,No aspirin.\n")
    words = ("annotate", model, "--input", note, "--source", "omop", "--to", "note_nlp")

    bare = run(*words)
    undated = run(*words, "--show-text")
    options = ("--date", "2026-01-31", "--set", "annotate.context=true")
    done = run(*words, "--show-text", *options)

    assert (bare.code, undated.code, done.code) == (2, 2, 0), done.err
    assert "add --show-text" in bare.err
    assert "add --date" in undated.err
    assert not bare.out
    (row,) = csv.DictReader(io.StringIO(done.out))
    assert (row["note_nlp_id"], row["note_id"], row["lexical_variant"]) == ("1", "5", "aspirin")
    assert row["term_exists"] == "N"
