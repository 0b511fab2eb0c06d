from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.accounts import Counts
from mslm_data.data.document import Document, Placeholder, Sentence, Span
from mslm_data.data.examples import Examples
from mslm_data.encode.mentions import NARROWED
from mslm_data.encode.tokenizer import Tokenizer
from mslm_data.errors import TokenizerError
from mslm_data.segment.given import GivenSentences
from tests import made
from tests.reference.encode import Count, Row, Twin

LABELS = ("X", "Y")
each_tokenizer = pytest.mark.parametrize("name", sorted(made.TOKENIZERS))


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


@each_tokenizer
@given(
    documents=several(),
    max_tokens=st.sampled_from([3, 4, 5, 6, 8, 13, 20, 512]),
    protect=st.booleans(),
    join=st.booleans(),
)
def test_encode__equals_its_twin(
    name: str, documents: list[Document], max_tokens: int, protect: bool, join: bool
) -> None:
    tokenizer = made.TOKENIZERS[name]()
    twin = twin_of(tokenizer, max_tokens=max_tokens, protect=protect, corpus="mine", join=join)

    examples, counts = encoded(
        tokenizer,
        documents,
        max_tokens=max_tokens,
        split="mention" if protect else "paper",
        join="document" if join else "none",
        keep_text=True,
        corpus="mine",
    )

    sentences = [made.sentences_of(GivenSentences(), document) for document in documents]
    rows, count = twin.encode(documents, sentences)
    assert rows_of(examples) == rows
    assert count_of(counts) == count


@each_tokenizer
@given(documents=several(), max_tokens=st.sampled_from([3, 6, 512]))
def test_encode__writes_or_counts_every_mention(
    name: str, documents: list[Document], max_tokens: int
) -> None:
    examples, counts = encoded(made.TOKENIZERS[name](), documents, max_tokens=max_tokens)

    gold = sum(len(document.spans) for document in documents)
    placed = len(examples.span_starts.values)
    assert placed == counts.mentions == gold - sum(counts.left_out.values()) + counts.cut_pieces
    assert counts.sequences == len(examples)
    assert counts.tokens == len(examples.input_ids.values)


@each_tokenizer
@given(
    document=made.documents_of_text(labels=LABELS),
    more=st.lists(made.documents_of_text(labels=LABELS), max_size=2),
)
def test_encode__gives_a_document_the_same_rows_in_any_batch(
    name: str, document: Document, more: list[Document]
) -> None:
    tokenizer = made.TOKENIZERS[name]()
    alone, _ = encoded(tokenizer, [document], max_tokens=7, keep_text=True)

    together, _ = encoded(tokenizer, [*more, document], max_tokens=7, keep_text=True)

    rows = rows_of(together)
    assert rows[len(rows) - len(alone) :] == rows_of(alone)


@each_tokenizer
@given(
    document=st.one_of(made.documents_of_text(), made.documents_of_words()),
    max_tokens=st.sampled_from([3, 5, 9]),
)
def test_encode__splits_no_mention_that_fits(
    name: str, document: Document, max_tokens: int
) -> None:
    tokenizer = made.TOKENIZERS[name]()
    uncut, _ = encoded(tokenizer, [document], max_tokens=4096)

    examples, counts = encoded(tokenizer, [document], max_tokens=max_tokens)

    room = max_tokens - len(tokenizer.prefix) - len(tokenizer.suffix)
    too_long = uncut.span_ends.values - uncut.span_starts.values > room
    assert counts.cut_mentions == too_long.sum()
    assert examples.input_ids.lengths.max(initial=0) <= max_tokens


@each_tokenizer
@given(
    document=st.one_of(made.documents_of_text(), made.documents_of_words()),
    max_tokens=st.sampled_from([3, 5, 9]),
)
def test_encode__drops_no_token_at_a_split(name: str, document: Document, max_tokens: int) -> None:
    tokenizer = made.TOKENIZERS[name]()
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


@each_tokenizer
@pytest.mark.parametrize("sentence", PLAIN)
@pytest.mark.parametrize("given_words", [True, False])
def test_encode__gives_the_ids_of_the_tokenizer_itself(
    name: str, sentence: str, given_words: bool
) -> None:
    tokenizer = made.TOKENIZERS[name]()
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


@each_tokenizer
@given(document=made.documents_of_text())
def test_encode__starts_words_where_every_tokenizer_can(name: str, document: Document) -> None:
    """A token over several words joins them. No tokenizer splits a word of another."""
    tokenizer = made.TOKENIZERS[name]()

    examples, _ = encoded(tokenizer, [document], keep_text=True)

    for row in rows_of(examples):
        heads = [
            start
            for t, start in enumerate(row.token_starts)
            if row.word_ids[t] >= 0 and row.word_ids[t] != row.word_ids[t - 1]
        ]
        inside = [h for h in heads if h and row.text[h - 1].isalnum() and row.text[h].isalnum()]
        assert not inside


def test_encode__gives_a_mention_within_a_word_the_complete_token() -> None:
    document = Document(
        id="d", text="anticancer kinase", spans=(Span(4, 10, "X"), Span(11, 14, "Y"))
    )

    examples, counts = encoded(made.word_piece(), [document], keep_text=True)

    (row,) = rows_of(examples)
    surfaces = [row.text[row.token_starts[a] : row.token_ends[b - 1]] for a, b, _ in row.spans]
    assert surfaces[1] == "kinase"
    assert "cancer" in surfaces[0]
    assert counts.widened_mentions >= 1


def test_encode__gives_a_shared_token_to_the_first_mention() -> None:
    document = Document(id="d", text="kinase", spans=(Span(0, 3, "X"), Span(3, 6, "Y")))

    examples, counts = encoded(made.word_piece(), [document])

    assert examples.input_ids.lengths.tolist() == [3]
    assert examples.span_labels.tolist() == [[0]]
    assert counts.left_out == {"shares its tokens with another": 1}


def test_encode__counts_a_mention_that_begins_in_the_token_of_another() -> None:
    document = Document(id="d", text="kinase inhibitor", spans=(Span(0, 3, "X"), Span(3, 16, "Y")))

    examples, counts = encoded(made.word_piece(), [document], keep_text=True)

    (row,) = rows_of(examples)
    surfaces = [row.text[row.token_starts[a] : row.token_ends[b - 1]] for a, b, _ in row.spans]
    assert surfaces == ["kinase", "inhibitor"]
    assert counts.adjusted == {NARROWED: 1}
    assert not counts.left_out


def test_encode__counts_mentions_without_tokens() -> None:
    document = made.of_words(["\u200b", "kinase", "\x00"], [(0, 1), (1, 2), (2, 3)])

    examples, counts = encoded(made.word_piece(), [document])

    assert examples.span_starts.tolist() == [[1]]
    assert counts.left_out == {"no token": 2}


def test_encode__keeps_adjacent_mentions_apart() -> None:
    document = made.of_words(["kinase", "protein"], [(0, 1), (1, 2)])

    examples, _ = encoded(made.word_piece(), [document])

    (bio,) = examples.bio.tolist()
    assert [tag for tag in bio if tag == 1] == [1, 1]
    assert bio[0] == bio[-1] == 0
    assert examples.span_starts[0][0] == 1
    assert examples.span_ends[0][1] == len(bio) - 1


@pytest.mark.parametrize("word", ["x" * 101, "☃"])
def test_encode__uses_unk_for_words_unknown_to_word_piece(word: str) -> None:
    document = made.of_words(["kinase", word], [(1, 2)])

    examples, _ = encoded(made.word_piece(), [document])

    assert examples.input_ids[0][-2] == made.word_piece().ids.unk
    assert examples.word_ids[0].tolist()[-2] == 1
    assert examples.span_starts.values[0] == len(examples.input_ids[0]) - 2


def test_encode__gives_rows_of_one_document_different_keys() -> None:
    words = ["kinase"] * 40

    examples, _ = encoded(made.word_piece(), [made.of_words(words)], max_tokens=8)

    assert len(set(examples.keys.tolist())) == len(examples) == 7


def test_encode__accepts_no_documents() -> None:
    examples, counts = encoded(made.word_piece(), [])

    assert len(examples) == 0
    assert examples.span_starts.offsets.tolist() == [0]
    assert count_of(counts) == Count()


def test_encode__counts_sentences_without_tokens() -> None:
    document = Document(
        id="d", text="a \u200b b", sentences=(Sentence(0, 1), Sentence(2, 3), Sentence(4, 5))
    )

    examples, counts = encoded(made.word_piece(), [document])

    assert len(examples) == 2
    assert counts.empty == 1


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


def test_encode__splits_before_the_overflowing_word_like_the_paper() -> None:
    document = made.of_words(["kinase"] * 8, [(4, 8)])

    paper, cut = encoded(made.word_piece(), [document], max_tokens=8, split="paper")
    ours, uncut = encoded(made.word_piece(), [document], max_tokens=8)

    assert paper.input_ids.lengths.tolist() == [8, 4]
    assert (cut.cut_mentions, cut.cut_pieces) == (1, 1)
    assert paper.span_starts.tolist() == [[5], [1]]
    assert ours.input_ids.lengths.tolist() == [6, 6]
    assert (uncut.cut_mentions, uncut.cut_pieces) == (0, 0)
    assert np.array_equal(ours.bio[1], [0, 1, 2, 2, 2, 0])
