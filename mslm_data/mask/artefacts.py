"""Lexicons and score columns that a strategy reads: find their names, and replace them by paths."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, TypeVar, cast

import msgspec
from msgspec import Meta

from mslm_data.lexicon.artefacts import LEXICON, SCORE_COLUMN, ArtefactKind

T = TypeVar("T")

LexiconFile = Annotated[str, Meta(extra={"artefact": LEXICON})]
"""Option with the file of a lexicon; "" for none."""
ScoreFolder = Annotated[str, Meta(extra={"artefact": SCORE_COLUMN})]
"""Option with the folder of a score column; "" for none."""


def iter_artefacts(value: Any) -> Iterator[str]:
    """Yield the names of all artefacts in a strategy, or in a part of a strategy."""
    names: list[str] = []

    def find(name: str, _: ArtefactKind) -> str:
        names.append(name)
        return name

    with_artefacts(value, find)
    yield from names


def with_artefacts(value: T, resolve: Callable[[str, ArtefactKind], str]) -> T:
    """Return a copy of a strategy, or of a part, with the names of artefacts replaced.

    Args:
        value: The strategy or part. Not changed.
        resolve: Function from name and kind of an artefact to its path.
    """
    if isinstance(value, tuple | list):
        return cast(T, tuple(with_artefacts(inner, resolve) for inner in value))

    changed: dict[str, Any] = {}
    for name, kind in _fields(type(value)).items():
        inner = getattr(value, name)
        if kind:
            changed[name] = resolve(inner, kind) if inner else inner
        else:
            changed[name] = with_artefacts(inner, resolve)
    if not changed:
        return value

    result: Any = _replace(value, changed)
    if hasattr(value, "origin"):
        object.__setattr__(result, "origin", value.origin)
    return cast(T, result)


def _fields(part: type) -> Mapping[str, ArtefactKind | None]:
    """Return the fields of a strategy or a part, with the kind of artefact that they name."""
    if dataclasses.is_dataclass(part):  # a strategy, whose artefacts are in its parts
        return {field.name: None for field in dataclasses.fields(part) if field.init}
    if not issubclass(part, msgspec.Struct):
        return {}
    return {field.name: _kind(field.type) for field in msgspec.structs.fields(part)}


def _kind(hint: Any) -> ArtefactKind | None:
    extras = [mark.extra or {} for mark in getattr(hint, "__metadata__", ())]
    return next((extra["artefact"] for extra in extras if "artefact" in extra), None)


def _replace(value: Any, changed: Mapping[str, Any]) -> Any:
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.replace(value, **changed)
    return dataclasses.replace(value, **changed)
