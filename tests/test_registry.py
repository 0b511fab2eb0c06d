"""Registries of named objects, and their options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta, field

from mslm_data.errors import PipelineError
from mslm_data.registry import (
    REQUIRED,
    Options,
    Registry,
    did_you_mean,
    from_options,
    list_options,
    options_of,
)


class Thing(Options, frozen=True, kw_only=True):
    rate: Annotated[float, Meta(ge=0, le=1, description="Share of things.")] = 0.5
    names: tuple[str, ...] = ()
    mode: Annotated[Literal["a", "b"], Meta(description="Mode.")] = "a"
    table: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    _derived: int = 0

    def __post_init__(self) -> None:
        if self.mode == "b" and not self.names:
            raise ValueError("names: expected some in mode 'b', got none")


REGISTRY = Registry(
    "thing",
    {
        "plain": "tests.test_registry:Thing",
        "joint.v2": "tests.test_registry:Thing",
        "joint.v10": "tests.test_registry:Thing",
        "joint.v9": "tests.test_registry:Thing",
        "gone": "tests.no_such_module:Gone",
    },
)


@pytest.mark.parametrize(
    ("word", "answer"),
    [
        ("labls", "; did you mean 'labels'?"),
        ("zebra", "; known: label, labels, rename"),
    ],
)
def test_did_you_mean__suggests_similar_names(word: str, answer: str) -> None:
    assert did_you_mean(word, ["rename", "labels", "label"]) == answer


@pytest.mark.parametrize(
    ("word", "nearest"),
    [
        ("blurb/ncbi", "blurb/ncbi-disease"),  # jnlpba has the smaller edit distance.
        ("ncbi", "blurb/ncbi-disease"),
        ("bc5cdr", "blurb/bc5cdr-chem"),
        ("blurb/bc5cdr-d", "blurb/bc5cdr-disease"),
        ("blurb/jnlbpa", "blurb/jnlpba"),
    ],
)
def test_did_you_mean__prefers_a_prefix_to_a_misspelt_word(word: str, nearest: str) -> None:
    known = ["blurb/bc5cdr-chem", "blurb/bc5cdr-disease", "blurb/jnlpba", "blurb/ncbi-disease"]

    assert did_you_mean(word, known) == f"; did you mean '{nearest}'?"


def test_did_you_mean__says_that_nothing_is_known() -> None:
    assert did_you_mean("x", []) == "; known: none"


def test_resolve__prefers_the_highest_version() -> None:
    assert REGISTRY.resolve("joint") == "joint.v10"
    assert REGISTRY.resolve("joint.v2") == "joint.v2"
    assert REGISTRY.resolve("plain") == "plain"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("jiont", r"unknown thing 'jiont'; did you mean 'joint'\?"),
        ("zebra", r"unknown thing 'zebra'; known: gone, joint, plain"),
        ("joint.v3", r"unknown thing 'joint\.v3'; did you mean 'joint'\?"),
        ("joi.t", r"unknown thing 'joi\.t'"),
    ],
)
def test_resolve__suggests_similar_names(name: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        REGISTRY.resolve(name)


def test_names__are_sorted_and_complete() -> None:
    assert REGISTRY.names() == ["gone", "joint.v10", "joint.v2", "joint.v9", "plain"]


def test_load__imports_on_first_use() -> None:
    assert REGISTRY.load("plain") is Thing
    with pytest.raises(ModuleNotFoundError):
        REGISTRY.load("gone")


def test_make__makes_an_options_type() -> None:
    thing = REGISTRY.make("joint", {"rate": 1, "names": ["x"], "table": {"train": ["a*", "b*"]}})

    assert thing == Thing(rate=1.0, names=("x",), table={"train": ("a*", "b*")})


def test_make__reports_the_place_of_an_error() -> None:
    with pytest.raises(PipelineError, match=r"^pipeline 'x', \[source\]: unknown option 'y'"):
        REGISTRY.make("plain", {"y": 1}, where="pipeline 'x', [source]")


class Varying(Options, frozen=True, kw_only=True):
    start: float
    stop: float = 0.0


class Budget(Options, frozen=True, kw_only=True):
    rate: Annotated[float, Meta(ge=0, le=1)] | Varying = 0.15
    over: Literal["cut", "keep"] = "keep"


class Pick(Options, frozen=True, kw_only=True, tag_field="use", tag="pick"):
    hide: str
    budget: Budget = Budget()


class Other(Options, frozen=True, kw_only=True, tag_field="use", tag="other"):
    chance: float


class Nested(Thing, frozen=True, kw_only=True):
    picks: tuple[Pick | Other, ...] = ()
    named: Mapping[str, Budget] = field(default_factory=dict)
    pair: tuple[int, Budget] | None = None
    listed: list[list[Budget]] = field(default_factory=list)
    marked: Annotated[Budget | None, Meta(description="A budget.")] = None
    size: Literal["all", "none"] | int = "all"
    level: Literal[1, 2] = 1
    free: Mapping[str, Any] = field(default_factory=dict)


def whole_words(
    rate: Annotated[float, Meta(ge=0, le=1, description="Share.")] = 0.15,
    budget: Budget | None = None,
    *,
    hide: str,
) -> tuple[Any, ...]:
    if hide == "none":
        raise ValueError("hide: expected something to hide, got 'none'")
    return rate, budget, hide


def test_from_options__makes_nested_options() -> None:
    table = {
        "picks": [{"use": "pick", "hide": "words", "budget": {"rate": {"start": 0.3}}}],
        "named": {"a": {"over": "cut"}},
        "pair": [1, {"over": "cut"}],
        "listed": [[{"rate": 1}]],
        "marked": {"rate": 0.5},
        "size": 3,
        "free": {"any": {"thing": 1}},
    }

    made = from_options(Nested, table, where="here")

    assert made == Nested(
        picks=(Pick(hide="words", budget=Budget(rate=Varying(start=0.3))),),
        named={"a": Budget(over="cut")},
        pair=(1, Budget(over="cut")),
        listed=[[Budget(rate=1.0)]],
        marked=Budget(rate=0.5),
        size=3,
        free={"any": {"thing": 1}},
    )
    assert from_options(Nested, msgspec.to_builtins(made), where="here") == made


def test_from_options__accepts_objects() -> None:
    pick = Pick(hide="words")

    assert from_options(Nested, {"picks": (pick,)}, where="here") == Nested(picks=(pick,))


def test_from_options__calls_a_function() -> None:
    made = from_options(whole_words, {"hide": "x", "budget": {"rate": 1}}, where="here")

    assert made == (0.15, Budget(rate=1.0), "x")


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (Nested, {"rte": 1}, ": unknown option 'rte'; did you mean 'rate'?"),
    (Thing, {"zebra": 1}, ": unknown option 'zebra'; known: mode, names, rate, table"),
    (Nested, {"mode": "c"}, ": invalid value for option 'mode'; known: a, b"),
    (Nested, {"mode": "b"}, ": names: expected some in mode 'b', got none"),
    (Nested, {"rate": "high"}, ": expected `float`, got `str` for option 'rate'"),
    (Nested, {"rate": 2.0}, ": expected `float` <= 1.0 for option 'rate'"),
    (Nested, {"rate": float("nan")}, ": expected `float` >= 0.0 for option 'rate'"),
    (
        Nested,
        {"names": ["a", 1]},
        ": expected `str`, got `int` for option 'names[1]'; text is written in quotes, as in '\"0\"'",
    ),
    (
        Nested,
        {"names": "a"},
        ": expected `array`, got `str` for option 'names'; a list of one is written [\"...\"]",
    ),
    (
        Nested,
        {"picks": [{"use": "pick", "hide": "a"}, {"use": "pick", "hide": "a", "overun": "cut"}]},
        ", picks[1]: unknown option 'overun'; known: budget, chance, hide",
    ),
    (
        Nested,
        {"picks": [{"use": "pick", "hide": "a", "budget": {"ovr": "cut"}}]},
        ", picks[0].budget: unknown option 'ovr'; did you mean 'over'?",
    ),
    (
        Nested,
        {"picks": [{"use": "pick", "hide": "a", "budget": {"rate": {"start": 1, "stp": 1}}}]},
        ", picks[0].budget.rate: unknown option 'stp'; did you mean 'stop'?",
    ),
    (
        Nested,
        {"picks": [{"use": "pik", "hide": "a"}]},
        ": invalid value for option 'picks[0].use'; did you mean 'pick'?",
    ),
    (Nested, {"picks": [{"use": "pick"}]}, ", picks[0]: expected the option 'hide', got none"),
    (Nested, {"picks": [3]}, ": expected `object`, got `int` for option 'picks[0]'"),
    (
        Nested,
        {"named": {"x": {"ovr": 1}}},
        ", named[...]: unknown option 'ovr'; did you mean 'over'?",
    ),
    (Nested, {"pair": [1, {"rte": 1}]}, ", pair[1]: unknown option 'rte'; did you mean 'rate'?"),
    (
        Nested,
        {"listed": [[], [{}, {"rte": 1}]]},
        ", listed[1][1]: unknown option 'rte'; did you mean 'rate'?",
    ),
    (
        Nested,
        {"marked": {"over": "ct"}},
        ": invalid value for option 'marked.over'; did you mean 'cut'?",
    ),
    (Nested, {"size": "al"}, ": invalid value for option 'size'; did you mean 'all'?"),
    (Nested, {"level": 3}, ": invalid value for option 'level'; known: 1, 2"),
    (whole_words, {"hide": "x", "rte": 1}, ": unknown option 'rte'; did you mean 'rate'?"),
    (
        whole_words,
        {"hide": "x", "budget": {"rte": 1}},
        ", budget: unknown option 'rte'; did you mean 'rate'?",
    ),
    (whole_words, {"rate": 0.5}, ": expected the option 'hide', got none"),
    (whole_words, {"hide": "x", "rate": 2}, ": expected `float` <= 1.0 for option 'rate'"),
    (whole_words, {"hide": "none"}, ": hide: expected something to hide, got 'none'"),
]


@pytest.mark.parametrize(("make", "options", "message"), REFUSED)
def test_from_options__refuses(make: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError) as refused:
        from_options(make, options, where="here")

    assert str(refused.value) == f"here{message}"


@pytest.mark.parametrize("name", ["rate", "mode", "names", "table", "size"])
@pytest.mark.parametrize("rest", ["", "'s", "\n", " - at `$.mode", " - at `$.mode`"])
def test_from_options__does_not_show_values(name: str, rest: str) -> None:
    with pytest.raises(PipelineError) as refused:
        from_options(Nested, {name: f"Wilhelmina{rest}"}, where="here")

    assert "Wilhelmina" not in str(refused.value)
    assert f"for option '{name}'" in str(refused.value)


def test_list_options__of_a_class_has_its_own_first() -> None:
    options = {option.name: option for option in list_options(Nested)}

    assert [*options] == [
        *("picks", "named", "pair", "listed", "marked", "size", "level", "free"),
        *("rate", "names", "mode", "table"),
    ]
    assert options["rate"].default == 0.5
    assert options["rate"].help == "Share of things."
    assert options["marked"].help == "A budget."
    assert options["mode"].words == ("a", "b")
    assert options["size"].words == ()
    assert options["rate"].limits == ">= 0, <= 1"
    assert options["size"].limits == options["picks"].limits == ""
    assert options["named"].default == {}


def test_list_options__of_a_function_are_its_parameters() -> None:
    options = list_options(whole_words)

    assert [(option.name, option.default) for option in options] == [
        ("rate", 0.15),
        ("budget", None),
        ("hide", REQUIRED),
    ]
    assert options[0].help == "Share."
    assert options_of(whole_words) is options_of(whole_words)
