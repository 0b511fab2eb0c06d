from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from itertools import combinations
from math import ceil, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mslm_data as md
from mslm_data.data.ragged import Ragged
from mslm_data.encode.tokenizer import load_tokenizer
from mslm_data.lexicon.store import Lexicon, write_lexicon
from mslm_data.mask.plan import MaskKind
from tests import made
from tests.encode.test_real import documents_in
from tests.generate import IDS, examples_of, random_examples, row_of, rows_of
from tests.kernels.fairness import is_fair
from tests.mask.artifacts import ABOUT
from tests.reference import spans as twins

RATES = st.sampled_from([0.0, 0.07, 0.15, 0.225, 0.5, 1.0])
SEEDS = st.integers(0, 2**63 - 1)


def rows_like(words, count, mentions=()):
    return examples_of([row_of(words, mentions, key=key) for key in range(count)])


def kinds_of(name, examples, **options):
    plan = md.strategy(name, **options).plan(examples)
    return plan.kinds.values.reshape(len(examples), -1)


def subsets(kinds):
    return [tuple(np.flatnonzero(row).tolist()) for row in kinds]


# SPAN ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "rate", "masked"),
    [(10, 0.15, 2), (28, 0.15, 5), (50, 0.14, 7), (9, 0, 0), (1, 0.2, 1)],
)
def test_span__budget(tokens, rate, masked):
    examples = rows_like([1] * tokens, 50)
    plan = md.strategy("span", rate=rate).plan(examples)

    assert (plan.kinds.values.reshape(50, -1) > 0).sum(1).tolist() == [masked] * 50
    assert not plan.unspent.any()


@given(random_examples(), RATES, SEEDS)
def test_span__what_is_owed_is_what_is_missing(examples, rate, seed):
    plan = md.strategy("span", rate=rate).plan(examples, seed=seed)

    for row, kinds, unspent in zip(
        rows_of(examples), plan.kinds.tolist(), plan.unspent, strict=True
    ):
        assert sum(kind > 0 for kind in kinds) + unspent == ceil(
            Fraction(str(rate)) * len(twins.real(row))
        )


@pytest.mark.parametrize("rate", [0.075, 0.15, 0.225])
def test_span__spends_its_budget_at_usual_rates(rate):
    sizes = [1 + key % 60 for key in range(3000)]
    examples = examples_of([row_of([1] * size, key=key) for key, size in enumerate(sizes)])

    assert not md.strategy("span", rate=rate).plan(examples).unspent.any()


def test_span__may_not_reach_its_budget_at_high_rates():
    assert md.strategy("span", rate=0.75).plan(rows_like([1] * 28, 500)).unspent.any()


def test_span__mean_length_at_28_tokens():
    """A budget of 5 cuts many spans; the authors' code gives the same mean."""
    lengths = [
        len(span) for key in range(2500) for span in twins.paper_spans(row_of([1] * 28, key=key))
    ]

    assert abs(sum(lengths) / len(lengths) - 2.31) < 0.04


def test_span__of_real_sentences(real):
    """The budget is spent in every row at 0.225 and below; about a sixth of the spans have one token at 0.15."""
    tokenizer = load_tokenizer(str(real / "tokenizers" / "bert-base-uncased__BlueBERT.vocab.txt"))
    documents = documents_in(real / "blurb" / "NCBI-disease-IOB" / "devel.tsv")
    examples, _ = made.encoded(made.encoder(tokenizer, ["Disease"]), documents)
    lengths = [
        len(span) for row in rows_of(examples)[::2] for span in twins.paper_spans(row, rate=0.15)
    ]

    assert 0.15 < lengths.count(1) / len(lengths) < 0.19
    for rate in (0.075, 0.15, 0.225):
        assert not md.strategy("span", rate=rate).plan(examples).unspent.any()


@pytest.mark.parametrize("name", ["span", "spanbert"])
def test_span__of_single_tokens_are_any_subset(name):
    """Starts are shuffled, so spans of one token prefer no position."""
    lengths = {"shortest": 1, "longest": 1} if name == "span" else {"longest": 1}
    kinds = kinds_of(name, rows_like([1] * 6, 4000), rate=0.5, **lengths)

    assert is_fair(subsets(kinds), combinations(range(1, 7), 3))


def test_span__every_token_is_as_likely_a_beginning():
    """One span of four tokens per row: eleven starts, of which the last three are cut and filled up elsewhere."""
    kinds = kinds_of("span", rows_like([1] * 11, 5500), rate=0.3, shortest=4, longest=4)
    whole = [
        subset[0] - 1
        for subset in subsets(kinds)
        if subset[-1] - subset[0] == 3 and subset[-1] < 11
    ]

    assert is_fair(whole, range(7))


def test_span__is_cut_at_the_rows_end():
    kinds = kinds_of("span", rows_like([1] * 3, 200), rate=1.0, shortest=3, longest=3)

    assert Counter(tuple(row.tolist()) for row in kinds).keys() <= {
        (0, 1, 1, 1, 0),
        (0, 0, 1, 1, 0),
        (0, 0, 0, 1, 0),
    }


def test_span__never_masks_unk():
    examples = examples_of([row_of([1] * 8, fill=IDS.unk), row_of([1] * 8, key=1)])

    assert md.strategy("span", rate=1.0).plan(examples).kinds[0].sum() == 0
    assert md.strategy("span", rate=1.0).plan(examples).kinds[1].sum() > 0


# SpanBERT ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["spanbert", "spanbert-ner"])
@given(examples=random_examples(), rate=RATES, seed=SEEDS)
def test_spanbert__spends_its_budget_to_the_token_and_cuts_one_word_at_most(
    name, examples, rate, seed
):
    plan = md.strategy(name, rate=rate).plan(examples, seed=seed)

    assert not plan.unspent.any()
    for row, kinds in zip(rows_of(examples), plan.kinds.tolist(), strict=True):
        assert sum(kind > 0 for kind in kinds) == ceil(Fraction(str(rate)) * len(twins.real(row)))
        words = {row.word_ids[t]: set() for t in twins.real(row)}
        for t in twins.real(row):
            words[row.word_ids[t]].add(kinds[t] > 0)
        assert sum(len(actions) == 2 for actions in words.values()) <= 1


def simulated(words, rate, rng):
    """SpanBERT's loop over sets, with its own random numbers."""
    word_of = [number for number, size in enumerate(words) for _ in range(size)]
    due, masked = ceil(rate * len(word_of)), set()
    while len(masked) < due:
        length = rng.choices(range(1, 11), [0.8**k for k in range(10)])[0]
        anchor = rng.randrange(len(word_of))
        if anchor in masked:
            continue
        for t in range(len(word_of)):
            if word_of[anchor] <= word_of[t] < word_of[anchor] + length and len(masked) < due:
                masked.add(t)
    return masked


def test_spanbert__inclusion_is_that_of_a_plain_simulation():
    words, rows = [1, 3, 1, 2, 1, 1, 4, 1, 2, 1, 1, 1, 2, 1], 6000
    kinds = kinds_of("spanbert", rows_like(words, rows), rate=0.3)[:, 1:-1]
    rng = random.Random(11)
    counts = Counter(t for _ in range(rows) for t in simulated(words, 0.3, rng))

    found, expected = (kinds > 0).mean(0), np.array([counts[t] / rows for t in range(sum(words))])
    assert (abs(found - expected) < 4.5 * np.sqrt(2 * expected * (1 - expected) / rows)).all()


def test_spanbert__random_ids_are_as_frequent_as_in_the_corpus(tmp_path):
    path = tmp_path / "unigrams.arrow"
    zeros = Ragged.from_rows([[0], [0]], np.int32)
    lexicon = Lexicon(
        tokens=Ragged.from_rows([[20], [21]], np.int32),
        word_starts=zeros,
        scores=np.array([3.0, 1.0]),
        about=ABOUT,
    )
    write_lexicon(path, lexicon)
    examples = rows_like([1] * 20, 2000)
    made = md.strategy("spanbert", corruption="0-100-0", unigrams=str(path))
    plan = made.plan(examples)
    drawn = made.corrupt(examples, plan).values[plan.kinds.values > 0]

    assert set(drawn.tolist()) == {20, 21}
    assert abs((drawn == 20).mean() - 0.75) < 4 * sqrt(0.75 * 0.25 / len(drawn))


def test_spanbert_ner__is_spanbert_where_there_is_no_mention():
    examples = rows_like([1, 2, 3] * 5, 50)

    assert (kinds_of("spanbert-ner", examples) == kinds_of("spanbert", examples)).all()


def test_spanbert_ner__tosses_a_fair_coin():
    """A mention as long as the budget is masked whole, or after a span."""
    kinds = kinds_of("spanbert-ner", rows_like([1] * 20, 4000, [(5, 8)]))
    whole = (kinds[:, 6:9] == MaskKind.ENTITY).all(1).mean()

    assert abs(whole - 0.5) < 4 * sqrt(0.25 / 4000)


def test_spanbert_ner__cuts_a_mention_to_the_budget():
    kinds = kinds_of("spanbert-ner", rows_like([1] * 20, 400, [(0, 20)]))
    entity = [subset for subset in subsets(kinds == MaskKind.ENTITY) if len(subset) == 3]

    assert set(entity) == {(1, 2, 3)}
    assert 100 < len(entity) < 300


def test_spanbert_ner__any_mention_is_as_likely():
    examples = rows_like([1] * 20, 4000, [(0, 3), (3, 6), (10, 13)])
    first = [
        row.tolist().index(2) for row in kinds_of("spanbert-ner", examples) if (row == 2).sum() == 3
    ]

    assert is_fair(first, [1, 4, 11])
