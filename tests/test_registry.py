"""Registries of named objects, and their options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest

from mslm_data.errors import PipelineError
from mslm_data.registry import Registry, did_you_mean, from_options


@dataclass(frozen=True, kw_only=True)
class Options:
    rate: float = 0.5
    names: tuple[str, ...] = ()
    mode: Literal["a", "b"] = "a"
    table: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    derived: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.rate > 1:
            raise ValueError(f"expected a rate of at most 1, got {self.rate}")


REGISTRY = Registry(
    "thing",
    {
        "plain": "tests.test_registry:Options",
        "joint.v2": "tests.test_registry:Options",
        "joint.v10": "tests.test_registry:Options",
        "joint.v9": "tests.test_registry:Options",
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


def test_did_you_mean__is_empty_without_a_similar_name() -> None:
    assert did_you_mean("x", []) == "; known: "


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
    assert REGISTRY.load("plain") is Options
    with pytest.raises(ModuleNotFoundError):
        REGISTRY.load("gone")


def test_make__makes_an_options_type() -> None:
    thing = REGISTRY.make("joint", {"rate": 1, "names": ["x"], "table": {"train": ["a*", "b*"]}})

    assert thing == Options(rate=1.0, names=("x",), table={"train": ("a*", "b*")})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rte": 1}, r"thing 'plain': unknown option 'rte'; did you mean 'rate'\?"),
        ({"derived": 1}, r"thing 'plain': unknown option 'derived'"),
        ({"rate": "high"}, r"thing 'plain': expected a number for option 'rate', got text"),
        ({"rate": 2.0}, r"thing 'plain': expected a rate of at most 1, got 2\.0"),
        ({"mode": "c"}, r"thing 'plain': expected one of a, b for option 'mode', got 'c'"),
        (
            {"names": ["a", 1]},
            r"thing 'plain': expected text for option 'names\[1\]', got a whole number",
        ),
    ],
)
def test_make__rejects_invalid_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        REGISTRY.make("plain", options)


def test_make__reports_the_place_of_an_error() -> None:
    with pytest.raises(PipelineError, match=r"^pipeline 'x', \[source\]: unknown option 'y'"):
        REGISTRY.make("plain", {"y": 1}, where="pipeline 'x', [source]")


def test_from_options__accepts_no_options() -> None:
    assert from_options(Options, {}, where="here") == Options()


@dataclass(frozen=True, kw_only=True)
class Budget:
    rate: float | Varying = 0.15
    over: Literal["cut", "keep"] = "keep"

    def __post_init__(self) -> None:
        if self.rate == 7:
            raise ValueError(f"expected a rate of at most 1, got {self.rate}")


@dataclass(frozen=True, kw_only=True)
class Varying:
    start: float
    stop: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Pick:
    hide: str
    budget: Budget = Budget()


@dataclass(frozen=True, kw_only=True)
class Nested:
    picks: tuple[Pick, ...] = ()
    named: Mapping[str, Pick] = field(default_factory=dict)
    pair: tuple[int, Budget] | None = None
    listed: list[list[Budget]] = field(default_factory=list)
    marked: Annotated[Budget | None, "a mark"] = None
    size: Literal["all", "none"] | int = "all"
    free: Mapping[str, Any] = field(default_factory=dict)


def test_from_options__makes_nested_options() -> None:
    made = from_options(
        Nested,
        {
            "picks": [{"hide": "words", "budget": {"rate": {"start": 0.3}}}],
            "named": {"a": {"hide": "tokens"}},
            "pair": [1, {"over": "cut"}],
            "listed": [[{"rate": 1}]],
            "marked": {"rate": 0.5},
            "size": 3,
            "free": {"any": {"thing": 1}},
        },
        where="here",
    )

    assert made == Nested(
        picks=(Pick(hide="words", budget=Budget(rate=Varying(start=0.3))),),
        named={"a": Pick(hide="tokens")},
        pair=(1, Budget(over="cut")),
        listed=[[Budget(rate=1.0)]],
        marked=Budget(rate=0.5),
        size=3,
        free={"any": {"thing": 1}},
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"picks": [{"hide": "a"}, {"hide": "words", "overun": "cut"}]},
            r"^here, picks\[1\]: unknown option 'overun'; known: budget, hide$",
        ),
        (
            {"picks": [{"hide": "a", "budget": {"ovr": "cut"}}]},
            r"^here, picks\[0\]\.budget: unknown option 'ovr'; did you mean 'over'\?$",
        ),
        (
            {"picks": [{"hide": "a", "budget": {"rate": {"start": 1, "stp": 1}}}]},
            r"^here, picks\[0\]\.budget\.rate: unknown option 'stp'; did you mean 'stop'\?$",
        ),
        (
            {"named": {"x": {"hid": "words"}}},
            r"^here, named\[\.\.\.\]: unknown option 'hid'; did you mean 'hide'\?$",
        ),
        (
            {"pair": [1, {"rte": 1}]},
            r"^here, pair\[1\]: unknown option 'rte'; did you mean 'rate'\?$",
        ),
        (
            {"listed": [[], [{}, {"rte": 1}]]},
            r"^here, listed\[1\]\[1\]: unknown option 'rte'; did you mean 'rate'\?$",
        ),
        (
            {"marked": {"rte": 1}},
            r"^here, marked: unknown option 'rte'; did you mean 'rate'\?$",
        ),
        (
            {"marked": {"over": "ct"}},
            r"^here: expected one of cut, keep for option 'marked\.over', got 'ct'$",
        ),
        ({"size": "al"}, r"^here: expected one of all, none for option 'size', got 'al'$"),
        (
            {"picks": [{}]},
            r"^here: expected 'hide' in the table of option 'picks\[0\]', got none$",
        ),
        (
            {"marked": {"rate": 7}},
            r"^here: expected a rate of at most 1, got 7\.0 for option 'marked'$",
        ),
        (
            {"marked": {"rate": "high"}},
            r"^here: expected a number or a table for option 'marked\.rate', got text$",
        ),
        ({"picks": {"hide": "a"}}, r"^here: expected a list for option 'picks', got a table$"),
        ({"picks": [3]}, r"^here: expected a table for option 'picks\[0\]', got a whole number$"),
    ],
)
def test_from_options__rejects_invalid_options_at_every_depth(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(PipelineError, match=message):
        from_options(Nested, options, where="here")


def test_from_options__accepts_objects() -> None:
    pick = Pick(hide="words")

    assert from_options(Nested, {"picks": (pick,)}, where="here") == Nested(picks=(pick,))


def whole_words(rate: float = 0.15, budget: Budget | None = None, *, hide: str) -> tuple[Any, ...]:
    if rate > 1:
        raise ValueError(f"expected a rate of at most 1, got {rate}")
    return rate, budget, hide


def test_from_options__calls_a_function() -> None:
    made = from_options(whole_words, {"hide": "x", "budget": {"rate": 1}}, where="here")

    assert made == (0.15, Budget(rate=1.0), "x")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hide": "x", "rte": 1}, r"^here: unknown option 'rte'; did you mean 'rate'\?$"),
        (
            {"hide": "x", "budget": {"rte": 1}},
            r"^here, budget: unknown option 'rte'; did you mean 'rate'\?$",
        ),
        ({"rate": 0.5}, r"^here: expected the option 'hide', got none$"),
        ({"hide": "x", "rate": 2}, r"^here: expected a rate of at most 1, got 2\.0$"),
        ({"hide": 1}, r"^here: expected text for option 'hide', got a whole number$"),
    ],
)
def test_from_options__rejects_invalid_options_of_a_function(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(PipelineError, match=message):
        from_options(whole_words, options, where="here")
