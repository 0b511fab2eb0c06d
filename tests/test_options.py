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


@pytest.mark.parametrize("registry", [SOURCES, ANNOTATORS, SEGMENTERS, STRATEGIES])
def test_list_options__all_have_help(registry: Registry) -> None:
    without = [
        f"{name}: {option.name}"
        for name in registry.names()
        for option in list_options(registry.load(name))
        if not option.help.endswith(".")
    ]

    assert without == []


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
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("medcat", {"sha256": "abc"}, "expected `str` matching regex "),
    ("medcat", {"min_score": 2.0}, "expected `float` <= 1.0 for option 'min_score'"),
    ("medcat", {"model": "x"}, "unknown option 'model'; did you mean 'model_pack'?"),
    ("model", {"min_score": 1.5}, "expected `float` <= 1.0 for option 'min_score'"),
    ("model", {"batch_size": 0}, "expected `int` >= 1 for option 'batch_size'"),
    ("model", {"threads": 0}, "expected `int` >= 1 for option 'threads'"),
    ("model", {"device": "tpu"}, "invalid value for option 'device'; did you mean 'cpu'?"),
    ("model", {"modle": "x"}, "unknown option 'modle'; did you mean 'model'?"),
    ("spacy", {"batch_size": 0}, "expected `int` >= 1 for option 'batch_size'"),
    ("spacy", {"piece": 0}, "expected `int` >= 1 for option 'piece'"),
    ("spacy", {"piece": 1_000_000}, "expected `int` <= 999999 for option 'piece'"),
    ("clinical", {"heads": "all"}, "invalid value for option 'heads'; known: next, own"),
    ("cas", {"label_feature": ""}, "expected `str` of length >= 1 for option 'label_feature'"),
    ("cas", {"mention_type": ""}, "expected `str` of length >= 1 for option 'mention_type'"),
    ("conll", {"word_column": 1000}, "expected `int` <= 999 for option 'word_column'"),
    ("conll", {"tag_column": -2}, "expected `int` >= -1 for option 'tag_column'"),
    ("conll", {"tag_column": [1, -2]}, "expected `int` >= -1 for option 'tag_column[1]'"),
    (
        "conll",
        {"tag_column": 0, "word_column": 0},
        "expected word_column and tag_column to differ, got 0 for both",
    ),
    (
        "conll",
        {"scheme": "bio"},
        "invalid value for option 'scheme'; known: auto, brackets, label",
    ),
    ("conll", {"tag_colum": 1}, "unknown option 'tag_colum'; did you mean 'tag_column'?"),
    ("conll", {"encoding": "rot13"}, "invalid value for option 'encoding'; known: ascii, big5, "),
    ("notes", {"shares": {"train": 0.8}}, "expected shares above 0 that add up to 1, got 0.8"),
    ("notes", {"shares": {"train": 1.5, "test": -0.5}}, "expected shares above 0"),
    (
        "notes",
        {"shares": HALVES, "splits": {"train": ["x"]}},
        "expected shares (of the patients) or splits (patterns of files), got both",
    ),
    (
        "notes",
        {"shares": HALVES, "split": "train"},
        "unknown option 'split'; did you mean 'splits'",
    ),
    ("notes", {"patients": -1}, "expected `int` >= 0 for option 'patients'"),
    ("notes", {"text_column": ""}, "expected `str` of length >= 1 for option 'text_column'"),
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
    (
        "notes",
        {"placeholders": "hide"},
        "invalid value for option 'placeholders'; known: drop, keep, token",
    ),
    *(
        ("offsets", {"separator": separator}, "expected `str` matching regex ")
        for separator in (", ", '"', "\n")
    ),
    ("offsets", {"texts": "/etc"}, "expected texts relative to the table's folder"),
    ("text", {"doc_label": "text"}, "expected doc_label to differ from text_column, got 'text'"),
    ("webanno", {"layer": ""}, "expected `str` of length >= 1 for option 'layer'"),
]


@pytest.mark.parametrize(("name", "options", "message"), REFUSED)
def test_make__refuses_options(name: str, options: dict[str, Any], message: str) -> None:
    registries = {"medcat": ANNOTATORS, "model": ANNOTATORS, "spacy": ANNOTATORS}
    registry = {**registries, "clinical": SEGMENTERS}.get(name, SOURCES)

    with pytest.raises(PipelineError) as refused:
        registry.make(name, options)

    assert str(refused.value).startswith(f"{registry.kind} '{name}': {message}")
