from __future__ import annotations

import math
import operator
from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mslm_data.errors import VocabularyError
from mslm_data.mask.score import Score
from mslm_data.mask.units import mentions, words
from tests.generate import IDS, examples_of, random_examples, row_of, rows_of
from tests.mask.artifacts import (
    column_for,
    rates_lexicon,
    token_rate,
    token_score,
    word_score,
    words_lexicon,
)
from tests.reference.entities import words_of
from tests.reference.scored import ranks, smoothed

TRANSFORMS = ["none", "flag", "unflagged", "swish", "rank"]


def added(numbers):
    """Return the sum by a loop: `sum` of Python 3.12 and later is more exact."""
    return reduce(operator.add, numbers, 0.0)


OVERS = {
    "max": max,
    "mean": lambda own: added(own) / len(own),
    "sum": added,
    "first": lambda own: own[0],
}


def transformed(transform, scores):
    """Return one row's scores after a transform, in plain Python."""
    if transform == "rank":
        return [float(rank) for rank in ranks(scores)]
    return [
        {
            "none": score,
            "flag": float(score > 0),
            "unflagged": float(score <= 0),
            "swish": float(np.float32(score / (1 + math.exp(-score)))),
        }[transform]
        for score in scores
    ]


def by_row(values, offsets):
    return [values[offsets[i] : offsets[i + 1]].tolist() for i in range(len(offsets) - 1)]


@given(
    random_examples(),
    st.sampled_from(TRANSFORMS),
    st.sampled_from([0.0, -1.0, 0.3]),
    st.sampled_from([1.0, 0.4]),
)
def test_score__of_words(examples, transform, missing, alpha):
    """A word has the score of its entry; a single token has the score of its word."""
    score = Score(lexicon=str(words_lexicon()), transform=transform, missing=missing, alpha=alpha)
    of_words, of_tokens = score.compute(examples, words(examples)), score.compute(examples, None)

    offsets = words(examples).starts.offsets
    for row, own, tokens in zip(
        rows_of(examples),
        by_row(of_words, offsets),
        by_row(of_tokens, examples.input_ids.offsets),
        strict=True,
    ):
        units = words_of(row)
        known = [
            None if IDS.unk in (ids := [row.ids[t] for t in word]) else word_score(ids)
            for word in units
        ]
        scores = transformed(transform, [missing if number is None else number for number in known])
        spread = smoothed(
            [score for score, word in zip(scores, units, strict=True) for _ in word], alpha
        )
        assert own == pytest.approx(smoothed(scores, alpha), abs=1e-7)
        expected = dict(zip([t for word in units for t in word], spread, strict=True))
        assert tokens == pytest.approx(
            [expected.get(t, 0.0) for t in range(len(row.ids))], abs=1e-7
        )


@given(random_examples(), st.sampled_from(["none", "flag", "rank"]), st.sampled_from(list(OVERS)))
def test_score__of_tokens_by_their_ids(examples, transform, over):
    score = Score(lexicon=str(rates_lexicon()), by="token", over=over, missing=0.25)
    of_units, of_tokens = score.compute(examples, mentions(examples)), score.compute(examples, None)
    changed = replace(score, transform=transform).compute(examples, mentions(examples))

    offsets = examples.span_starts.offsets
    columns = (of_units, offsets), (changed, offsets), (of_tokens, examples.input_ids.offsets)
    for row, *got in zip(rows_of(examples), *(by_row(*column) for column in columns), strict=True):
        rates = [0.25 if (rate := token_rate(id_)) is None else rate for id_ in row.ids]
        own = [OVERS[over](rates[start:end]) for start, end, _ in row.mentions]
        assert got == [own, transformed(transform, own), rates]


@given(random_examples(), st.sampled_from(TRANSFORMS), st.sampled_from(list(OVERS)))
def test_score__of_a_column(examples, transform, over):
    score = Score(column=str(column_for(examples)), transform=transform, over=over)
    of_words, of_tokens = score.compute(examples, words(examples)), score.compute(examples, None)

    offsets = words(examples).starts.offsets
    columns = (of_words, offsets), (of_tokens, examples.input_ids.offsets)
    for row, own, tokens in zip(
        rows_of(examples), *(by_row(*column) for column in columns), strict=True
    ):
        scores = [token_score(row.key, t) for t in range(len(row.ids))]
        reduced = [OVERS[over](scores[word[0] : word[-1] + 1]) for word in words_of(row)]
        assert own == pytest.approx(transformed(transform, reduced), abs=1e-7)
        assert tokens == pytest.approx(transformed(transform, scores), abs=1e-7)


def test_score__rank_of_a_word_is_that_of_its_tokens():
    """As in the released code, tokens are weighted by the rank of their word."""
    examples = examples_of([row_of([2, 1, 2])])
    tokens = Score(lexicon=str(words_lexicon()), transform="rank").compute(examples, None)

    assert (
        tokens[1] == tokens[2] > tokens[4] == tokens[5]
    )  # the same word twice: the first is higher
    assert set(tokens[[1, 3, 4]].tolist()) == {1, 2, 3}
    assert tokens[0] == tokens[6] == 0


def test_score__alpha_keeps_the_rows_sum():
    examples = examples_of([row_of([1] * 9, key=key, fill=5 + key) for key in range(4)])
    column = str(column_for(examples))
    whole, half, none = (
        np.maximum(Score(column=column, alpha=alpha).compute(examples, words(examples)), 0).reshape(
            4, 9
        )
        for alpha in (1.0, 0.5, 0.0)
    )

    assert half.sum(axis=1) == pytest.approx(whole.sum(axis=1))
    assert half == pytest.approx((whole + none) / 2)
    assert (none == none[:, :1]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "^score: expected a lexicon or a column, got neither$"),
        ({"lexicon": "a", "column": "b"}, "^score: expected a lexicon or a column, got both$"),
        ({"lexicon": "a", "missing": math.nan}, r"^missing: expected a finite number, got nan$"),
        ({"lexicon": "a", "missing": math.inf}, r"^missing: expected a finite number, got inf$"),
    ],
)
def test_score__refuses(options, message):
    with pytest.raises(ValueError, match=message):
        Score(**options)


@pytest.mark.filterwarnings("error")
def test_score__swish_of_a_very_low_score_is_0():
    examples = examples_of([row_of([1], fill=IDS.unk)])
    score = Score(lexicon=str(words_lexicon()), transform="swish", missing=-1000.0)

    assert score.compute(examples, words(examples)).tolist() == [0.0]


def test_score__entries_of_several_tokens_are_no_numbers_of_ids():
    examples = examples_of([row_of([1])])

    with pytest.raises(
        VocabularyError, match=r"expected entries of one token, because by = 'token'$"
    ):
        Score(lexicon=str(words_lexicon()), by="token").compute(examples, None)


def test_score__column_of_other_rows():
    examples = examples_of([row_of([1], key=key) for key in (1, 2)])
    column = str(column_for(examples_of([row_of([1], key=1)])))

    with pytest.raises(
        VocabularyError, match="1 of 2 rows have no scores; make them for this split"
    ):
        Score(column=column).compute(examples, None)
