"""What strategies refuse: a wrong option, and where it is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import mslm_data as md
from mslm_data.mask.budget import Budget
from mslm_data.mask.pick import Pick
from mslm_data.mask.plan import MaskKind, MaskPlan
from mslm_data.mask.strategy import Recipe
from tests.generate import fixed_examples

WORDS = {"units": "words", "budget": {"rate": 1}}
LINEAR = {"shape": "linear", "start": 0, "stop": 1}
PHASES = {"shape": "phases", "phases": [[0, 0.3], [9, 0.1]]}

PICKS: list[tuple[Any, str]] = [
    # names
    (WORDS | {"unts": "words"}, ", picks[0]: unknown option 'unts'; did you mean 'units'?"),
    ({"units": "words"}, ", picks[0]: expected the option 'budget', got none"),
    (
        {"use": "place-spans", "rate": 0.1, "shortest": 1, "longest": 3, "units": "words"},
        ", picks[0]: unknown option 'units' for this 'use'",
    ),
    (
        {"use": "place-span"},
        ": invalid value for option 'picks[0].use'; did you mean 'place-spans'?",
    ),
    (
        {"units": "words", "budget": {"rate": LINEAR | {"ovr": 3}}},
        ", picks[0].budget.rate: unknown option 'ovr'; did you mean 'over'?",
    ),
    (
        WORDS | {"order": {"by": "bernoulli", "score": {"lexicon": "x", "transfrm": "flag"}}},
        ", picks[0].order.score: unknown option 'transfrm'; did you mean 'transform'?",
    ),
    ("words", ": expected `object`, got `str` for option 'picks[0]'"),
    # values
    (
        WORDS | {"units": "wrds"},
        ": invalid value for option 'picks[0].units'; did you mean 'words'?",
    ),
    (
        {"units": "words", "budget": {"rate": 3}},
        ": expected `float` <= 1.0 for option 'picks[0].budget.rate'",
    ),
    # relations
    (
        WORDS | {"order": {"by": "weighted"}},
        ": order: expected a score for 'weighted', got none for option 'picks[0].order'",
    ),
    (
        WORDS | {"order": {"score": {"lexicon": "x"}}},
        ": order: expected 'weighted', 'highest', 'lowest' or 'bernoulli' with a score, got "
        "'uniform' for option 'picks[0].order'",
    ),
    (
        {"units": "words", "budget": {"rate": 1, "total": True}},
        ": budget: 'total' needs counts = 'tokens', got 'units' for option 'picks[0]'",
    ),
    (
        {
            "units": "words",
            "budget": {"rate": 1, "counts": "tokens"},
            "order": {"by": "with_replacement"},
        },
        ": budget: order 'with_replacement' needs counts = 'units', got 'tokens' for option "
        "'picks[0]'",
    ),
    (
        {"units": "tokens", "budget": {"rate": 1}, "eligible": {"longest": 2}},
        ": eligible: 'longest' needs units of several tokens, got 'tokens' for option 'picks[0]'",
    ),
    (
        WORDS | {"order": {"hints": 0.5}},
        ": order: expected 'highest', 'lowest' or 'first' with hints, got 'uniform' for option "
        "'picks[0].order'",
    ),
    (
        {"use": "place-spans", "rate": 0.1, "shortest": 3, "longest": 2},
        ": shortest, longest: expected shortest <= longest, got 3, 2 for option 'picks[0]'",
    ),
]


@pytest.mark.parametrize(("pick", "message"), PICKS)
def test_strategy__refuses_a_pick(pick: Any, message: str) -> None:
    with pytest.raises(ValueError) as refused:
        md.strategy("picks", picks=[pick])

    assert str(refused.value) == f"strategy 'picks'{message}"


SCHEDULES: list[tuple[dict[str, Any], str]] = [
    (LINEAR | {"start": 1.5}, "expected `float` <= 1.0 for option 'rate.start'"),
    (LINEAR | {"per": "token"}, "invalid value for option 'rate.per'; did you mean 'tokens'?"),
    (LINEAR | {"shape": "phase"}, "invalid value for option 'rate.shape'; did you mean 'phases'?"),
    (PHASES | {"phases": [[0, 15]]}, "expected `float` <= 1.0 for option 'rate.phases[0][1]'"),
    (
        {"shape": "linear", "start": 0},
        ", rate: expected the option 'stop', got none",
    ),
    (
        LINEAR | {"phases": [[0, 0.3]]},
        ", rate: unknown option 'phases' for this 'shape'",
    ),
    (PHASES | {"start": 0.3}, ", rate: unknown option 'start' for this 'shape'"),
    ({"shape": "phases"}, ", rate: expected the option 'phases', got none"),
    (
        PHASES | {"phases": [[5, 0.3], [9, 0.1]]},
        "phases: expected beginnings increasing from 0, got [5, 9] for option 'rate'",
    ),
    (
        PHASES | {"phases": [[0, 0.3], [9, 0.1], [9, 0.2]]},
        "phases: expected beginnings increasing from 0, got [0, 9, 9] for option 'rate'",
    ),
]


@pytest.mark.parametrize(("rate", "message"), SCHEDULES)
def test_strategy__refuses_a_schedule(rate: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as refused:
        md.strategy("token", rate=rate)

    colon = "" if message.startswith(",") else ": "
    assert str(refused.value).startswith(f"strategy 'token'{colon}{message}")


OPTIONS: list[tuple[str, dict[str, Any], str]] = [
    ("joint", {"elmo": 1}, "unknown option 'elmo'; did you mean 'elm'?"),
    ("joint", {"elm": "all"}, "expected `float | object`, got `str` for option 'elm'"),
    ("joint", {"count": "some"}, "invalid value for option 'count'; known: bernoulli, fixed"),
    ("diffusion", {"low": 0.6, "high": 0.5}, "low, high: expected low < high, got 0.6 and 0.5"),
    ("diffusion", {"low": 0.5, "complement": True}, "low: expected less than 0.5 with complement"),
    ("span", {"shortest": 3, "longest": 2}, "shortest, longest: expected shortest <= longest"),
    ("spanbert", {"chance": 1.0}, "expected `float` < 1.0 for option 'chance'"),
    ("picks", {"picks": []}, "picks: expected one or more, got none"),
    ("picks", {"picks": [], "corupt": 1}, "unknown option 'corupt'; did you mean 'corruption'?"),
    (
        "picks",
        {"picks": [WORDS], "corruption": 3},
        "expected `object`, got `int` for option 'corruption'",
    ),
    (
        "picks",
        {"picks": [WORDS], "corruption": "80-10"},
        "corruption: expected 'mask', 'sentinels' or the percentages of [MASK]",
    ),
]


@pytest.mark.parametrize(("name", "options", "message"), OPTIONS)
def test_strategy__refuses_options(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as refused:
        md.strategy(name, **options)

    assert str(refused.value).startswith(f"strategy '{name}': {message}")


def test_recipe__checks_picks_that_were_made_by_calls() -> None:
    for rate in (1.5, -0.1, math.nan, "x"):
        with pytest.raises(ValueError, match=r"^picks: Expected .* - at `\$\[0\]\.budget\.rate`$"):
            Recipe((Pick("words", Budget(rate)),))  # type: ignore[arg-type]


def test_mask_plan__requires_a_kind_for_each_token() -> None:
    rows = fixed_examples()
    kinds = (rows.word_ids.values >= 0) * MaskKind.BASE

    assert MaskPlan.from_kinds(rows, kinds).counts() == (0, kinds.sum())
    for wrong, message in (
        (kinds[1:], "expected one for each of"),
        (kinds * 0.5, "expected integers, got an array of float64"),
        (kinds * 7, "got numbers from 0 to 7"),
        (-kinds, "got numbers from -1 to 0"),
        (np.full_like(kinds, MaskKind.BASE), "expected MaskKind.NONE on special tokens"),
    ):
        with pytest.raises(ValueError, match=message):
            MaskPlan.from_kinds(rows, wrong)
