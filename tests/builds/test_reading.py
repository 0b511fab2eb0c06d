from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from mslm_data.annotate import Annotated
from mslm_data.annotate.terms.annotator import Terms
from mslm_data.builds import stages
from mslm_data.builds.stages import RememberingAnnotator, load_annotator
from mslm_data.data.document import Document, Placeholder, Span
from mslm_data.pipeline import AnnotateOptions
from tests import made
from tests.faults.corpora import CORPORA


class Counting:
    """Annotates the first character, and remembers what it was asked."""

    weak = True

    def __init__(self) -> None:
        self.asked: list[str] = []

    def digest(self) -> str:
        return ""

    def start(self) -> Counting:
        return self

    def annotate(self, documents: Sequence[Document]) -> list[Annotated]:
        self.asked += [document.text for document in documents]
        return [Annotated((Span(0, len(document.text), "X"),), {"a": 1}) for document in documents]


def test_annotate__annotates_equal_texts_once() -> None:
    annotator = Counting()
    remembering = RememberingAnnotator(annotator)
    documents = [Document(id=str(n), text=text) for n, text in enumerate(["one", "two", "one"])]

    found = [*remembering.annotate(documents), *remembering.annotate(documents[:1])]

    assert annotator.asked == ["one", "two"]
    assert [annotated.spans[0].end for annotated in found] == [3, 3, 3, 3]
    assert found[0] == found[2] == found[3]


def test_annotate__tells_texts_apart_by_their_placeholders() -> None:
    annotator = Counting()
    same = [
        Document(id="1", text="one"),
        Document(id="2", text="one", placeholders=(Placeholder(0, 1),)),
    ]

    RememberingAnnotator(annotator).annotate(same)

    assert annotator.asked == ["one", "one"]


def test_annotate__forgets_the_oldest(monkeypatch) -> None:
    monkeypatch.setattr("mslm_data.builds.stages._REMEMBERED", 2)
    annotator = Counting()
    remembering = RememberingAnnotator(annotator)

    for text in ("one", "two", "three", "one"):
        remembering.annotate([Document(id=text, text=text)])

    assert annotator.asked == ["one", "two", "three", "one"]


# Models are loaded once ---------------------------------------------------------------------------


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables that were loaded, each time."""
    started: list[str] = []
    start = Terms.start

    def count(self: Terms) -> object:
        started.append(str(self.table))
        return start(self)

    monkeypatch.setattr(stages, "_LOADED", {})
    monkeypatch.setattr(Terms, "start", count)
    return started


def test_build__loads_the_model_once_for_all_units(starts: list[str], tmp_path: Path) -> None:
    lines = CORPORA["lines"]

    manifest = lines.build(lines.write(tmp_path), tmp_path / "out")

    assert manifest
    assert len(manifest.splits["train"].shards) == 4
    assert len(starts) == 1


def test_load_annotator__keeps_the_last_one_only(starts: list[str], tmp_path: Path) -> None:
    first = AnnotateOptions(use="terms", options={"table": str(made.SAMPLE / "concepts.csv")})
    (tmp_path / "terms.csv").write_text("name,label\nasthma,Disease\n")
    second = AnnotateOptions(use="terms", options={"table": str(tmp_path / "terms.csv")})

    again = load_annotator(first) is load_annotator(first)
    load_annotator(second)
    load_annotator(first)

    assert again
    assert [Path(table).name for table in starts] == ["concepts.csv", "terms.csv", "concepts.csv"]
    assert len(stages._LOADED) == 1
