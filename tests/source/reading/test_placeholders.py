"""Placeholders of de-identification: their ranges and kinds."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.source.reading.placeholders import kind, placeholders

MARKED = st.lists(
    st.sampled_from(
        ["[**", "**]", "x ", "\n", "2101-3-4", "Name", "*", "[", "]", "[**x**]", "_", "___"]
    ),
    max_size=20,
).map("".join)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("2151-7-16", "date"),
        ("7-16", "date"),
        ("2151", "date"),
        ("3-/2140", "date"),
        ("Month/Day/Year 4", "date"),
        ("Holiday 12", "date"),
        ("Hospital1 18", "hospital"),
        ("Hospital Ward Name 5", "hospital"),
        ("Wardname 5", "hospital"),
        ("Known lastname 123", "name"),
        ("First Name8 (NamePattern2) ", "name"),
        ("Last Name (un)\r\n 45", "name"),
        ("Initials (NamePattern4) ", "name"),
        ("Dictator Info ", "name"),
        ("Telephone/Fax (1) 123", "phone"),
        ("Pager number 9", "phone"),
        ("MD Number(1) 12", "number"),
        ("Numeric Identifier 3", "number"),
        ("Age over 90 ", "age"),
        ("Location (un) 3", "location"),
        ("State 3", "location"),
        ("University/College 2", "organization"),
        ("E-mail address 1", "email"),
        ("URL 2", "link"),
        (" ", "unknown"),
        ("", "unknown"),
        ("Zorbic", "unknown"),
    ],
)
def test_kind__names_the_replaced_text(content: str, expected: str) -> None:
    assert kind(content) == expected


def test_placeholders__are_ranges_of_the_unaltered_text() -> None:
    text = "Dr. [**Last Name (un)\n 45**] on [**2151-7-16**]: [** **]."

    words = {handling: placeholders(text, handling) for handling in ("keep", "token", "drop")}  # type: ignore[arg-type]

    assert [text[p.start : p.end] for p in words["keep"]] == [
        "[**Last Name (un)\n 45**]",
        "[**2151-7-16**]",
        "[** **]",
    ]
    assert [p.word for p in words["keep"]] == [None, None, None]
    assert [p.word for p in words["token"]] == ["name", "date", "unknown"]
    assert [p.word for p in words["drop"]] == ["", "", ""]


def test_placeholders__includes_nested_placeholders() -> None:
    text = "a [**Age over [**MD [**Name [**Fax**] 7**] Number(1) 12**] 90 **] b [**2101**]"

    assert [(text[p.start : p.end], p.word) for p in placeholders(text, "token")] == [
        (text[2:-13], "age"),
        ("[**2101**]", "date"),
    ]


@pytest.mark.parametrize(
    "text", ["", "none", "[** open", "closed **]", "**] [**", "[**" + "x" * 300 + "**]"]
)
def test_placeholders__a_mark_without_its_other_is_text(text: str) -> None:
    assert placeholders(text, "keep") == ()


def test_placeholders__a_mark_never_closed_hides_no_later_one() -> None:
    text = "[** lost " + "x" * 300 + " [**2101-1-1**] [**Hospital1 1**]"

    assert [p.word for p in placeholders(text, "token")] == ["date", "hospital"]


def test_placeholders__of_mimic_iv_are_three_underscores() -> None:
    text = "___ saw Dr.___on ___-___. ____ __ _______\n[** ___ **]___"

    words = {handling: placeholders(text, handling) for handling in ("keep", "token", "drop")}  # type: ignore[arg-type]

    blanks = [match.start() for match in re.finditer("(?<!_)___(?!_)", text)]
    inside, last = blanks.pop(4), blanks[-1]
    assert [(p.start, p.end) for p in words["keep"]] == [
        *[(start, start + 3) for start in blanks[:4]],
        (inside - 4, last),
        (last, last + 3),
    ]
    assert {p.word for p in words["keep"]} == {None}
    assert [p.word for p in words["token"]] == ["_", "_", "_", "_", "unknown", "_"]
    assert {p.word for p in words["drop"]} == {""}


@given(MARKED)
def test_placeholders__are_sorted_apart_and_closed(text: str) -> None:
    found = placeholders(text, "keep")

    assert all(left.end <= right.start for left, right in pairwise(found))
    for p in found:
        inside = text[p.start : p.end]
        if "[**" not in inside:
            assert inside == "___"
            assert "_" not in (text[p.start - 1 : p.start], text[p.end : p.end + 1])
            continue
        assert inside.startswith("[**")
        assert inside.endswith("**]")
        assert len(inside) >= 6


@given(st.lists(st.sampled_from(["2101-3-4", "Name 4", " ", "Hospital1 2"]), max_size=6))
def test_placeholders__agrees_with_a_pattern_on_simple_text(contents: list[str]) -> None:
    text = "words ".join(f"[**{content}**] " for content in contents)

    expected = [match.span() for match in re.finditer(r"\[\*\*.*?\*\*\]", text, re.DOTALL)]
    assert [(p.start, p.end) for p in placeholders(text, "keep")] == expected
