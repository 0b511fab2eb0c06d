from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given

from mslm_data.lexicon.ngrams.association import levine, plain, squared
from mslm_data.lexicon.ngrams.counting import count_ngrams, spell
from mslm_data.lexicon.ngrams.stream import read_words
from tests.lexicon.test_counting import few_words, of_words
from tests.reference import ngrams as reference

LONGEST = 5


def measured(measure, rows, n):
    stream = read_words([of_words(rows)])
    grams = count_ngrams(stream, [1] * (LONGEST - 1))
    spelled = stream.words.tokens.values[spell(grams, n)]
    return dict(zip(map(tuple, spelled.tolist()), measure(grams, stream.positions, n), strict=True))


@given(few_words)
def test_levine_and_squared__equal_the_definition(rows) -> None:
    """Levine's PMI is the minimum over splits; PMI² adds the log probability of the n-gram."""
    words = [[(word,) for word in row] for row in rows]
    counts = {n: reference.count(words, n) for n in range(1, LONGEST + 1)}

    for n in range(2, LONGEST + 1):
        twice = measured(squared, rows, n)
        for gram, score in measured(levine, rows, n).items():
            spelled = tuple((word,) for word in gram)
            log_p = math.log2(counts[n][spelled] / counts[n].total())
            assert score == pytest.approx(reference.levine(spelled, counts), abs=1e-8)
            assert twice[gram] == pytest.approx(score + log_p, abs=1e-8)


def test_levine__a_strong_pair_with_anything_is_weak() -> None:
    # 5 and 6 occur only together, 7 before them as often as before others, and 8 9 5 only together.
    rows = [[7, 5, 6], [7, 5, 6], [7, 7, 7], [5, 6, 7], [8, 9, 10], [8, 9, 10]]

    scores, naive = measured(levine, rows, 3), measured(plain, rows, 3)

    assert scores[8, 9, 10] > scores[7, 5, 6] + 1
    assert naive[7, 5, 6] > 1
    # p(7 5 6) = 2/6. The best split is 7 | 5 6, with p(7) = 6/18 and p(5 6) = 3/12.
    assert scores[7, 5, 6] == pytest.approx(math.log2((2 / 6) / (6 / 18 * 3 / 12)))


def test_plain__equals_nltk() -> None:
    # NLTK 3.10.4: QuadgramCollocationFinder.from_words("a b c d a b c d a e".split()).score_ngrams(pmi), and trigrams
    rows = [[5, 6, 7, 8, 5, 6, 7, 8, 5, 9]]

    assert measured(plain, rows, 3)[5, 6, 7] == 4.058893689053568
    assert measured(plain, rows, 4)[5, 6, 7, 8] == 6.380821783940931
    assert measured(plain, rows, 2)[5, 9] == 1.736965594166206


@pytest.mark.parametrize("measure", [levine, plain, squared])
def test_measures__without_ngrams(measure) -> None:
    stream = read_words([])

    assert measure(count_ngrams(stream, [1]), stream.positions, 2).tolist() == []


def test_levine__equal_values_tie_to_the_last_bit() -> None:
    # 2 * 6 = 3 * 4 occurrences of words, and one of each pair.
    rows = [[5, 6], [5], *[[6]] * 5, [7, 8], *[[7]] * 2, *[[8]] * 3]

    scores = measured(levine, rows, 2)

    assert scores[5, 6] == scores[7, 8]
    assert np.isfinite(scores[5, 6])
