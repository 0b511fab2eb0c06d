"""Finds what a source reads, and which options it has, in the docstrings of its reader.

Other parts of a file, such as the picks of a strategy, declare their options in the same way.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import re
import typing
from collections.abc import Iterator
from typing import Any, NamedTuple, get_args

from mslm_data.pipeline import DUPLICATE_SIMILARITY, MAX_LOSS, Duplicates
from mslm_data.source.table import SOURCES

REQUIRED = object()
"""In place of the default of an option that has none."""

_ATTRIBUTES = "\nAttributes:\n"
_ATTRIBUTE = re.compile(r" {4}(\w+): (.*)")


class Option(NamedTuple):
    """An option of a table.

    Attributes:
        name: Its name.
        default: Its value where nobody sets it; `REQUIRED` where somebody must.
        meaning: What it says, in one paragraph.
        words: The values that it can have, where they are a few words; else none.
    """

    name: str
    default: Any
    meaning: str
    words: tuple[str, ...]


OF_ALL = (
    Option(
        "max_loss",
        MAX_LOSS,
        "Share of a split's documents that may be set aside, and of the source's mentions that may "
        "be left out without a rule that asks for it.",
        (),
    ),
    Option(
        "duplicates",
        "keep",
        "What becomes of copies of documents; those of validation and test always stay.",
        get_args(Duplicates),
    ),
    Option(
        "duplicate_similarity",
        DUPLICATE_SIMILARITY,
        "Share of their runs of 5 words that two documents have in common from which one is nearly "
        "a copy of the other; 1 for exact copies alone.",
        (),
    ),
    Option(
        "leave_out",
        (),
        "Built folders, or splits of them, whose sentences are not trained on.",
        (),
    ),
)
"""The options that every `[source]` table has, whatever reads the files."""


def about(use: str) -> str:
    """Return what the documentation of a source says above its options.

    Raises:
        PipelineError: There is no such source.
    """
    return text_of_class(SOURCES.load(use))


def options_of(use: str) -> list[Option]:
    """Return the options of a source, those of its own first.

    Raises:
        PipelineError: There is no such source.
    """
    return options_of_class(SOURCES.load(use))


def options_of_class(part: Any) -> list[Option]:
    """Return the options that a dataclass and its bases document, those of its own first."""
    meanings: dict[str, str] = {}
    for declared_by in part.__mro__:
        for name, meaning in _attributes(declared_by):
            meanings.setdefault(name, meaning)

    types = typing.get_type_hints(part)
    fields = {
        field.name: field
        for field in dataclasses.fields(part)
        if field.metadata.get("option", True)
    }
    return [
        Option(name, _default(fields[name]), meaning, _words(types[name]))
        for name, meaning in meanings.items()
        if name in fields
    ]


def text_of_class(part: type) -> str:
    """Return what the documentation of a part says above its options."""
    return _documentation(part).partition(_ATTRIBUTES)[0].rstrip()


def _documentation(of: type) -> str:
    return inspect.cleandoc(of.__doc__ or "")


def _attributes(of: type) -> Iterator[tuple[str, str]]:
    """Give the name and the meaning of each attribute that a class itself documents."""
    _, _, lines = _documentation(of).partition(_ATTRIBUTES)
    lines = lines.partition("\nRaises:")[0]
    name = ""
    words: list[str] = []
    for line in lines.splitlines():
        begun = _ATTRIBUTE.fullmatch(line)
        if begun and name:
            yield name, " ".join(words)
        if begun:
            name = begun[1]
            words = [begun[2]]
        else:
            words.append(line.strip())
    if name:
        yield name, " ".join(words)


def _words(of: Any) -> tuple[str, ...]:
    """Return the words that a type allows, none where it allows other values as well."""
    if typing.get_origin(of) is typing.Literal:
        return typing.get_args(of)
    inner = [_words(one) for one in typing.get_args(of)]
    return tuple(itertools.chain.from_iterable(inner)) if inner and all(inner) else ()


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return REQUIRED if field.default is dataclasses.MISSING else field.default
