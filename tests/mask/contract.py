"""Inputs of the tests of the laws: all registered strategies, and random recipes.

`OPTIONS` has options for each registered strategy that mask something in the rows of
`tests/generate.py`. `COLUMN` stands for a score column of these rows, which `made` writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from hypothesis import strategies as st

from mslm_data.data.examples import Examples
from mslm_data.mask.corruption import Corruption
from mslm_data.mask.strategy import Recipe, Strategy
from mslm_data.mask.table import STRATEGIES, strategy
from mslm_data.registry import Option, list_options
from tests.mask.artifacts import (
    column_for,
    concepts_lexicon,
    grams_lexicon,
    rates_lexicon,
    words_lexicon,
)

COLUMN = "a score column of the rows at hand"

OPTIONS: dict[str, dict[str, Any]] = {
    "joint.v1": {"elm": 0.5, "blm": 0.3},
    "joint-paper.v1": {},
    "elm.v1": {"elm": 0.5},
    "blm.v1": {"blm": 0.3},
    "joint-released.v1": {"elm": 0.5, "blm": 0.3},
    "bert.v1": {"rate": 0.3, "max_masked": 5},
    "token.v1": {"rate": 0.3},
    "dga.v1": {"rate": 0.3},
    "roberta.v1": {"rate": 0.3},
    "wettig.v1": {},
    "modernbert.v1": {},
    "electra.v1": {"rate": 0.3, "max_tokens": 20},
    "unmasked.v1": {},
    "whole-word.v1": {"rate": 0.3, "max_masked": 5},
    "whole-word-hf.v1": {"rate": 0.3},
    "whole-word-roberta.v1": {"rate": 0.3},
    "random-word.v1": {"rate": 0.3},
    "pmi.v1": {"lexicon": str(grams_lexicon()), "rate": 0.4},
    "pmi-levine.v1": {"lexicon": str(grams_lexicon()), "rate": 0.4},
    "ernie.v1": {"lexicon": str(grams_lexicon()), "rate": 0.4, "tokens": 0.3},
    "entitybert.v1": {"words": 0.3},
    "entitybert-difference.v1": {"rate": 0.3},
    "salient.v1": {"longest": 5},
    "lim.v1": {"chance": 0.6, "rate": 0.3, "scores": COLUMN},
    "difference.v1": {
        "lexicon": str(words_lexicon()),
        "rate": 0.3,
        "transform": "swish",
        "alpha": 0.7,
    },
    "selective-task.v1": {"scores": COLUMN},
    "selective.v1": {"scores": COLUMN, "rate": 0.3},
    "attention-high.v1": {"scores": COLUMN},
    "attention-hints.v1": {"scores": COLUMN, "show": 0.4},
    "attention-low.v1": {"scores": COLUMN},
    "mst.v1": {"scores": COLUMN, "rate": 0.4},
    "informask.v1": {"lexicon": str(rates_lexicon())},
    "keywords.v1": {"lexicon": str(words_lexicon()), "rate": 0.5},
    "span.v1": {"rate": 0.4},
    "spanbert.v1": {"rate": 0.4},
    "spanbert-ner.v1": {"rate": 0.4},
    "ccm.v1": {
        "lexicons": (str(concepts_lexicon(1)), str(concepts_lexicon(2))),
        "last_rate": 0.2,
        "rest_rate": 0.1,
        "max_masked": 3,
        "epochs": 3,
    },
    "t5.v1": {"rate": 0.3},
    "salient-t5.v1": {"longest": 5},
    "causal.v1": {},
    "diffusion.v1": {"units": "mentions", "complement": True},
    "difference-patches.v1": {"rate": 0.5, "alpha": 0.4},
    "picks.v1": {
        "picks": [
            {"units": "mentions", "budget": {"rate": 0.5}, "kind": "entity"},
            {
                "units": "words",
                "budget": {"rate": 0.3, "counts": "tokens", "overrun": "cut", "min_masked": 1},
            },
        ]
    },
    "mixture.v1": {
        "chances": [0.5, 0.3],
        "parts": [{"use": "elm", "elm": 1.0}, {"use": "blm", "blm": 0.5}],
    },
    "curriculum.v1": {
        "epochs": [2],
        "parts": [{"use": "elm", "elm": 0.5}, {"use": "joint", "blm": 0.5, "elm": 0.5}],
    },
}

SAME_FOR_ALL_SEEDS: set[str] = {
    "causal.v1",
    "pmi.v1",
    "selective-task.v1",
    "selective.v1",
    "unmasked.v1",
}
"""Strategies that draw nothing."""
WITHOUT_CORRUPTION = ("mixture.v1", "curriculum.v1", "unmasked.v1", "causal.v1", "diffusion.v1")
"""Strategies without an option for it: it is that of their parts, `[MASK]` always, or none."""


def made(drawn: tuple[str, Mapping[str, Any]], examples: Examples, **more: Any) -> Strategy:
    """Make a strategy for these rows from its options in `OPTIONS`, drawn options, and others."""
    name, other = drawn
    options = OPTIONS[name] | other | more
    if name in WITHOUT_CORRUPTION:
        options.pop("corruption", None)
    paths = {key: str(column_for(examples)) for key, value in options.items() if value == COLUMN}
    return strategy(name, **options | paths)


def corrupting(other: Strategy, corruption: Corruption) -> Strategy:
    """Return a strategy with this corruption, or as it is if it has none or cannot have this one."""
    if isinstance(other, Recipe):
        with suppress(ValueError):  # its picks mask no units
            return replace(other, corruption=corruption)
    return other


# Options at random ------------------------------------------------------------------------------

RATES = st.sampled_from([0.0, 0.07, 0.15, 0.25, 0.5, 0.55, 1.0])
TWINS_LACK = {
    # Lengths of spans; see `test_spans.py` and `kernels/test_span_draws.py`.
    *("span.v1.shortest", "span.v1.longest"),
    *(
        f"{name}.v1.{option}"
        for name in ("spanbert", "spanbert-ner")
        for option in ("chance", "longest")
    ),
    "whole-word-roberta.v1.unit",  # needs characters
    *("diffusion.v1.low", "diffusion.v1.high"),  # one must be lower; see `test_diffusion.py`
}


def types_of(option: Option) -> set[object]:
    """Return the members of an option's type, without annotations."""
    return set(_members(option.type))


def _members(hint: Any) -> Iterator[object]:
    if get_origin(hint) in (Annotated, Union, UnionType):
        members = get_args(hint)[:1] if get_origin(hint) is Annotated else get_args(hint)
        for member in members:
            yield from _members(member)
    else:
        yield hint


def options_of(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Return options for `made` in place of those in `OPTIONS`: any rates, limits, flags and choices."""
    values = {}
    for option in list_options(STRATEGIES.load(name)):
        types = types_of(option)
        (first, *_) = types
        if f"{name}.{option.name}" in TWINS_LACK:
            continue
        if float in types:
            values[option.name] = RATES
        elif types == {bool}:
            values[option.name] = st.booleans()
        elif types == {int} and option.limits == ">= 0":
            values[option.name] = st.sampled_from([0, 1, 2, 20])
        elif types == {int}:
            values[option.name] = st.sampled_from([1, 2])
        elif get_origin(first) is Literal:
            values[option.name] = st.sampled_from(get_args(first))
        elif option.name in OPTIONS[name] and option.default == "":
            values[option.name] = st.sampled_from(["", OPTIONS[name][option.name]])
    return st.fixed_dictionaries({}, optional=values)


# Recipes at random ------------------------------------------------------------------------------


def possible(table):
    """Return a valid table.

    A budget for `with_replacement` counts whole units, a total one counts tokens, single tokens
    have no longest unit, and only an order without randomness has a top.
    """
    if table["order"]["by"] != "first":
        table = {**table, "order": {**table["order"], "hints": 0.0}}
    if table["units"] == "tokens":
        return {**table, "eligible": {**table["eligible"], "longest": 0}}
    budget = table["budget"]
    if table["order"]["by"] == "with_replacement":
        budget = {**budget, "counts": "units"}
    return {**table, "budget": {**budget, "total": budget["total"] and budget["counts"] != "units"}}


PICKS = st.fixed_dictionaries(
    {
        "units": st.sampled_from(["tokens", "words", "mentions", "released pieces"]),
        "budget": st.fixed_dictionaries(
            {
                "rate": RATES,
                "counts": st.sampled_from(["units", "tokens", "all tokens"]),
                "rounding": st.sampled_from(["up", "down", "nearest", "random"]),
                "min_masked": st.integers(0, 2),
                "max_masked": st.sampled_from([0, 0, 1, 4]),
                "overrun": st.sampled_from(["cut", "skip", "stop"]),
                "gate": st.sampled_from([0.0, 0.5, 1.0]),
                "total": st.booleans(),
            }
        ),
        "eligible": st.fixed_dictionaries(
            {
                "where": st.sampled_from(["any", "generic", "mentions", "rows without mentions"]),
                "unknown": st.booleans(),
                "longest": st.sampled_from([0, 0, 1, 2]),
            }
        ),
        "order": st.fixed_dictionaries(
            {
                "by": st.sampled_from(["uniform", "first", "bernoulli", "with_replacement"]),
                "chance": st.sampled_from([1.0, 1.0, 0.5]),
                "hints": st.sampled_from([0.0, 0.5]),
            }
        ),
        "kind": st.sampled_from(["base", "entity"]),
    }
).map(possible)
"""Tables of one pick each, of every kind of units, budget and order that needs no lexicon."""

DRAWN = st.one_of(
    st.tuples(st.sampled_from(sorted(OPTIONS)), st.just({})),
    st.tuples(
        st.just("picks.v1"),
        st.fixed_dictionaries({"picks": st.lists(PICKS, min_size=1, max_size=3)}),
    ),
)
"""Names and options for `made`: a registered strategy, or up to three picks at random."""
