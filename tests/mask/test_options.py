"""Laws of the options of all registered strategies, found by their types.

A new option with a number needs no test of its range, and a new rate none of its schedules.
"""

from __future__ import annotations

import math

import pytest

import mslm_data as md
from mslm_data.mask.rate import Linear
from mslm_data.mask.table import STRATEGIES
from mslm_data.registry import list_options
from tests.generate import fixed_examples
from tests.mask.contract import made, types_of


def options_with(*kinds: object) -> list[tuple[str, str]]:
    """Return the strategies and the names of their options that accept all these types."""
    return [
        (name, option.name)
        for name in STRATEGIES.names()
        for option in list_options(STRATEGIES.load(name))
        if types_of(option) >= set(kinds)
    ]


def test_strategy__refuses_numbers_out_of_range():
    """Shares are in `[0, 1]`, limits are 0 or more."""
    wrong = [
        *((*pair, number) for pair in options_with(float) for number in (-0.1, 1.5, math.nan)),
        *((*pair, -1) for pair in options_with(int)),
    ]

    assert len(wrong) > 100
    for name, option, number in wrong:
        with pytest.raises(
            ValueError, match=rf"^strategy '{name}': expected .* for option '{option}'$"
        ):
            md.strategy(name, **{option: number})


@pytest.mark.parametrize(("name", "option"), options_with(float, Linear))
def test_strategy__takes_schedules_for_its_rates(name, option):
    """At each step, the masks are those of the schedule's number at that step."""
    examples = fixed_examples()
    falling = {"shape": "linear", "start": 0.4, "stop": 0.2, "over": 2, "per": "step"}
    # The limit on ELECTRA's draws is that of the highest rate, so it must not take effect here.
    more = {"max_tokens": 100} if name == "electra.v1" else {}
    strategy = made((name, more), examples, **{option: falling})

    assert strategy.follows_training
    for step, rate in ((0, 0.4), (2, 0.2), (9, 0.2)):
        constant = made((name, more), examples, **{option: rate})
        plan = strategy.plan(examples, epoch=1, step=step)
        assert plan.kinds.tolist() == constant.plan(examples, epoch=1).kinds.tolist()
