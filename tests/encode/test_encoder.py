from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mslm_data.data.accounts import Counts
from mslm_data.data.document import Document, Placeholder, Sentence, Span
from mslm_data.data.examples import Examples
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.errors import TokenizerError
from mslm_data.segment.given import GivenSentences
from tests import made
from tests.reference.encode import Count, Row, Twin

LABELS = ("X", "Y")


def twin_of(tokenizer: Tokenizer, **options: Any) -> Twin:
    return Twin(
        control=set(tokenizer.ids.special) - {tokenizer.ids.unk},
        unk=tokenizer.ids.unk,
        core=tokenizer.core,
        lead=tokenizer.lead,
        prefix=tokenizer.prefix,
        suffix=tokenizer.suffix,
        labels=LABELS,
        **options,
    )


def encoded(
    tokenizer: Tokenizer, documents: Sequence[Document], **options: Any
) -> tuple[Examples, Counts]:
    return made.encoded(made.encoder(tokenizer, LABELS, **options), documents)


def rows_of(examples: Examples) -> list[Row]:
    assert examples.doc_ids is not None
    assert examples.texts is not None
    assert examples.token_starts is not None
    assert examples.token_ends is not None
    return [
        Row(
            key=int(examples.keys[i]),
            doc_id=examples.doc_ids[i],
            input_ids=examples.input_ids[i].tolist(),
            word_ids=examples.word_ids[i].tolist(),
            bio=examples.bio[i].tolist(),
            spans=list(
                zip(
                    examples.span_starts[i].tolist(),
                    examples.span_ends[i].tolist(),
                    examples.span_labels[i].tolist(),
                    strict=True,
                )
            ),
            text=examples.texts[i],
            token_starts=examples.token_starts[i].tolist(),
            token_ends=examples.token_ends[i].tolist(),
            sentence_starts=(
                None if examples.sentence_starts is None else examples.sentence_starts[i].tolist()
            ),
        )
        for i in range(len(examples))
    ]


def count_of(counts: Counts) -> Count:
    return Count(
        left_out=Counter(
            {counts.reasons[text]: number for text, number in counts.left_out.items()}
        ),
        narrowed=sum(counts.adjusted.values()),
        cut_mentions=counts.cut_mentions,
        cut_pieces=counts.cut_pieces,
        windowed=counts.windowed,
        empty=counts.empty,
        widened=counts.widened_mentions,
    )


@st.composite
def several(draw: st.DrawFn) -> list[Document]:
    kinds = st.one_of(made.documents_of_words(labels=LABELS), made.documents_of_text(labels=LABELS))
    documents = draw(st.lists(kinds, max_size=3))
    return [
        Document(id=f"d{i}", text=d.text, spans=d.spans, sentences=d.sentences, words=d.words)
        for i, d in enumerate(documents)
    ]


def assert_equal_to_twin(documents: list[Document], max_tokens: int, split: str, join: str) -> None:
    tokenizer = made.word_piece()
    options: dict[str, Any] = {"max_tokens": max_tokens, "corpus": "mine"}
    twin = twin_of(tokenizer, protect=split == "mention", join=join == "document", **options)

    examples, counts = encoded(
        tokenizer, documents, split=split, join=join, keep_text=True, **options
    )

    sentences = [made.sentences_of(GivenSentences(), document) for document in documents]
    rows, count = twin.encode(documents, sentences)
    assert rows_of(examples) == rows
    assert count_of(counts) == count


splits = st.sampled_from(["mention", "paper"])
joins = st.sampled_from(["document", "none"])


@given(several(), st.sampled_from([3, 4, 5, 6, 8, 13, 20, 512]), splits, joins)
def test_encode__equals_its_twin(
    documents: list[Document], max_tokens: int, split: str, join: str
) -> None:
    assert_equal_to_twin(documents, max_tokens, split, join)


LONG = f"the {'kinase ' * 12}the the kinase"
DIFFICULT = {
    "adjacent mentions": made.of_words(["kinase", "protein"], [(0, 1), (1, 2)]),
    "mentions within a token": Document(
        id="", text="kinase", spans=(Span(0, 3, "X"), Span(3, 6, "Y"))
    ),
    "a mention that begins within the token of another": Document(
        id="", text="kinase inhibitor", spans=(Span(0, 3, "X"), Span(3, 16, "Y"))
    ),
    "a mention within a word": Document(
        id="", text="anticancer kinase", spans=(Span(4, 10, "X"), Span(11, 14, "Y"))
    ),
    "mentions without tokens": made.of_words(
        ["\u200b", "kinase", "\x00"], [(0, 1), (1, 2), (2, 3)]
    ),
    "unknown words": made.of_words(["kinase", "x" * 101, "☃"], [(1, 2)]),
    "a sentence without tokens": Document(
        id="", text="a \u200b b", sentences=(Sentence(0, 1), Sentence(2, 3), Sentence(4, 5))
    ),
    "a mention that is cut": made.of_words(["kinase"] * 8, [(4, 8)]),
    "a sentence that is cut between others": Document(
        id="",
        text=LONG,
        sentences=tuple(Sentence(start, start + 3) for start in (0, 4, 88, 92)),
    ),
}


@pytest.mark.parametrize("max_tokens", [5, 8, 512])
@pytest.mark.parametrize("split", ["mention", "paper"])
@pytest.mark.parametrize("join", ["document", "none"])
def test_encode__of_difficult_documents_equals_its_twin(
    max_tokens: int, split: str, join: str
) -> None:
    documents = [replace(document, id=name) for name, document in DIFFICULT.items()]

    assert_equal_to_twin(documents, max_tokens, split, join)


@given(documents=several(), max_tokens=st.sampled_from([3, 6, 512]))
def test_encode__writes_or_counts_every_mention(documents: list[Document], max_tokens: int) -> None:
    examples, counts = encoded(made.word_piece(), documents, max_tokens=max_tokens)

    gold = sum(len(document.spans) for document in documents)
    placed = len(examples.span_starts.values)
    assert placed == counts.mentions == gold - sum(counts.left_out.values()) + counts.cut_pieces
    assert counts.sequences == len(examples)
    assert counts.tokens == len(examples.input_ids.values)


@given(
    document=made.documents_of_text(labels=LABELS),
    more=st.lists(made.documents_of_text(labels=LABELS), max_size=2),
)
def test_encode__gives_a_document_the_same_rows_in_any_batch(
    document: Document, more: list[Document]
) -> None:
    tokenizer = made.word_piece()
    alone, _ = encoded(tokenizer, [document], max_tokens=7, keep_text=True)

    together, _ = encoded(tokenizer, [*more, document], max_tokens=7, keep_text=True)

    rows = rows_of(together)
    assert rows[len(rows) - len(alone) :] == rows_of(alone)


@given(
    document=st.one_of(made.documents_of_text(), made.documents_of_words()),
    max_tokens=st.sampled_from([3, 5, 9]),
)
def test_encode__splits_no_mention_that_fits(document: Document, max_tokens: int) -> None:
    tokenizer = made.word_piece()
    uncut, _ = encoded(tokenizer, [document], max_tokens=4096)

    examples, counts = encoded(tokenizer, [document], max_tokens=max_tokens)

    room = max_tokens - len(tokenizer.prefix) - len(tokenizer.suffix)
    too_long = uncut.span_ends.values - uncut.span_starts.values > room
    assert counts.cut_mentions == too_long.sum()
    assert examples.input_ids.lengths.max(initial=0) <= max_tokens


@given(
    document=st.one_of(made.documents_of_text(), made.documents_of_words()),
    max_tokens=st.sampled_from([3, 5, 9]),
)
def test_encode__drops_no_token_at_a_split(document: Document, max_tokens: int) -> None:
    tokenizer = made.word_piece()
    uncut, _ = encoded(tokenizer, [document], max_tokens=4096)

    examples, _ = encoded(tokenizer, [document], max_tokens=max_tokens)

    ids = [examples.input_ids.values, uncut.input_ids.values]
    inside = [examples.word_ids.values >= 0, uncut.word_ids.values >= 0]
    assert ids[0][inside[0]].tolist() == ids[1][inside[1]].tolist()


@given(document=made.documents_of_text())
def test_encode__keeps_offsets_of_each_surface(document: Document) -> None:
    tokenizer = made.word_piece()

    examples, _ = encoded(tokenizer, [document], max_tokens=9, keep_text=True)

    for row in rows_of(examples):
        for id_, start, end in zip(row.input_ids, row.token_starts, row.token_ends, strict=True):
            piece = tokenizer.core.id_to_token(id_).removeprefix("##")
            surface = row.text[start:end]
            assert (
                start < 0
                or id_ == tokenizer.ids.unk
                or "".join(filter(str.isprintable, surface)) in (piece, f"##{piece}")
            )


@given(document=made.documents_of_text())
@example(  # two tokens share the first character of a mention's row, where a row would be cut twice
    document=Document(
        id="d", text="inhibitors\xa0the" + 8 * " p53" + " ", spans=(Span(12, 21, "X"),)
    )
)
def test_encode__loses_no_text_between_rows(document: Document) -> None:
    tokenizer = made.byte_level()

    examples, _ = encoded(tokenizer, [document], max_tokens=9, keep_text=True)

    seen: list[str] = []
    for row in rows_of(examples):
        covered = {
            c for a, b in zip(row.token_starts, row.token_ends, strict=True) for c in range(a, b)
        }
        seen += [row.text[c] for c in sorted(covered) if c >= 0]
    letters = Counter(c for c in document.text if not c.isspace())
    assert letters <= Counter(seen)


PLAIN = [
    "The kinase inhibitors blocked the nucleus of colorectal cancer cells",
    "Prenatal diagnosis of Fanconi anaemia was possible in the eleventh week",
    "a",
    "protein protein protein",
]


@pytest.mark.parametrize("sentence", PLAIN)
@pytest.mark.parametrize("given_words", [True, False])
def test_encode__gives_the_ids_of_the_tokenizer_itself(sentence: str, given_words: bool) -> None:
    tokenizer = made.word_piece()
    document = made.of_words(sentence.split()) if given_words else Document(id="d", text=sentence)

    examples, _ = encoded(tokenizer, [document])

    assert examples.input_ids[0].tolist() == tokenizer.core.encode(tokenizer.lead + sentence).ids


def test_encode__finds_the_same_words_with_each_tokenizer() -> None:
    text = "IL-2(alpha) binds p53/MDM2."
    words = ["IL", "-", "2", "(", "alpha", ")", "binds", "p53", "/", "MDM2", "."]

    for tokenizer in (made.word_piece(), made.byte_level()):
        examples, _ = encoded(tokenizer, [Document(id="d", text=text)], keep_text=True)
        (row,) = rows_of(examples)
        found = {
            word: (min(a for _, a, _ in of), max(b for _, _, b in of))
            for word in range(len(words))
            for of in [
                [
                    t
                    for t in zip(row.word_ids, row.token_starts, row.token_ends, strict=True)
                    if t[0] == word
                ]
            ]
        }
        assert [text[a:b] for a, b in found.values()] == words


@given(document=made.documents_of_text())
def test_encode__starts_words_where_every_tokenizer_can(document: Document) -> None:
    """A token over several words joins them. No tokenizer splits a word of another."""
    tokenizer = made.word_piece()

    examples, _ = encoded(tokenizer, [document], keep_text=True)

    for row in rows_of(examples):
        heads = [
            start
            for t, start in enumerate(row.token_starts)
            if row.word_ids[t] >= 0 and row.word_ids[t] != row.word_ids[t - 1]
        ]
        inside = [h for h in heads if h and row.text[h - 1].isalnum() and row.text[h].isalnum()]
        assert not inside


@pytest.mark.parametrize("word", ["_", "unknown", "protein kinase", None, ""])
@pytest.mark.parametrize("mark", ["[**X**]", "[** **]", "[**Hospital1 18**]", "___"])
@pytest.mark.parametrize("text", ["{}", "{}kinase", "a {}", "of the {} a{}b, {}"])
def test_encode__gives_a_placeholder_the_ids_of_its_word_and_keeps_its_characters(
    text: str, mark: str, word: str | None
) -> None:
    tokenizer = made.word_piece()
    marked = text.replace("{}", mark)
    starts = [match.start() for match in re.finditer(re.escape(mark), marked)]
    placeholders = tuple(Placeholder(start, start + len(mark), word) for start in starts)
    document = Document(id="d", text=marked, placeholders=placeholders)

    examples, _ = encoded(tokenizer, [document, document], keep_text=True)

    tokenized = text.replace("{}", mark if word is None else f" {word} ")
    for row in rows_of(examples):
        assert row.input_ids == tokenizer.core.encode(tokenized).ids
        surfaces = [row.text[a:b] for a, b in zip(row.token_starts, row.token_ends, strict=True)]
        if word:
            pieces = tokenizer.core.encode(word, add_special_tokens=False).ids
            assert row.text == marked
            assert surfaces.count(mark) == len(pieces) * len(placeholders)


def test_encode__cuts_no_word_of_a_placeholder_at_the_end_of_a_sentence() -> None:
    document = Document(
        id="d",
        text="a [**Known\nname**] kinase",
        sentences=(Sentence(0, 10), Sentence(11, 25)),
        placeholders=(Placeholder(2, 18, "protein"),),
    )

    examples, _ = encoded(made.word_piece(), [document], keep_text=True)

    assert examples.texts == ["a [**Known\nname**]", "kinase"]


def test_encoder__rejects_a_limit_without_room() -> None:
    with pytest.raises(
        TokenizerError,
        match=r"max_tokens: expected at least 3 \(special tokens and one more\), got 2",
    ):
        made.encoder(made.word_piece(), LABELS, max_tokens=2)
