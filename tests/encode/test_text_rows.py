"""Rows of BPE and Unigram tokenizers: each is tokenised as a text of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.accounts import Counts
from mslm_data.data.document import Document, Placeholder, Sentence, Span
from mslm_data.data.examples import Examples
from mslm_data.encode import text_line
from mslm_data.encode.tokenizer import Tokenizer, parse_tokenizer
from mslm_data.errors import TokenizerError
from tests import made

LABELS = ("X", "Y")
NAMES = ("byte_level", "unigram", "t5")
each_tokenizer = pytest.mark.parametrize("name", NAMES)
some_documents = st.lists(
    st.one_of(made.documents_of_text(labels=LABELS), made.documents_of_words(labels=LABELS)),
    max_size=3,
)


def encoded(
    tokenizer: Tokenizer, documents: Sequence[Document], **options: Any
) -> tuple[Examples, Counts]:
    return made.encoded(made.encoder(tokenizer, LABELS, keep_text=True, **options), documents)


def named(documents: Sequence[Document]) -> list[Document]:
    return [replace(document, id=f"d{i}") for i, document in enumerate(documents)]


def texts_of(examples: Examples, doc_id: str) -> list[str]:
    assert examples.texts is not None
    assert examples.doc_ids is not None
    return [t for t, d in zip(examples.texts, examples.doc_ids, strict=True) if d == doc_id]


def tokens_of(tokenizer: Tokenizer, text: str) -> list[tuple[int, int]]:
    """Return the characters of each token of a text, without white space around it."""
    offsets = tokenizer.core.encode(text, add_special_tokens=False).offsets
    characters = []
    for start, end in offsets:
        first = min(start, len(text) - 1)
        covered = range(first, max(end, first + 1))
        characters.append([c for c in covered if not text[c].isspace()] or list(covered))

    found = []
    low = high = 0
    for t, inside in enumerate(characters):
        # A single space is a part of the word behind it.
        own = inside
        is_space = text[own[0]].isspace() and text[own[0]] >= " " and np.diff(offsets[t])[0] <= 1
        if is_space and t + 1 < len(characters) and not text[characters[t + 1][0]].isspace():
            own = [next(c for c in range(own[0], len(text)) if not text[c].isspace())]
        low = max(low, own[0])
        high = max(high, own[-1] + 1)
        found.append((low, high))
    return found


def ids_of(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the ids of a text with special tokens around it, and none within."""
    control = set(tokenizer.ids.special) - {tokenizer.ids.unk}
    ids = tokenizer.core.encode(text, add_special_tokens=False).ids
    plain = [tokenizer.ids.unk if id_ in control else id_ for id_ in ids]
    return [*tokenizer.prefix, *plain, *tokenizer.suffix]


@each_tokenizer
@given(
    documents=some_documents,
    max_tokens=st.sampled_from([40, 60, 512]),
    join=st.sampled_from(["none", "document"]),
)
def test_encode__gives_the_ids_of_each_text(
    name: str, documents: list[Document], max_tokens: int, join: str
) -> None:
    tokenizer = made.TOKENIZERS[name]()
    documents = named(documents)

    examples, _ = encoded(tokenizer, documents, max_tokens=max_tokens, join=join)

    assert examples.texts is not None
    for ids, text in zip(examples.input_ids.tolist(), examples.texts, strict=True):
        assert ids == ids_of(tokenizer, text)
        assert len(ids) <= max_tokens
    for document in documents:
        rows = texts_of(examples, document.id)
        # A document of white space, or of characters that are no tokens, has no row.
        assert "".join(rows) == (document.text if rows else "")
        if not rows:
            assert not tokenizer.core.encode(document.text.strip(), add_special_tokens=False).ids


LONG = {
    "words": "The kinase p53 binds. " * 40,
    "lines": "The kinase\n\n  binds\n" * 40,
    "a word": "kinase" * 100,
    "white space": "a" + " " * 500 + "b\n" * 200,
    "only white space": " " * 500,
}


@each_tokenizer
@pytest.mark.parametrize("text", LONG)
def test_encode__splits_a_very_long_sentence_outside_of_mentions(
    name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_line, "AT_ONCE", 64)
    tokenizer = made.TOKENIZERS[name]()
    long = LONG[text]
    spans = [Span(50, 62, "X")] if text == "words" else []
    documents = [Document(id="d", text=long, spans=tuple(spans)), Document(id="e", text="kinase")]

    for max_tokens, join in ((40, "none"), (512, "document")):
        examples, counts = encoded(tokenizer, documents, max_tokens=max_tokens, join=join)

        rows = texts_of(examples, "d")
        assert "".join(rows) == (long if rows else "")
        assert examples.input_ids.tolist() == [
            ids_of(tokenizer, row) for row in [*rows, *texts_of(examples, "e")]
        ]
        assert counts.mentions == len(spans)
        assert counts.cut_mentions == 0


@each_tokenizer
@given(documents=some_documents, join=st.sampled_from(["none", "document"]))
def test_encode__gives_mentions_the_tokens_that_share_a_character(
    name: str, documents: list[Document], join: str
) -> None:
    tokenizer = made.TOKENIZERS[name]()
    documents = named(documents)

    examples, counts = encoded(tokenizer, documents, join=join)

    placed = 0
    prefix = len(tokenizer.prefix)
    for document in documents:
        past = 0
        spans = list(document.spans)
        for row, text in enumerate(examples.texts or ()):
            if (examples.doc_ids or ())[row] != document.id:
                continue
            tokens = tokens_of(tokenizer, text)
            expected = []
            taken = 0
            for span in spans:
                # White space around the text of a mention is no part of it.
                inside = document.text[span.start : span.end]
                start = span.end - len(inside.lstrip()) - past
                end = span.start + len(inside.rstrip()) - past
                touched = [t for t, (a, b) in enumerate(tokens) if a < end and start < b]
                touched = [t for t in touched if t >= taken]
                if 0 <= start < len(text) and touched:
                    taken = touched[-1] + 1
                    first, last = touched[0] + prefix, touched[-1] + prefix + 1
                    expected.append((first, last, LABELS.index(span.label)))
            found = zip(
                examples.span_starts[row].tolist(),
                examples.span_ends[row].tolist(),
                examples.span_labels[row].tolist(),
                strict=True,
            )
            assert list(found) == expected
            placed += len(expected)
            past += len(text)
    gold = sum(len(document.spans) for document in documents)
    assert counts.mentions == placed == gold - sum(counts.left_out.values())


@each_tokenizer
@given(documents=some_documents, max_tokens=st.sampled_from([40, 60]))
def test_encode__writes_or_counts_every_mention(
    name: str, documents: list[Document], max_tokens: int
) -> None:
    examples, counts = encoded(made.TOKENIZERS[name](), named(documents), max_tokens=max_tokens)

    gold = sum(len(document.spans) for document in documents)
    placed = len(examples.span_starts.values)
    assert placed == counts.mentions == gold - sum(counts.left_out.values()) + counts.cut_pieces
    assert counts.sequences == len(examples)
    assert counts.tokens == len(examples.input_ids.values)


@each_tokenizer
@given(document=made.documents_of_text(labels=LABELS), more=some_documents)
def test_encode__gives_a_document_the_same_rows_in_any_batch(
    name: str, document: Document, more: list[Document]
) -> None:
    tokenizer = made.TOKENIZERS[name]()
    alone, _ = encoded(tokenizer, [document], max_tokens=40)

    together, _ = encoded(tokenizer, [*named(more), document], max_tokens=40)

    rows = slice(len(together) - len(alone), None)
    assert together.keys[rows].tolist() == alone.keys.tolist()
    assert len(set(alone.keys.tolist())) == len(alone)
    for column in ("input_ids", "word_ids", "bio", "token_starts", "token_ends"):
        assert getattr(together, column).tolist()[rows] == getattr(alone, column).tolist()


NOTE = "HISTORY:\n\n  The patient has no fever. IL-2 was low.\nPLAN: none"


def test_encode__keeps_line_breaks_with_the_row_before_and_spaces_with_the_row_after() -> None:
    cuts = [NOTE.index(word) for word in ("HISTORY", "The", "IL", "PLAN")]
    sentences = tuple(Sentence(a, len(NOTE[:b].rstrip())) for a, b in pairwise([*cuts, len(NOTE)]))
    document = Document(id="d", text=NOTE, sentences=sentences)

    examples, _ = encoded(made.byte_level(), [document])

    assert examples.texts == [
        "HISTORY:\n\n",
        "  The patient has no fever.",
        " IL-2 was low.\n",
        "PLAN: none",
    ]


def test_encode__numbers_words_as_word_piece_does_and_line_breaks_as_words() -> None:
    text = "IL-2(alpha)  binds\n\np53/MDM2."
    words = ["IL", "-", "2", "(", "alpha", ")", "binds", "\n", "\n", "p53", "/", "MDM2", "."]

    examples, _ = encoded(made.byte_level(), [Document(id="d", text=text)])

    assert examples.token_starts is not None
    starts = examples.token_starts[0].tolist()[1:-1]
    numbers = examples.word_ids[0].tolist()[1:-1]
    heads = [starts[numbers.index(word)] for word in sorted(set(numbers))]
    assert [text[a:b].strip(" ") for a, b in pairwise([*heads, len(text)])] == words


@each_tokenizer
@pytest.mark.parametrize("word", ["unknown", "protein kinase", None, ""])
@pytest.mark.parametrize("text", ["{}", "{}kinase", "a {}", "of the {} a{}b, {}"])
def test_encode__gives_a_placeholder_the_ids_of_its_word_and_keeps_its_characters(
    name: str, text: str, word: str | None
) -> None:
    tokenizer = made.TOKENIZERS[name]()
    mark = "[**Hospital1 18**]"
    pieces = text.split("{}")
    marked = mark.join(pieces)
    starts = [len(mark.join(pieces[: i + 1])) for i in range(len(pieces) - 1)]
    document = Document(
        id="d",
        text=marked,
        placeholders=tuple(Placeholder(s, s + len(mark), word) for s in starts),
        spans=tuple(Span(s, s + len(mark), "X") for s in starts),
    )

    examples, counts = encoded(tokenizer, [document])

    tokenized = (mark if word is None else f" {word} ").join(pieces)
    for i in range(len(examples)):
        assert examples.input_ids[i].tolist() == tokenizer.core.encode(tokenized).ids
        assert (examples.texts or ())[i] == marked
    assert counts.mentions + sum(counts.left_out.values()) == len(starts)
    if word != "":  # white space in its place may be tokens
        assert counts.mentions == len(starts)


def test_encode__ends_each_document_with_eos() -> None:
    with_ends = made.byte_level()
    tokenizer = parse_tokenizer(json.dumps(json.loads(with_ends.json) | {"post_processor": None}))
    documents = [
        Document(id="a", text="One. Two.", sentences=(Sentence(0, 4), Sentence(5, 9))),
        Document(id="b", text="Three.", spans=(Span(0, 5, "X"),)),
    ]

    examples, counts = encoded(tokenizer, documents, eos=True)

    eos = tokenizer.ids.eos
    plain, _ = encoded(tokenizer, documents)
    rows = plain.input_ids.tolist()
    assert examples.input_ids.tolist() == [rows[0], [*rows[1], eos], [*rows[2], eos]]
    assert examples.word_ids[2][-1] == -1
    assert examples.bio.lengths.tolist() == examples.input_ids.lengths.tolist()
    assert counts.tokens == len(examples.input_ids.values)

    # Rows of a tokenizer that ends each with it have no second one.
    once, _ = encoded(with_ends, documents, eos=True)
    assert once.input_ids.tolist() == encoded(with_ends, documents)[0].input_ids.tolist()


def test_encoder__rejects_eos_without_such_a_token() -> None:
    with pytest.raises(TokenizerError, match=r"eos.*tokenizer_config\.json"):
        made.encoder(made.word_piece(), LABELS, eos=True)


def test_encode__names_the_limit_for_a_character_of_many_tokens() -> None:
    document = Document(id="d", text="\ufdfa")

    with pytest.raises(TokenizerError, match=r"max_tokens: a character .* more than 6 tokens"):
        encoded(made.unigram(), [document], max_tokens=8)
