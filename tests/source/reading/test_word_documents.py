from __future__ import annotations

import numpy as np

from mslm_data.source.reading.standoff import NO_LABEL, NO_WIDTH, OUTSIDE
from mslm_data.source.reading.tags import WordSpan
from mslm_data.source.reading.word_documents import make_word_document, place_words


def test_place_words__separates_words_by_one_character() -> None:
    assert place_words(["ab", "", "c"]).tolist() == [[0, 2], [3, 3], [4, 5]]
    assert place_words([]).shape == (0, 2)
    assert place_words(["ab"]).dtype == np.int32


def test_document_of_words__counts_characters() -> None:
    sentences = [["na\u00efve", "\U0001f9ec"], ["x"]]
    document = make_word_document(
        "d", sentences, [WordSpan(0, 2, "A"), WordSpan(2, 3, "B")], place="f:1"
    )

    assert document.text == "na\u00efve \U0001f9ec\nx"
    assert [document.text[start:end] for start, end in document.words.tolist()] == [
        "na\u00efve",
        "\U0001f9ec",
        "x",
    ]
    assert [(span.start, span.end, span.label) for span in document.spans] == [
        (0, 7, "A"),
        (8, 9, "B"),
    ]
    assert document.sentences == ((0, 7), (8, 9))


def test_document_of_words__takes_no_sentences() -> None:
    document = make_word_document("d", [], [], place="f:1")

    assert (document.text, document.spans, document.sentences) == ("", (), ())
    assert document.words is not None
    assert document.words.shape == (0, 2)


def test_document_of_words__counts_mentions_that_have_no_place_or_no_label() -> None:
    mentions = [
        WordSpan(0, 3, "A"),
        WordSpan(-1, 1, "A"),
        WordSpan(1, 1, "A"),
        WordSpan(0, 1, ""),
        WordSpan(0, 2, "B"),
    ]
    document = make_word_document("d", [["a"], ["b"]], mentions, place="f:1")

    assert [(span.start, span.end, span.label) for span in document.spans] == [(0, 3, "B")]
    assert document.unplaced == {OUTSIDE: 2, NO_WIDTH: 1, NO_LABEL: 1}
