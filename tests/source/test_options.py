"""The options declared by sources."""

from __future__ import annotations

import dataclasses

import pytest

from mslm_data.annotate import ANNOTATORS
from mslm_data.mask import STRATEGIES
from mslm_data.registry import REQUIRED, Registry, declared_options
from mslm_data.segment import SEGMENTERS
from mslm_data.source import SOURCES


@pytest.mark.parametrize("name", SOURCES.names())
def test_declared_options__of_a_source_are_its_fields(name: str) -> None:
    source = SOURCES.load(name)()

    options = declared_options(type(source))

    fields = dataclasses.fields(source)
    expected = {field.name for field in fields if field.metadata.get("option", True)}
    assert {option.name for option in options} == expected
    assert all(option.default == getattr(source, option.name) for option in options)


@pytest.mark.parametrize("registry", [SOURCES, ANNOTATORS, SEGMENTERS, STRATEGIES])
def test_declared_options__all_have_help(registry: Registry) -> None:
    without = [
        f"{name}: {option.name}"
        for name in registry.names()
        for option in declared_options(registry.load(name))
        if not option.help.endswith(".")
    ]

    assert without == []


def test_declared_options__have_help_with_source_options_first() -> None:
    options = declared_options(SOURCES.load("conllu"))

    assert [option.name for option in options] == [
        "tag_column",
        "untyped",
        "scheme",
        "encoding",
        "splits",
    ]
    assert options[2].default == "auto"
    assert options[2].words == ("auto", "label")


def test_declared_options__without_fixed_values_list_none() -> None:
    words = {option.name: option.words for option in declared_options(SOURCES.load("offsets"))}

    assert words["ends"] == ("auto", "exclusive", "inclusive")
    assert words["header"] == words["id_column"] == words["separator"] == ()


def test_declared_options__of_a_function_without_a_default_is_required() -> None:
    def take(table: dict[str, int], rate: float = 0.5) -> None:
        """Take two options."""

    assert [option.default for option in declared_options(take)] == [REQUIRED, 0.5]
