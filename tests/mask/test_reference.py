"""The reference of picks names and explains every value that a strategy's tables accept."""

from __future__ import annotations

import typing
from typing import Any

import pytest

from mslm_data.mask.file import PARTS, PICKS
from mslm_data.registry import Options, list_options
from tests.cli.running import run
from tests.mask.contract import types_of

TABLES = {**PICKS, **PARTS}


@pytest.mark.parametrize("name", TABLES)
def test_tables__document_every_option_and_value(name: str) -> None:
    part: Any = TABLES[name]
    says = {option.name: option.help for option in list_options(part)}
    hints = typing.get_type_hints(part)

    assert set(says) == set(part.__struct_fields__)
    for option, text in says.items():
        assert text.endswith("."), option
        for value in words_of(hints[option]):
            assert f"`{value}`" in text, (name, option, value)


UNLIMITED = {"order.score.missing", "place-spans.longest"}
"""Numbers that are checked by themselves; see `test_score.py` and `test_refusals.py`."""


def test_tables__limit_every_number() -> None:
    options = [(name, option) for name, part in TABLES.items() for option in list_options(part)]

    without = {
        f"{name}.{option.name}"
        for name, option in options
        if {int, float} & types_of(option) and not option.limits
    }

    assert without == UNLIMITED


def words_of(hint: Any) -> list[str]:
    """Return the strings that a type accepts, also in a union with tables."""
    if typing.get_origin(hint) is typing.Literal:
        return list(typing.get_args(hint))
    return [word for inner in typing.get_args(hint) for word in words_of(inner)]


def test_parts__are_all_structs_within_picks() -> None:
    """A new table of a pick cannot be forgotten."""
    found: set[type] = set()
    for kind in (*PICKS.values(), *PARTS.values()):
        for hint in typing.get_type_hints(kind).values():
            found |= {inner for inner in parts_of(hint) if issubclass(inner, Options)}

    assert found - set(PICKS.values()) <= set(PARTS.values())


def parts_of(hint: Any) -> set[type]:
    inner = typing.get_args(hint)
    if not inner:
        return {hint} if isinstance(hint, type) else set()
    return set().union(*map(parts_of, inner))


def test_recipes__picks_prints_every_table() -> None:
    printed = run("recipes", "--picks")

    assert printed.code == 0
    for tag in PICKS:
        assert f'use = "{tag}": ' in printed.out
    for place in PARTS:
        assert f"\n{place}: " in printed.out
    assert set(run("recipes", "--picks", "--json").json["picks"]["order"]) == {
        "by",
        "score",
        "chance",
        "hints",
    }
    assert run("recipes", "--picks", "joint").code == 2
