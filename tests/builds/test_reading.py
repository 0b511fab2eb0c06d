from __future__ import annotations

from collections.abc import Sequence

from mslm_data.annotate import Annotated
from mslm_data.builds.stages import RememberingAnnotator
from mslm_data.data.document import Document, Placeholder, Span


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
