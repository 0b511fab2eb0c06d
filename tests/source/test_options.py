"""The options of sources and what they mean, as the docstrings of their readers say."""

from __future__ import annotations

import dataclasses

import pytest

from mslm_data.errors import PipelineError
from mslm_data.source import SOURCES
from mslm_data.source.options import Option, about, options_of


@pytest.mark.parametrize("name", SOURCES.names())
def test_options__are_all_there_and_say_something(name: str) -> None:
    source = SOURCES.load(name)()

    found = options_of(name)

    fields = dataclasses.fields(source)
    expected = {field.name for field in fields if field.metadata.get("option", True)}
    assert {option.name for option in found} == expected
    assert all(option.default == getattr(source, option.name) for option in found)
    assert all(option.meaning.endswith(".") for option in found)
    assert about(name)
    assert "Attributes:" not in about(name)


def test_options__have_their_words_those_of_the_source_first() -> None:
    found = options_of("conllu")

    assert found[2] == Option(
        "scheme",
        "auto",
        '"auto" for tags and brackets; "label" where the tag is the label itself, so that equal '
        "neighbours are one mention.",
        ("auto", "label"),
    )
    assert [option.name for option in found] == [
        "tag_column",
        "untyped",
        "scheme",
        "encoding",
        "splits",
    ]


def test_options__that_may_be_anything_else_have_no_words() -> None:
    words = {option.name: option.words for option in options_of("offsets")}

    assert words["ends"] == ("auto", "exclusive", "inclusive")
    assert words["header"] == words["id_column"] == words["separator"] == ()


def test_about__of_an_unknown_source_names_the_nearest() -> None:
    with pytest.raises(PipelineError, match="did you mean 'doccano'"):
        about("docano")
