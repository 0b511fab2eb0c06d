from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.examples import Examples
from mslm_data.errors import VocabularyError
from mslm_data.lexicon.scores import selective
from mslm_data.lexicon.scores.selective import Confidence
from tests.generate import CLS, SEP, Row, examples_of, random_examples, row_of
from tests.reference.selective import important
from tests.support.properties import fewer


def made_up(ids: list[int]) -> float:
    """Return a number in [0, 1] that depends only on the ids."""
    return hashlib.sha256(bytes(ids)).digest()[0] / 255


def answers(rows: list[list[int]], keys: list[int]) -> list[float]:
    assert len(rows) == len(keys)
    return [made_up(row) for row in rows]


@fewer(0.5)  # of several rows each
@given(random_examples(), st.sampled_from([0.0, 0.01, 0.3, 1.0]), st.sampled_from([1, 2, 256]))
def test_confidence__is_above_0_exactly_as_in_its_twin(examples: Examples, threshold, at_once):
    score = Confidence(answers, threshold)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selective, "ROWS_AT_ONCE", at_once)
        scores = score(examples, lambda _: None)

    flagged = 0
    for row in range(len(examples)):
        first = examples.input_ids.offsets[row]
        found = np.flatnonzero(scores[first : examples.input_ids.offsets[row + 1]] > 0).tolist()
        ids, words = examples.input_ids[row].tolist(), examples.word_ids[row].tolist()
        assert found == important(ids, words, made_up, threshold)
        flagged += len(found)
    assert np.all(scores[examples.word_ids.values < 0] == 0)
    assert (score.rows, score.important) == (len(examples), flagged)
    assert score.scanned == (examples.word_ids.values >= 0).sum()


def test_confidence__worked_example():
    """A single token decides. With it, no other token matters, so the rule marks all later tokens as important."""
    p_of = {(5, 6, 7): 0.9, (5,): 0.5, (5, 6): 0.895, (5, 7): 0.4}
    examples = examples_of([Row(key=9, ids=[CLS, 5, 6, 7, SEP], word_ids=[-1, 0, 1, 2, -1])])
    asked = []

    def p_true(rows, keys):
        asked.append((rows, keys))
        return [p_of[tuple(row[1:-1])] for row in rows]

    scores = Confidence(p_true, 0.01)(examples, lambda _: None)

    # The drop with 5 is 0.4, so 5 stays. With 6 it is 0.005 < 0.01: 6 is important, and 7 is tried after 5 only.
    np.testing.assert_allclose(scores, [0, 0.01 - 0.4, 0.01 - 0.005, 0.01 - 0.5, 0], atol=1e-7)
    assert [rows[0][1:-1] for rows, _ in asked] == [[5, 6, 7], [5], [5, 6], [5, 7]]
    assert {key for _, keys in asked for key in keys} == {9}


def test_confidence__a_drop_equal_to_the_threshold_is_not_important():
    examples = examples_of([row_of([1])])
    answer = iter([[0.75], [0.5]])

    scores = Confidence(lambda rows, keys: next(answer), 0.25)(examples, lambda _: None)

    assert scores.tolist() == [0, 0, 0]


def test_confidence__nan_excludes_a_row():
    examples = examples_of([row_of([1, 2], key=1), row_of([1, 2], key=2)])

    def p_true(rows, keys):
        return [math.nan if key == 1 else 0.5 for key in keys]

    score = Confidence(p_true, 0.01)
    scores = score(examples, lambda _: None)

    assert scores[:5].tolist() == [0] * 5
    assert np.all(scores[6:9] > 0)
    assert (score.rows, score.left_out) == (1, 1)


def test_confidence__makes_one_call_per_step():
    examples = examples_of([row_of([size], key=size) for size in range(1, 6)])
    sizes = []

    def p_true(rows, keys):
        sizes.append(len(rows))
        return [0.5] * len(rows)

    tokens = []
    Confidence(p_true)(examples, tokens.append)

    assert sizes == [5, 5, 4, 3, 2, 1]
    assert tokens == [len(examples.input_ids.values)]


NO_PROBABILITY = "--callable: expected 1 probabilities, got"
NO_NUMBERS = "expected a list of 1 numbers from the function"


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        *(([answer], NO_PROBABILITY) for answer in ([0.5, 0.5], [], [1.5], [-0.1], [math.inf])),
        ([[0.5], [math.nan]], r"got 1 numbers, 1 of them not in \[0, 1\]"),
        *(([answer], NO_NUMBERS) for answer in (None, 0.5, ["much"], [[0.1, 0.9]], [None])),
    ],
)
def test_confidence__refuses_other_answers_than_probabilities(answers, message):
    given = iter(answers)

    with pytest.raises(VocabularyError, match=message):
        Confidence(lambda rows, keys: next(given))(examples_of([row_of([1])]), lambda _: None)


def test_confidence__names_a_failing_callable_without_its_message():
    def p_true(rows, keys):
        raise RuntimeError("a secret of the row")

    with pytest.raises(
        VocabularyError, match="from the function, got RuntimeError; --debug"
    ) as told:
        Confidence(p_true)(examples_of([row_of([1])]), lambda _: None)

    assert "secret" not in str(told.value)


def test_confidence__a_callable_may_change_its_arguments():
    examples = examples_of([row_of([1, 2], key=3), row_of([1], key=4)])

    def padding(rows, keys):
        found = answers(rows, keys)
        for row in rows:
            row.extend([0] * 9)
        keys.clear()
        return found

    one, other = (Confidence(way)(examples, lambda _: None) for way in (padding, answers))

    assert np.array_equal(one, other)
