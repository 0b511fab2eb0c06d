"""The options declared by sources, annotators, segmenters and strategies."""

from __future__ import annotations

from typing import Any

import pytest

from mslm_data.annotate import ANNOTATORS
from mslm_data.errors import PipelineError
from mslm_data.mask.table import STRATEGIES
from mslm_data.registry import Registry, list_options
from mslm_data.segment import SEGMENTERS
from mslm_data.source import SOURCES
from tests.mask.contract import types_of


@pytest.mark.parametrize("registry", [SOURCES, ANNOTATORS, SEGMENTERS, STRATEGIES])
def test_list_options__all_have_help(registry: Registry) -> None:
    without = [
        f"{name}: {option.name}"
        for name in registry.names()
        for option in list_options(registry.load(name))
        if not option.help.endswith(".")
    ]

    assert without == []


ANY_NUMBER = {"notes: seed", "omop: seed", "medcat: max_line_breaks", "terms: short"}
"""Options that take any integer."""


@pytest.mark.parametrize("registry", [SOURCES, ANNOTATORS, SEGMENTERS, STRATEGIES])
def test_list_options__numbers_have_limits(registry: Registry) -> None:
    without = {
        f"{name}: {option.name}"
        for name in registry.names()
        for option in list_options(registry.load(name))
        if {int, float} & types_of(option) and str not in types_of(option) and not option.limits
    }

    assert without <= ANY_NUMBER


def test_list_options__have_help_with_source_options_first() -> None:
    options = list_options(SOURCES.load("conllu"))

    assert [option.name for option in options] == [
        "tag_column",
        "untyped",
        "scheme",
        "encoding",
        "splits",
    ]
    assert options[2].default == "auto"
    assert options[2].words == ("auto", "label")


def test_list_options__without_fixed_values_list_none() -> None:
    words = {option.name: option.words for option in list_options(SOURCES.load("offsets"))}

    assert words["ends"] == ("auto", "exclusive", "inclusive")
    assert words["header"] == words["id_column"] == words["separator"] == ()


HALVES = {"train": 0.5, "test": 0.5}
# What msgspec checks is tested once, in test_registry.py, so here are the checks of our own, and
# limits that a reader would not expect.
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("medcat", {"sha256": "abc"}, "expected `str` matching regex "),
    ("medcat", {"model": "x"}, "unknown option 'model'; did you mean 'model_pack'?"),
    ("spacy", {"piece": 1_000_000}, "expected `int` <= 999999 for option 'piece'"),
    ("clinical", {"heads": "all"}, "invalid value for option 'heads'; known: next, own"),
    ("cas", {"label_feature": ""}, "expected `str` of length >= 1 for option 'label_feature'"),
    ("conll", {"tag_column": [1, -2]}, "expected `int` >= -1 for option 'tag_column[1]'"),
    (
        "conll",
        {"tag_column": 0, "word_column": 0},
        "expected word_column and tag_column to differ, got 0 for both",
    ),
    ("conll", {"encoding": "rot13"}, "invalid value for option 'encoding'; known: ascii, big5, "),
    ("notes", {"shares": {"train": 0.8}}, "expected shares above 0 that add up to 1, got 0.8"),
    ("notes", {"shares": {"train": 1.5, "test": -0.5}}, "expected shares above 0"),
    (
        "notes",
        {"shares": HALVES, "splits": {"train": ["x"]}},
        "expected shares (of the patients) or splits (patterns of files), got both",
    ),
    *(
        ("notes", {"separator": separator}, "expected `str` matching regex ")
        for separator in ("", ";;", '"', "\n", "\r", "\u2502")
    ),
    (
        "notes",
        {"categories": ["x"], "category_column": ""},
        "expected category_column to name a column",
    ),
    ("notes", {"patient_pattern": "("}, "expected patient_pattern to be a regular expression"),
    *(
        ("offsets", {"separator": separator}, "expected `str` matching regex ")
        for separator in (", ", '"', "\n")
    ),
    ("offsets", {"texts": "/etc"}, "expected texts relative to the table's folder"),
    ("text", {"doc_label": "text"}, "expected doc_label to differ from text_column, got 'text'"),
]


@pytest.mark.parametrize(("name", "options", "message"), REFUSED)
def test_make__refuses_options(name: str, options: dict[str, Any], message: str) -> None:
    registries = {"medcat": ANNOTATORS, "model": ANNOTATORS, "spacy": ANNOTATORS}
    registry = {**registries, "clinical": SEGMENTERS}.get(name, SOURCES)

    with pytest.raises(PipelineError) as refused:
        registry.make(name, options)

    assert str(refused.value).startswith(f"{registry.kind} '{name}': {message}")
