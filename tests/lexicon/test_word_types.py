from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.ragged import Ragged
from mslm_data.lexicon.word_types import WordNumbers, count_words, word_strings
from tests import made
from tests.generate import IDS, examples_of, fixed_examples, random_examples, row_of, rows_of
from tests.reference import ngrams as reference
from tests.support.properties import fewer


@fewer(0.5)  # of several rows each
@given(random_examples(), st.integers(1, 4))
def test_count_words__equals_its_twin_for_any_chunks(examples, size) -> None:
    rows = rows_of(examples)
    chunks = [examples_of(rows[start : start + size]) for start in range(0, len(rows), size)]
    expected = Counter(word for row in reference.rows_of(examples) for word in row)

    words = count_words(chunks)

    assert [tuple(word) for word in words.tokens.tolist()] == list(expected)
    assert words.counts.tolist() == list(expected.values())


@fewer(0.5)  # of several rows each
@given(random_examples())
def test_word_numbers__spell_the_rows(examples) -> None:
    numbers = WordNumbers()

    rows = numbers.number(examples)
    types = numbers.words().tokens.tolist()

    assert [[tuple(types[word]) for word in row] for row in rows.tolist()] == reference.rows_of(
        examples
    )


def test_count_words__the_table_grows() -> None:
    chunks = [fixed_examples(500), fixed_examples(1000)]
    expected = Counter(word for chunk in chunks for row in reference.rows_of(chunk) for word in row)

    words = count_words(chunks)

    assert len(words) > 4096
    assert {
        tuple(word): count for word, count in zip(words.tokens.tolist(), words.counts, strict=True)
    } == expected


def test_count_words__a_tokenizer_that_grows() -> None:
    """Ids outside the tokenizer, for example of damaged shards, are words, before and after the tokenizer has them."""
    rows = [row_of([1, 2, 1], fill=token) for token in (10, 30)]
    chunks = [examples_of(rows, replace(IDS, size=size)) for size in (5, 20, 40)]

    words = count_words(chunks)

    assert words.tokens.tolist() == [[10], [10, 10], [30], [30, 30]]
    assert words.counts.tolist() == [6, 3, 6, 3]


@pytest.mark.parametrize("name", made.TOKENIZERS)
def test_word_strings__join_pieces_without_marks(name: str) -> None:
    tokenizer = made.TOKENIZERS[name]()
    words = ["IL-2", "kinase", "do-not", "U.S.A.", "x", "p53", "##ing"][
        : 6 if name in ("unigram", "t5") else None
    ]
    ids = [
        tokenizer.core.encode(tokenizer.lead + word, add_special_tokens=False).ids for word in words
    ]
    assert max(map(len, ids)) > 1

    assert word_strings(Ragged.from_rows(ids, np.int32), tokenizer.core) == words


def test_word_strings__names_unknown_words() -> None:
    tokenizer = made.word_piece()

    assert word_strings(Ragged.from_rows([[tokenizer.ids.unk]], np.int32), tokenizer.core) == [
        "[UNK]"
    ]
