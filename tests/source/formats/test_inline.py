"""Texts with mentions marked inline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mslm_data.data.document import Document, Part, SetAside
from mslm_data.errors import SourceError
from mslm_data.source import SOURCES
from mslm_data.source.formats.inline import Inline
from mslm_data.source.recognise import recognise
from tests import made
from tests.cli.running import run

OPENNLP = "<START:drug> Zorvane <END> helps .\n"
BRACKETS = "Give [DRUG]zorvane[/DRUG] to [AGE]old[/AGE] rats.\n"
ELEMENTS = "Give <DRUG>zorvane</DRUG> to <AGE>old</AGE> rats.\n"


def read(folder: Path, text: str, *, name: str = "own.txt", **options: Any) -> list[Any]:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    source = Inline(**options)
    return [
        record
        for part in source.cut(Part(str(path)), target_bytes=1 << 19)
        for record in source.read(part)
    ]


def words(document: Document) -> list[tuple[str, str]]:
    return [(span.label, document.text[span.start : span.end]) for span in document.spans]


@pytest.mark.parametrize(
    ("text", "got"),
    [
        (BRACKETS + ELEMENTS, "brackets and elements"),
        ("Nothing is marked here.\n" * 50_000 + BRACKETS, "none"),
    ],
)
def test_read__asks_for_the_syntax(text: str, got: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=rf"own\.txt: .* got {got}; set \[source\] syntax"):
        read(tmp_path, text)

    assert words(read(tmp_path, text, syntax="brackets")[-1 if got == "none" else 0])


def test_build__asks_about_labels_that_are_not_in_capitals(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Give <drug>zorvane</drug> to old rats.\n" * 3)
    words = ["build", "--source", "auto", "--input", tmp_path / "a.txt", "--tokenizer",
             made.SAMPLE / "vocab.txt", "--out", tmp_path / "out"]  # fmt: skip

    asked = run(*words)
    done = run(*words, "--set", "source.syntax=elements")

    assert asked.code == 1
    assert "the closest is --source inline, which reports a.txt: pairs of marks may" in asked.err
    assert 'set [source] syntax = "elements"' in asked.err
    assert "zorvane" not in asked.err
    assert done.code == 0
    assert "labels drug" in done.out


def test_build__reads_a_folder_recognised_by_its_marks(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "train.txt").write_text(OPENNLP * 5)
    (folder / "test.txt").write_text("Nothing is marked .\n")

    found = recognise([folder])
    done = run("build", "--source", "auto", "--input", folder, "--tokenizer",
               made.SAMPLE / "vocab.txt", "--out", tmp_path / "out")  # fmt: skip

    assert found.what == "inline"
    assert found.why == "train.txt: its lines have pairs of marks (opennlp)"
    assert done.code == 0
    assert "labels drug" in done.out
    assert set(SOURCES.make("inline", {}).find([folder])) == {"train", "test"}


@pytest.mark.parametrize(
    ("name", "beside"),
    [("seq.in", "seq.out"), ("a.words.txt", "a.tags.txt"), ("sentences.txt", "labels.txt")],
)
def test_read__takes_tags_from_a_file_beside_the_words(
    name: str, beside: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text("Give zorvane\n\n" * 15 + "He left\nOld rats\n")
    (tmp_path / beside).write_text("O B-DRUG\n\n" * 15 + "O\nB-AGE O\n")
    (tmp_path / "label").write_text("an_intent\n\n" * 15 + "another\na_third\n")

    assert recognise([tmp_path]).what == "inline"
    assert Inline().find([tmp_path]) == {"train": [tmp_path / name]}
    assert Inline().files(tmp_path / name) == [tmp_path / name, tmp_path / beside]
    *_, first, aside, last = Inline().read(Part(str(tmp_path / name)))
    assert [words(one) for one in (first, last) if isinstance(one, Document)] == [
        [("DRUG", "zorvane")],
        [("AGE", "Old")],
    ]
    assert isinstance(aside, SetAside)
    assert "2 word(s) and 1 tag(s)" in aside.reason.text
