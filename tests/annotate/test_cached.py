from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from mslm_data.annotate.cached import CachedAnnotator, FoundMentions
from mslm_data.data.document import Document, Placeholder, Sentence, Span
from tests.made import annotated


class Counting:
    """Finds the complete text of each document, and records its inputs."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def find(self, documents: Sequence[Document]) -> list[FoundMentions]:
        self.asked += [document.text for document in documents]
        return [
            FoundMentions([Span(0, len(document.text), "X")], {"long": len(document.text)})
            for document in documents
        ]


def of_texts(*texts: str) -> list[Document]:
    return [Document(id=str(number), text=text) for number, text in enumerate(texts)]


def test_annotate__annotates_equal_texts_once() -> None:
    counting = Counting()
    loaded = CachedAnnotator(counting.find)

    found = annotated(loaded, of_texts("one", "three", "one"))
    again = annotated(loaded, of_texts("one"))

    assert counting.asked == ["one", "three"]
    one, three = (FoundMentions((Span(0, n, "X"),), {"long": n}) for n in (3, 5))
    assert found == [one, three, one]
    assert again == [one]


@pytest.mark.parametrize(
    "other",
    [
        Document(id="0", text="One"),
        Document(id="0", text="one", placeholders=(Placeholder(0, 1),)),
        Document(id="0", text="one", sentences=(Sentence(0, 1),)),
        Document(id="0", text="\ud800"),
        Document(id="0", text="one", words=np.array([[0, 3]], np.int32)),
        Document(id="0", text="one", words=np.array([[0, 1], [1, 3]], np.int32)),
    ],
)
def test_annotate__distinguishes_documents_by_everything_a_model_sees(other: Document) -> None:
    counting = Counting()

    annotated(CachedAnnotator(counting.find), [*of_texts("one"), other])

    assert counting.asked == ["one", other.text]


def test_annotate__evicts_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mslm_data.annotate.cached._MAX_CACHED", 2)
    counting = Counting()
    loaded = CachedAnnotator(counting.find)

    for text in ("one", "two", "three", "one"):
        annotated(loaded, of_texts(text))

    assert counting.asked == ["one", "two", "three", "one"]
    assert len(loaded._cache) == 2


def test_annotate__handles_a_batch_larger_than_the_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mslm_data.annotate.cached._MAX_CACHED", 2)
    texts = [letter * length for length, letter in enumerate("abcde", start=1)]

    found = annotated(CachedAnnotator(Counting().find), of_texts(*texts))

    assert [of_one.left_out["long"] for of_one in found] == [1, 2, 3, 4, 5]


def test_annotate__caches_nothing_of_a_failed_batch() -> None:
    def fail(documents: Sequence[Document]) -> list[FoundMentions]:
        raise ValueError("text")

    loaded = CachedAnnotator(fail)

    with pytest.raises(ValueError, match="text"):
        annotated(loaded, of_texts("one"))
    assert not loaded._cache
