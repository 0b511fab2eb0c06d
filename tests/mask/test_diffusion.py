"""The rates of masked diffusion: pure, uniform, evenly spread over epochs, and equal in
complements."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mslm_data as md
from mslm_data.mask.plan import MaskKind, MaskPlan
from tests.generate import examples_of, fixed_examples, random_examples, row_of, rows_of
from tests.reference import diffusion as twin
from tests.support.properties import fewer

OPTIONS = st.fixed_dictionaries(
    {
        "units": st.sampled_from(["tokens", "words", "mentions"]),
        "low": st.sampled_from([0.001, 0.2]),
        "high": st.sampled_from([0.5, 1.0]),
        "complement": st.booleans(),
        "sampling": st.sampled_from(["kronecker", "uniform"]),
    }
)
COUNTS = st.integers(0, 2**63 - 1)


@fewer(1)
@given(OPTIONS, random_examples(), COUNTS, COUNTS)
def test_plan__equals_twin_with_any_options(options, examples, seed, epoch):
    plan = md.strategy("diffusion", **options).plan(examples, seed=seed, epoch=epoch)

    rows = rows_of(examples)
    assert plan.kinds.tolist() == [
        twin.diffusion(row, seed=seed, epoch=epoch, **options) for row in rows
    ]
    rates = [twin.rate(row, seed=seed, epoch=epoch, **options) for row in rows]
    is_second = options["complement"] and epoch % 2 == 1
    expected = [1 - rate if is_second else rate for rate in rates]
    np.testing.assert_allclose(plan.rates, expected, rtol=0, atol=1e-7)


def test_plan__rates_of_a_row_cover_the_interval_evenly_over_epochs():
    examples = fixed_examples(20)
    strategy = md.strategy("diffusion", low=0.2, high=0.6)
    rates = np.stack([strategy.plan(examples, epoch=epoch).rates for epoch in range(13)])

    # The three-gap theorem: of 13 points, a Fibonacci number, gaps on the circle have two sizes.
    places = np.sort((rates - 0.2) / 0.4, axis=0)
    gaps = np.diff(places, axis=0, append=places[:1] + 1)
    assert places.min() >= 0
    assert places.max() <= 1
    assert gaps.min() > 0.05
    assert gaps.max() < 0.12


@pytest.mark.parametrize("sampling", ["kronecker", "uniform"])
@pytest.mark.parametrize("units", ["tokens", "words", "mentions"])
def test_plan__each_unit_is_hidden_with_its_rows_rate(units, sampling):
    examples = examples_of(
        [row_of([1, 2, 1, 1], [(1, 2)], key=key) for key in range(20_000)],
    )
    plan = md.strategy("diffusion", units=units, sampling=sampling).plan(examples, seed=1)
    masked = (plan.kinds.values > 0).reshape(len(examples), -1)[:, 1:-1]
    rates = plan.rates.astype(np.float64)

    # For each tenth of the rate: masked minus expected, in standard deviations.
    tenth = (rates * 10).astype(int).clip(0, 9)
    for column in masked.T:
        by_tenth = np.bincount(tenth, column - rates, 10)
        deviations = np.sqrt(np.bincount(tenth, rates * (1 - rates), 10))
        assert np.abs(by_tenth / deviations).max() < 4.5
    whole = {"tokens": False, "words": True, "mentions": True}[units]
    assert (masked[:, 1] == masked[:, 2]).all() == whole


@given(random_examples(), COUNTS, st.integers(0, 2**62 - 1))
@fewer(0.3)
def test_plan__complement_hides_what_was_shown_at_one_less_the_rate(examples, seed, pair):
    strategy = md.strategy("diffusion", units="words", complement=True)
    first = strategy.plan(examples, seed=seed, epoch=2 * pair)
    second = strategy.plan(examples, seed=seed, epoch=2 * pair + 1)

    real = examples.word_ids.values >= 0
    masked = (first.kinds.values > 0).astype(int) + (second.kinds.values > 0)
    assert (masked == real).all()
    np.testing.assert_allclose(first.rates + second.rates, 1, atol=1e-6)
    assert second.rates.min(initial=1) > 0.0009


def test_plan__kinds_and_rates_stand_in_mixtures_and_curricula():
    examples = fixed_examples()
    terms = {"use": "diffusion", "units": "mentions"}
    alone = md.strategy("diffusion", units="mentions").plan(examples, epoch=1)
    mixture = md.strategy("mixture", chances=[0.5, 0.5], parts=[terms, {"use": "joint"}])
    curriculum = md.strategy("curriculum", epochs=[1], parts=[{"use": "joint"}, terms])

    plan = mixture.plan(examples, epoch=1)
    assert set(plan.rates[plan.rates != alone.rates].tolist()) == {1.0}
    assert (plan.rates == alone.rates).any()
    assert curriculum.plan(examples, epoch=0).rates is None
    assert (curriculum.plan(examples, epoch=1).rates == alone.rates).all()
    assert MaskKind.ENTITY in alone.kinds.values


def test_plan__other_strategies_have_no_rates():
    assert md.strategy("joint").plan(fixed_examples()).rates is None


def test_mask_plan__takes_rates_of_a_strategy_of_ones_own():
    examples = fixed_examples(3)
    kinds = np.zeros(len(examples.input_ids.values), int)

    assert MaskPlan.from_kinds(examples, kinds, rates=np.full(3, 0.5)).rates.dtype == np.float32
    with pytest.raises(ValueError, match="rates: expected one for each of 3 rows"):
        MaskPlan.from_kinds(examples, kinds, rates=np.full(2, 0.5))
