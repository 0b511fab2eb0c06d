from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged
from mslm_data.lexicon.ngrams import counting as ngrams
from mslm_data.lexicon.ngrams.counting import Grams, count_ngrams, spell
from mslm_data.lexicon.ngrams.stream import Scratch, WordStream, read_words
from tests.generate import CLS, SEP, Row, examples_of, random_examples
from tests.reference import ngrams as reference
from tests.support.properties import fewer

few_words = st.lists(st.lists(st.integers(5, 9), max_size=30), max_size=8)
"""Rows of words of one piece, with five types, so n-grams repeat."""


def of_words(rows: Sequence[Sequence[int]]) -> Examples:
    return examples_of(
        Row(key=i, ids=[CLS, *row, SEP], word_ids=[-1, *range(len(row)), -1])
        for i, row in enumerate(rows)
    )


def counted(stream: WordStream, grams: Sequence[Grams], n: int) -> dict[reference.Gram, int]:
    types = [tuple(word) for word in stream.words.tokens.tolist()]
    spelled = [tuple(types[word] for word in gram) for gram in spell(grams, n).tolist()]
    return dict(zip(spelled, grams[n - 1].counts.tolist(), strict=True))


@given(few_words, st.integers(1, 3), st.integers(0, 99), st.integers(1, 40), st.booleans())
def test_count_ngrams__equals_a_counter(rows, size, stays, positions, across) -> None:
    chunks = [of_words(rows[start : start + size]) for start in range(0, len(rows), size)]
    words = [row for chunk in chunks for row in reference.rows_of(chunk)]
    sentences = [[word for row in words for word in row]] if across else words
    stream = read_words(chunks, across=across)

    with (
        patch.object(ngrams, "IN_MEMORY", stays),
        patch.object(ngrams, "_POSITIONS_AT_ONCE", positions),
    ):
        grams = count_ngrams(stream, [2, 2, 3, 1])

    for n, least in ((2, 1), (3, 1), (4, 1), (5, 1)):  # the minimum count of 5-grams is 1
        expected = {
            gram: count for gram, count in reference.count(sentences, n).items() if count >= least
        }
        assert counted(stream, grams, n) == expected
        assert stream.positions[n] == sum(expected.values())


@given(few_words, st.integers(1, 4), st.integers(1, 4))
def test_count_ngrams__excludes_rare_ngrams_and_unknown_words(rows, pairs, triples) -> None:
    stream = read_words([of_words(rows)])
    kept = stream.words.tokens.values != 7
    usable = [row for row in rows if row]

    grams = count_ngrams(stream, [pairs, triples], kept=kept)

    for n, least in ((2, min(pairs, triples)), (3, triples)):
        every = reference.count([[(word,) for word in row] for row in usable], n)
        expected = {
            gram: count for gram, count in every.items() if count >= least and (7,) not in gram
        }
        assert counted(stream, grams, n) == expected


@fewer(0.5)  # of several rows each
@given(random_examples())
def test_count_ngrams__streams_spell_the_rows(examples) -> None:
    stream = read_words([examples])
    grams = count_ngrams(stream, [1, 1])
    types = [tuple(word) for word in stream.words.tokens.tolist()]
    triples = spell(grams, 3).tolist()

    found = [
        tuple(types[word] for word in triples[number]) for number in grams[2].stream if number >= 0
    ]

    assert found == [
        gram for row in reference.rows_of(examples) for gram in reference.grams_of(row, 3)
    ]


@given(st.lists(st.lists(st.integers(-9, 9), max_size=5), max_size=5), st.integers(0, 99))
def test_scratch__returns_added_arrays_from_memory_or_disk(parts, in_memory) -> None:
    scratch = Scratch(np.int32, in_memory=in_memory)
    for part in parts:
        scratch.append(np.array(part, np.int32))

    array = scratch.array()

    assert array.tolist() == [item for part in parts for item in part]
    assert array.dtype == np.int32
    assert array.flags.writeable == (4 * len(array) <= in_memory)


def test_read_words__a_joined_row_equals_its_sentences() -> None:
    row = Row(
        key=0, ids=[2, 5, 6, 7, 5, 6, 3], word_ids=[-1, 0, 0, 1, 2, 3, -1], mentions=((4, 6, 0),)
    )
    joined = replace(examples_of([row]), sentence_starts=Ragged.from_rows([[1, 4]], np.int32))
    one = Row(key=0, ids=[2, 5, 6, 7, 3], word_ids=[-1, 0, 0, 1, -1])
    other = Row(key=0, ids=[2, 5, 6, 3], word_ids=[-1, 0, 1, -1], mentions=((1, 3, 0),))

    apart = read_words([examples_of([one, other])])
    together = read_words([joined])

    assert together.numbers.tolist() == apart.numbers.tolist() == [0, 1, -1, 2, 3, -1]
    assert together.positions == apart.positions
    assert read_words([joined], across=True).positions == (0, 4, 3, 2, 1, 0)
