"""Rates that vary: schedules of Yang et al. 2023 (MRD) and Ankner et al. 2024, and rates that rows draw."""

from __future__ import annotations

import math

import numpy as np
import pytest

import mslm_data as md
from mslm_data.mask.draws import RATE, Draws
from mslm_data.mask.rate import Schedule, follows_step, rate_at
from tests.generate import examples_of, row_of
from tests.kernels.fairness import is_near
from tests.mask.artifacts import words_lexicon
from tests.reference import draws as twin

DYNAMIC = Schedule(shape="linear", start=0.3, stop=0.15, over=10)


def at(rate, *, epoch=0, step=None, keys=(1, 2, 3)):
    return rate_at(
        rate, Draws(keys=np.array(keys, np.uint64), seed=0, epoch=epoch, step=step, path=(0,))
    )


@pytest.mark.parametrize(
    ("epoch", "rate"),
    [(0, 0.3), (1, 0.285), (5, 0.225), (9, 0.165), (10, 0.15), (11, 0.15), (10**6, 0.15)],
)
def test_schedule__goes_straight_and_stays(epoch, rate):
    """Ankner et al. 2024: 0.30 to 0.15."""
    assert at(DYNAMIC, epoch=epoch) == rate


@pytest.mark.parametrize("t", range(12))
def test_schedule__schedules_of_mrd(t):
    """Yang et al. 2023, with p = 0.15 and T = 11: `2p(1 - t/T)`, and `p(1 + cos(pi t/T)) + 0.02`."""
    p, total = 0.15, 11
    linear = Schedule(shape="linear", start=2 * p, stop=0, over=total)
    cosine = Schedule(shape="cosine", start=2 * p + 0.02, stop=0.02, over=total)

    assert at(linear, epoch=t) == pytest.approx(2 * p * (1 - t / total), abs=5e-7)
    assert at(cosine, epoch=t) == pytest.approx(
        p * (1 + math.cos(math.pi * t / total)) + 0.02, abs=5e-7
    )


def test_schedule__rounded_to_six_decimals():
    """So that a cosine that differs in its last bit between machines gives the same counts."""
    rates = [at(Schedule(shape="cosine", start=0.31, stop=0.02, over=7), epoch=t) for t in range(8)]

    assert rates == [round(rate, 6) for rate in rates]
    assert rates == sorted(rates, reverse=True)
    assert (rates[0], rates[-1]) == (0.31, 0.02)


def test_schedule__may_rise():
    assert [at(Schedule(shape="linear", start=0, stop=1, over=4), epoch=t) for t in range(5)] == [
        0,
        0.25,
        0.5,
        0.75,
        1,
    ]


def test_schedule__by_the_step():
    rate = Schedule(shape="linear", start=0.3, stop=0.15, over=1000, per="step")

    assert [at(rate, step=step, epoch=7) for step in (0, 500, 1000, 2000)] == [
        0.3,
        0.225,
        0.15,
        0.15,
    ]
    with pytest.raises(
        ValueError, match=r"^step: expected one, as a rate follows it; pass plan\(…, step=…\)$"
    ):
        at(rate)


@pytest.mark.parametrize(
    ("rate", "follows"),
    [
        (0.3, False),
        (DYNAMIC, False),
        (Schedule(shape="cosine", start=0.3, stop=0, per="step"), True),
        (Schedule(shape="uniform", start=0.3, stop=0.4, per="step"), False),
    ],
)
def test_follows_step__schedules_by_the_step_only(rate, follows):
    assert follows_step(rate) == follows


def test_schedule__each_row_draws_its_own():
    keys = range(4000)
    rates = at(Schedule(shape="uniform", start=0.1, stop=0.5), epoch=3, keys=keys)
    tenths = np.bincount(((rates - 0.1) / 0.04).astype(int), minlength=10).tolist()

    expected = [
        0.1 + (0.5 - 0.1) * float(twin.uniform(twin.stream(key, 0, 3, RATE << 16), 0))
        for key in keys
    ]
    assert rates.tolist() == expected
    assert len(tenths) == 10
    assert all(is_near(count, len(rates), 0.1) for count in tenths)
    assert (
        at(Schedule(shape="uniform", start=0.1, stop=0.5), epoch=4, keys=keys).tolist() != expected
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": 1.5, "stop": 0}, r"^start: expected a rate in \[0, 1\], got 1\.5$"),
        ({"start": 0, "stop": -0.1}, r"^stop: expected a rate in \[0, 1\], got -0\.1$"),
        ({"start": 0, "stop": 1, "over": 0}, r"^over: expected 1 or more, got 0$"),
    ],
)
def test_schedule__refuses(options, message):
    with pytest.raises(ValueError, match=message):
        Schedule(shape="linear", **options)


def hidden(strategy, **when):
    examples = examples_of([row_of([1] * 100, key=key, fill=5 + key) for key in range(3)])
    return np.count_nonzero(strategy.plan(examples, **when).kinds.values)


def test_plan__a_strategys_rate_follows_the_epoch():
    made = md.strategy("difference-released", lexicon=str(words_lexicon()), rate=DYNAMIC)

    assert [hidden(made, epoch=epoch) for epoch in (0, 1, 10, 11)] == [90, 84, 45, 45]
    assert not made.follows_step


def test_plan__a_strategys_rate_follows_the_step():
    """As a table, as pipeline files have it; and the epoch does not matter to the rate."""
    table = {"shape": "linear", "start": 0.3, "stop": 0.0, "over": 4, "per": "step"}
    made = md.strategy("difference-released", lexicon=str(words_lexicon()), rate=table)

    assert [hidden(made, step=step, epoch=9) for step in (0, 1, 2, 4, 5)] == [90, 66, 45, 0, 0]
    assert made.follows_step
    with pytest.raises(ValueError, match=r"^step: expected one"):
        hidden(made)
    with pytest.raises(ValueError, match=r"^step: expected an integer in \[0, 2\*\*63\), got -1$"):
        hidden(made, step=-1)
