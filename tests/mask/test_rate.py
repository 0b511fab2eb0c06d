"""Schedules of Yang et al. 2023 (MRD) and Ankner et al. 2024, and rates drawn for each row."""

from __future__ import annotations

import math

import numpy as np
import pytest

import mslm_data as md
from mslm_data.mask.rate import Cosine, Linear, Phases, Uniform, highest_rate, rate_at
from mslm_data.mask.rng import RATE, RowRng
from tests.generate import examples_of, row_of
from tests.kernels.fairness import is_near
from tests.reference import rng as twin

DYNAMIC = Linear(start=0.3, stop=0.15, over=10)


def at(rate, *, epoch=0, keys=(1, 2, 3), **training):
    return rate_at(
        rate, RowRng(keys=np.array(keys, np.uint64), seed=0, epoch=epoch, path=(0,), **training)
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
    linear = Linear(start=2 * p, stop=0, over=total)
    cosine = Cosine(start=2 * p + 0.02, stop=0.02, over=total)

    assert at(linear, epoch=t) == pytest.approx(2 * p * (1 - t / total), abs=5e-7)
    assert at(cosine, epoch=t) == pytest.approx(
        p * (1 + math.cos(math.pi * t / total)) + 0.02, abs=5e-7
    )


def test_schedule__rounded_to_six_decimals():
    """A cosine that differs in its last bit between machines gives equal counts."""
    rates = [at(Cosine(start=0.31, stop=0.02, over=7), epoch=t) for t in range(8)]

    assert rates == [round(rate, 6) for rate in rates]
    assert rates == sorted(rates, reverse=True)
    assert (rates[0], rates[-1]) == (0.31, 0.02)


def test_schedule__may_rise():
    assert [at(Linear(start=0, stop=1, over=4), epoch=t) for t in range(5)] == [
        0,
        0.25,
        0.5,
        0.75,
        1,
    ]


def test_schedule__by_the_step():
    rate = Linear(start=0.3, stop=0.15, over=1000, per="step")

    assert [at(rate, step=step, epoch=7) for step in (0, 500, 1000, 2000)] == [
        0.3,
        0.225,
        0.15,
        0.15,
    ]
    with pytest.raises(ValueError, match=r"^step: the masks depend on it; pass plan\(…, step=…\)$"):
        at(rate, tokens=5)


def test_schedule__by_the_tokens():
    rate = Linear(start=0.3, stop=0.15, over=1_000_000_000, per="tokens")

    at_tokens = [at(rate, tokens=n * 10**8, step=7, epoch=7) for n in (0, 4, 10, 11)]
    assert at_tokens == [0.3, 0.24, 0.15, 0.15]
    with pytest.raises(
        ValueError,
        match=r"^tokens: the masks depend on it; pass plan\(…, tokens=…\)$",
    ):
        at(rate, step=5)


def test_schedule__phases_keep_their_rate_until_the_next_begins():
    """mmBERT: 30, 15 and 5 %."""
    phases = ((0, 0.3), (2300, 0.15), (2900, 0.05))

    for per in ("epoch", "step", "tokens"):
        rate = Phases(phases=phases, per=per)
        rates = [at(rate, **{per: now}) for now in (0, 2299, 2300, 2899, 2900, 10**15)]
        assert rates == [0.3, 0.3, 0.15, 0.15, 0.05, 0.05]


def test_highest__is_the_top_of_any_shape():
    """ELECTRA's limit on draws is computed from it."""
    phases = Phases(phases=((0, 0.1), (3, 0.4), (5, 0.2)))

    assert highest_rate(phases) == 0.4
    assert highest_rate(DYNAMIC) == highest_rate(Uniform(start=0.1, stop=0.3)) == 0.3
    assert highest_rate(1) == 1


@pytest.mark.parametrize(
    ("rate", "follows"),
    [
        (DYNAMIC, False),
        (Cosine(start=0.3, stop=0, per="step"), True),
        (Cosine(start=0.3, stop=0, per="tokens"), True),
        (Phases(phases=((0, 0.3),)), False),
        (Phases(phases=((0, 0.3),), per="tokens"), True),
        (Uniform(start=0.3, stop=0.4), False),
    ],
)
def test_follows_training__schedules_by_steps_and_tokens_only(rate, follows):
    assert rate.follows_training == follows
    assert md.strategy("token", rate=rate).follows_training == follows


def test_schedule__each_row_draws_its_own():
    keys = range(4000)
    rates = at(Uniform(start=0.1, stop=0.5), epoch=3, keys=keys)
    tenths = np.bincount(((rates - 0.1) / 0.04).astype(int), minlength=10).tolist()

    expected = [
        0.1 + (0.5 - 0.1) * float(twin.uniform(twin.stream(key, 0, 3, RATE << 16), 0))
        for key in keys
    ]
    assert rates.tolist() == expected
    assert len(tenths) == 10
    assert all(is_near(count, len(rates), 0.1) for count in tenths)
    assert at(Uniform(start=0.1, stop=0.5), epoch=4, keys=keys).tolist() != expected


def test_plan__a_strategys_rate_follows_the_tokens(tmp_path):
    """From a file, as printed, from Python, and in a mixture."""
    file = tmp_path / "falling.toml"
    phases = "[[0, 0.3], [2_000_000_000, 0.15], [3_000_000_000, 0.05]]"
    rate = f'{{ shape = "phases", phases = {phases}, per = "tokens" }}'
    file.write_text(f'[mask]\nuse = "token"\nrate = {rate}\n')
    table = {"shape": "phases", "phases": [[0, 0.3], [2 * 10**9, 0.15], [3 * 10**9, 0.05]]}
    made = md.strategy("token", rate=table | {"per": "tokens"})
    printed = tmp_path / "printed.toml"
    printed.write_text(repr(made))
    examples = examples_of([row_of([1] * 10_000, key=7)])

    plans = [made.plan(examples, tokens=tokens) for tokens in (0, 2 * 10**9 - 1, 2 * 10**9, 10**12)]

    shares = [sum(plan.counts()) / 10_000 for plan in plans]
    assert shares == pytest.approx([0.3, 0.3, 0.15, 0.05], abs=0.02)
    mixture = md.strategy("mixture", parts=[made], chances=[1.0])
    for again in (md.strategy(str(file)), md.strategy(str(printed)), mixture):
        assert again.follows_training
        assert again.plan(examples, tokens=2 * 10**9).kinds.tolist() == plans[2].kinds.tolist()
    with pytest.raises(ValueError, match=r"^tokens: the masks depend on it"):
        made.plan(examples, step=3)
    with pytest.raises(ValueError, match=r"^tokens: expected 0 or more, got -1$"):
        made.plan(examples, tokens=-1)
