from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.ragged import Ragged
from mslm_data.errors import VocabularyError
from mslm_data.lexicon.store import Lexicon, write_lexicon
from mslm_data.lexicon.trie import Trie, open_trie
from mslm_data.mask.units import mentions, words
from tests.generate import IDS, Row, examples_of, random_examples, rows_of
from tests.mask import artifacts
from tests.reference import grams as twins
from tests.support.properties import fewer


def lexicon_of(entries, size=IDS.size):
    return Lexicon(
        tokens=Ragged.from_rows(entries, np.int32),
        word_starts=Ragged.from_rows([[0]] * len(entries), np.int32),
        scores=np.zeros(len(entries)),
        about={"size": size},
    )


def found_in(row, entries):
    starts, ends, numbers = Trie.from_lexicon(lexicon_of(entries)).matches(examples_of([row]))
    return list(zip(starts.values.tolist(), ends.values.tolist(), numbers.tolist(), strict=True))


@fewer(0.5)  # of several rows each
@given(random_examples())
def test_exact__equals_twin(examples):
    trie = open_trie(artifacts.concepts_lexicon(2))
    table = trie.table(np.arange(len(trie.lexicon)), -1)
    for units in (words(examples), mentions(examples)):
        numbers = trie.exact(examples, units.starts, units.ends, table)

        ids = examples.input_ids.values
        begins = np.repeat(examples.input_ids.offsets[:-1], units.starts.lengths)
        spans = zip(begins + units.starts.values, begins + units.ends.values, strict=True)
        known = {entry: number for number, entry in enumerate(artifacts.concepts(2))}
        assert numbers.tolist() == [
            known.get(tuple(ids[start:end].tolist()), -1) for start, end in spans
        ]


def test_matches__whole_words_only_and_none_over_a_special_token():
    row = Row(key=0, ids=[5, 6, 5, 6, 2, 6, 5, 5, 6], word_ids=[0, 0, 1, 2, -1, 3, 4, 5, 5])

    assert found_in(row, [(5, 6), (6, 5), (5,)]) == [
        (0, 2, 0),
        (2, 3, 2),
        (2, 4, 0),
        (5, 7, 1),
        (6, 7, 2),
        (7, 9, 0),
    ]


@fewer(0.5)  # of several rows each
@given(random_examples(), st.data())
def test_matches__equals_twin_within_each_sentence(examples, data):
    """A row without further sentences is one."""
    starts = [
        [0, *sorted(data.draw(st.sets(st.integers(1, len(ids) - 1), max_size=3)))]
        if len(ids) > 1
        else [0]
        for ids in examples.input_ids.tolist()
    ]
    joined = replace(examples, sentence_starts=Ragged.from_rows(starts, np.int32))

    firsts, ends, numbers = open_trie(artifacts.grams_lexicon()).matches(joined)

    found = [
        list(zip(*columns, strict=True))
        for columns in zip(
            firsts.tolist(),
            ends.tolist(),
            Ragged(numbers, firsts.offsets).tolist(),
            strict=True,
        )
    ]
    for row, cuts, matches in zip(rows_of(examples), starts, found, strict=True):
        wanted = []
        for a, b in pairwise([*cuts, len(row.ids)]):
            part = Row(key=0, ids=row.ids[a:b], word_ids=row.word_ids[a:b])
            wanted += [(x + a, y + a, e) for x, y, e in twins.matches(part, artifacts.grams())]
        assert matches == wanted


def test_matches__prefers_the_first_of_equal_entries():
    assert found_in(Row(key=0, ids=[5, 6], word_ids=[0, 1]), [(6,), (5, 6), (5, 6)]) == [
        (0, 2, 1),
        (1, 2, 0),
    ]


def test_matches__empty_lexicon():
    examples = examples_of([Row(key=0, ids=[5, 6], word_ids=[0, 1])])
    trie = Trie.from_lexicon(lexicon_of([]))

    assert len(trie.matches(examples)[0].values) == 0
    units = words(examples)
    assert trie.exact(examples, units.starts, units.ends, trie.table(np.empty(0), -1)).tolist() == [
        -1,
        -1,
    ]


def test_matches__grows_beyond_the_initial_room():
    """In a row of equal tokens, every entry matches at each position."""
    row = Row(key=0, ids=[7] * 40, word_ids=range(40))
    found = found_in(row, [(7,) * length for length in range(1, 31)])

    assert found == [(t, t + n, n - 1) for t in range(40) for n in range(1, 31) if t + n <= 40]


def test_matches__lexicon_of_another_tokenizer():
    examples = examples_of([Row(key=0, ids=[5], word_ids=[0])])
    trie = Trie.from_lexicon(lexicon_of([(5,)], size=50))

    message = (
        r"^lexicon: made with a tokenizer of 50 ids, but the rows have one of 40; make a lexicon"
    )
    with pytest.raises(VocabularyError, match=message):
        trie.matches(examples)
    units = words(examples)
    with pytest.raises(VocabularyError, match=message):
        trie.exact(examples, units.starts, units.ends, trie.table(np.zeros(1), 0))


def test_open_trie__caches_until_the_file_changes(tmp_path):
    path = tmp_path / "made.arrow"
    write_lexicon(path, lexicon_of([(5,)]))
    first = open_trie(path)

    assert open_trie(path) is first
    write_lexicon(path, lexicon_of([(5,), (6,)]))
    assert len(open_trie(path).lexicon) == 2
