"""Finds the artefacts that a strategy reads besides the rows, and replaces their names by paths."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from mslm_data.lexicon.artefacts import ArtefactKind

T = TypeVar("T")


def artefact(kind: ArtefactKind, default: str = "") -> Any:
    """Declare a dataclass field that names an artefact's file or folder; "" for none.

    Args:
        kind: What is read there.
        default: The usual name.
    """
    return dataclasses.field(default=default, metadata={"artefact": kind})


def iter_artefacts(value: Any) -> Iterator[str]:
    """Give the names of all artefacts in a strategy, or in any part of one."""
    if isinstance(value, tuple | list):
        for inner in value:
            yield from iter_artefacts(inner)
    elif _is_part(value):
        for field in dataclasses.fields(value):
            inner = getattr(value, field.name)
            if field.metadata.get("artefact"):
                yield from [inner] if inner else []
            else:
                yield from iter_artefacts(inner)


def with_artefacts(value: T, found: Callable[[str, ArtefactKind], str]) -> T:
    """Return a strategy, or any part of one, with the name of each artefact replaced.

    Args:
        value: The strategy; it is not changed.
        found: Returns where the artefact of a name and kind lies.
    """
    made: Any = value
    if isinstance(value, tuple | list):
        made = tuple(with_artefacts(inner, found) for inner in value)
    elif _is_part(value):
        changed: dict[str, Any] = {}
        for field in dataclasses.fields(made):
            if field.name == "origin":
                continue
            inner = getattr(value, field.name)
            kind = field.metadata.get("artefact")
            if kind:
                changed[field.name] = found(inner, kind) if inner else inner
            else:
                changed[field.name] = with_artefacts(inner, found)
        made = dataclasses.replace(made, **changed)
    result: T = made
    return result


def _is_part(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)
