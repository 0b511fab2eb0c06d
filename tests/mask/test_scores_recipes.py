"""Difference-Masking, AttnMask and MST, Selective Masking, InforMask, keywords: distributions and
edge cases of options."""

from __future__ import annotations

import numpy as np
import pytest

import mslm_data as md
from mslm_data.data.ragged import Ragged
from mslm_data.lexicon.score_columns import write_scores
from mslm_data.mask.rate import Schedule
from mslm_data.mask.rng import RowRng
from tests.generate import IDS, Row, examples_of, row_of
from tests.kernels.fairness import is_fair, is_near
from tests.mask.artifacts import ABOUT, rates_lexicon, token_rate, word_score, words_lexicon
from tests.reference import fill
from tests.reference.scored import ranks

ROWS = 6000
LISTED = [id_ for id_ in range(5, 40) if word_score([id_])]
"""Ids that are words with a likeness above 0."""
UNLISTED = next(id_ for id_ in range(5, 40) if word_score([id_]) is None)


def sentence(words, *, key=0):
    """Return one row of words given by their ids, without special tokens."""
    numbers = [number for number, word in enumerate(words) for _ in word]
    return Row(key=key, ids=[id_ for word in words for id_ in word], word_ids=numbers)


def masked(name, examples, **options):
    """Return the masks of rows of equal length, bool `[N, L]`."""
    return md.strategy(name, **options).plan(examples).kinds.values.reshape(len(examples), -1) > 0


def column_of(folder, examples, scores):
    """Write a score column: one number per token, equal for all rows or per row."""
    rows = np.broadcast_to(
        np.asarray(scores, np.float32), (len(examples), len(examples.input_ids[0]))
    )
    path = folder / "train" / "data-00000-of-00001.arrow"
    write_scores(
        path, examples.keys, Ragged(rows.ravel().copy(), examples.input_ids.offsets), ABOUT
    )
    return str(folder)


def near(seen, chances):
    """Return whether the frequencies of columns are as expected."""
    return all(
        is_near(int(hits), len(seen), chance)
        for hits, chance in zip(seen.sum(axis=0), chances, strict=True)
    )


@pytest.mark.parametrize("transform", ["none", "swish", "rank"])
@pytest.mark.parametrize("alpha", [1.0, 0.3])
def test_difference__words_by_weight_without_replacement(transform, alpha):
    """Three of six words: exact probabilities from all orders of draws."""
    words = [[id_] for id_ in LISTED[:6]]
    likeness = [word_score(word) for word in words]
    own = {
        "none": likeness,
        "swish": [s / (1 + np.exp(-s)) for s in likeness],
        "rank": ranks(likeness),
    }[transform]
    weights = [alpha * weight + (1 - alpha) * sum(own) / 6 for weight in own]
    examples = examples_of(sentence(words, key=key) for key in range(ROWS))
    seen = masked(
        "difference",
        examples,
        lexicon=str(words_lexicon()),
        rate=0.5,
        transform=transform,
        alpha=alpha,
    )

    assert (seen.sum(axis=1) == 3).all()
    assert near(seen, fill.inclusion(weights, 3))


def test_difference__rate_is_of_words_and_exact_in_the_mean():
    """0.15 of 10 words is 1 or 2, for any number of tokens. Words are masked whole."""
    words = [
        [LISTED[n], LISTED[n]] if word_score([LISTED[n]] * 2) else [LISTED[n]] for n in range(10)
    ]
    examples = examples_of(sentence(words, key=key) for key in range(ROWS))
    seen = masked("difference", examples, lexicon=str(words_lexicon()))
    begins = np.cumsum([0] + [len(word) for word in words[:-1]])
    count = seen[:, begins].sum(axis=1)

    assert is_near(int((count == 2).sum()), ROWS, 0.5)
    assert set(count.tolist()) == {1, 2}
    assert all(
        (seen[:, b] == seen[:, b + len(word) - 1]).all()
        for b, word in zip(begins, words, strict=True)
    )


def test_difference__words_that_are_not_listed():
    """Their weight is 0; with `alpha` they get a share; in the released code they rank last."""
    words = [[LISTED[0]], [UNLISTED], [LISTED[1]], [IDS.unk]]
    examples = examples_of(sentence(words, key=key) for key in range(2000))
    lexicon = str(words_lexicon())

    assert masked("difference", examples, lexicon=lexicon, rate=1)[0].tolist() == [
        True,
        False,
        True,
        False,
    ]
    assert masked("difference", examples, lexicon=lexicon, rate=1, alpha=0.5)[0].tolist() == [
        True
    ] * 3 + [False]
    assert masked("difference-released", examples, lexicon=lexicon, rate=1).all()
    seen = masked("difference-released", examples, lexicon=lexicon, rate=0.25)
    weights = ranks([word_score(words[0]), -1.0, word_score(words[2]), -1.0])
    assert weights[1::2] == [2, 1]
    assert near(seen, [weight / 10 for weight in weights])


def test_difference_released__tokens_by_the_rank_of_their_word():
    """Words of 2, 1, 1 and 2 tokens: each token has its word's rank as weight, and int(0.5 * 6) are drawn."""
    pair = next([a, b] for a in LISTED for b in LISTED if word_score([a, b]))
    words = [pair, [LISTED[0]], [LISTED[1]], [UNLISTED, UNLISTED]]
    rank = ranks([word_score(pair), word_score(words[1]), word_score(words[2]), -1.0])
    weights = [rank[0], rank[0], rank[1], rank[2], rank[3], rank[3]]
    examples = examples_of(sentence(words, key=key) for key in range(ROWS))
    seen = masked("difference-released", examples, lexicon=str(words_lexicon()), rate=0.5)

    assert sorted(rank) == [1, 2, 3, 4]
    assert (seen.sum(axis=1) == 3).all()
    assert near(seen, fill.inclusion(weights, 3))
    assert (seen[:, 0] != seen[:, 1]).any()  # a word in part


def test_difference_released__number_is_rounded_down():
    examples = examples_of([row_of([1] * n, key=n, fill=LISTED[0]) for n in (6, 7, 13, 14, 20)])
    plan = md.strategy("difference-released", lexicon=str(words_lexicon())).plan(examples)

    assert (
        [sum(row) for row in plan.kinds.tolist()]
        == [int(0.15 * n) for n in (6, 7, 13, 14, 20)]
        == [0, 1, 1, 2, 3]
    )


def test_difference_released__no_alpha_is_uniform():
    examples = examples_of(sentence([[id_] for id_ in LISTED[:5]], key=key) for key in range(ROWS))
    seen = masked("difference-released", examples, lexicon=str(words_lexicon()), rate=0.4, alpha=0)
    pairs = [tuple(np.flatnonzero(row).tolist()) for row in seen]

    assert is_fair(pairs, [(a, b) for a in range(5) for b in range(a + 1, 5)])


def test_selective_task__just_what_is_flagged(tmp_path):
    examples = examples_of([row_of([1] * 4, key=key, fill=IDS.unk) for key in range(2)])
    scores = column_of(tmp_path, examples, [9, 0.1, 0, -1, 1e-9, 9])

    assert (
        masked("selective-task", examples, scores=scores).tolist()
        == [[False, True, False, False, True, False]] * 2
    )


@pytest.mark.parametrize(
    ("options", "places"),
    [
        ({}, [2]),  # int(0.15 * 10)
        ({"rate": 0.35}, [2, 5, 8]),
        ({"rate": 1}, [1, 2, 5, 8]),  # no more than are above 0
        ({"rate": 1, "max_masked": 2}, [2, 8]),
        ({"rate": 1, "max_masked": 0}, [1, 2, 5, 8]),
        ({"rate": 0.05}, [2]),  # one at least
    ],
)
def test_selective__highest_above_nought(options, places, tmp_path):
    examples = examples_of([row_of([1] * 10)])
    scores = column_of(tmp_path, examples, [99, 1, 5, -1, -2, 2, 0, -3, 4, -1, -1, 99])

    assert (
        np.flatnonzero(masked("selective", examples, scores=scores, **options)[0]).tolist()
        == places
    )


def patches(tmp_path, *, rows, n=196):
    """Return rows of n tokens between special tokens, their attention column, and the attention, `[N, n + 2]`."""
    examples = examples_of(row_of([1] * n, key=key) for key in range(rows))
    attention = np.random.default_rng(0).uniform(0.001, 1, (rows, n + 2)).astype(np.float32)
    attention[:, [0, -1]] = 9
    return examples, column_of(tmp_path, examples, attention), attention


def places_of(attention, *, top):
    """Return the rank of each token by attention, from 0 for the highest or lowest, without special tokens."""
    inner = attention[:, 1:-1]
    return np.argsort(np.argsort(-inner if top else inner, axis=1), axis=1)


@pytest.mark.parametrize(("name", "top"), [("attention-high", True), ("attention-low", False)])
def test_attention__58_of_196(name, top, tmp_path):
    """int(0.3 * 196) tokens with the highest or lowest attention."""
    examples, scores, attention = patches(tmp_path, rows=4)
    seen = masked(name, examples, scores=scores, rate=0.3, gate=1)

    assert (seen.sum(axis=1) == 58).all()
    assert (seen[:, 1:-1] == (places_of(attention, top=top) < 58)).all()
    assert not seen[:, [0, -1]].any()


@pytest.mark.parametrize("name", ["attention-high", "attention-low"])
def test_attention__fifteen_percent_in_the_mean(name, tmp_path):
    """Half of the rows are unchanged, the others mask int(r * 196) with r from U(0.1, 0.5)."""
    examples, scores, _ = patches(tmp_path, rows=1500)
    shares = masked(name, examples, scores=scores)[:, 1:-1].mean(axis=1)

    assert is_near(int((shares > 0).sum()), len(shares), 0.5)
    some = shares[shares > 0]
    assert int(0.1 * 196) / 196 <= some.min()
    assert some.max() < 0.5
    expected = 0.15 - 0.25 / 196  # for what is rounded down
    assert abs(shares.mean() - expected) < 4 * shares.std() / np.sqrt(len(shares))


def test_attention_hints__shows_some_of_the_very_highest(tmp_path):
    """int(0.1 * r * n) of the int(0.1 * n) highest tokens are unmasked, each equally likely."""
    examples, scores, attention = patches(tmp_path, rows=1500, n=40)
    high, hints = (
        masked(name, examples, scores=scores, gate=1)[:, 1:-1]
        for name in ("attention-high", "attention-hints")
    )
    shown, place = high & ~hints, places_of(attention, top=True)

    assert not (hints & ~high).any()
    rates = Schedule(shape="uniform", start=0.1, stop=0.5).at(
        RowRng(keys=examples.keys, seed=0, epoch=0, path=(0,))
    )
    assert (shown.sum(axis=1) == np.floor(0.1 * rates * 40)).all()
    assert set(shown.sum(axis=1).tolist()) == {0, 1}
    assert is_fair(place[shown].tolist(), range(4))


def test_attention_hints__none_in_short_rows(tmp_path):
    examples, scores, _ = patches(tmp_path, rows=50, n=19)
    high, hints = (
        masked(name, examples, scores=scores) for name in ("attention-high", "attention-hints")
    )

    assert high.any()
    assert (high == hints).all()


def test_attention_hints__all_may_be_shown(tmp_path):
    examples, scores, _ = patches(tmp_path, rows=20, n=30)
    seen = masked("attention-hints", examples, scores=scores, rate=1.0, show=1.0)

    assert not seen.any()


def test_mst__coins_among_the_lowest(tmp_path):
    examples, scores, attention = patches(tmp_path, rows=400, n=51)
    seen = masked("mst", examples, scores=scores)[:, 1:-1]
    low = places_of(attention, top=False) < 25  # int(0.5 * 51)

    assert not (seen & ~low).any()
    assert is_near(int(seen.sum()), 400 * 25, 1 / 8)
    assert is_near(int((seen.sum(axis=1) == 0).sum()), 400, 0.875**25)
    assert (
        masked("mst", examples, scores=scores, rate=1, share=0.2)[:, 1:-1].sum(axis=1) == 10
    ).all()
    assert not masked("mst", examples, scores=scores, share=0).any()


@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_informask__each_id_has_its_rate(rate):
    ids = [5, 10, 20, 30, 39, IDS.unk]
    examples = examples_of(sentence([[id_] for id_ in ids], key=key) for key in range(ROWS))
    seen = masked("informask", examples, lexicon=str(rates_lexicon()), rate=rate)

    assert near(seen, [rate * (token_rate(id_) or 0) for id_ in ids])


def test_keywords__listed_words_each_by_a_coin():
    words = [[LISTED[0]], [UNLISTED], [LISTED[1]]]
    examples = examples_of(sentence(words, key=key) for key in range(ROWS))
    lexicon = str(words_lexicon())

    assert masked("keywords", examples, lexicon=lexicon)[0].tolist() == [True, False, True]
    assert near(masked("keywords", examples, lexicon=lexicon, rate=0.3), [0.3, 0, 0.3])
