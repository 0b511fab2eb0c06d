"""Find the files that a strategy reads besides the rows, and replace their names by paths."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from mslm_data.lexicon.artefacts import ArtefactKind

T = TypeVar("T")


def artefact(kind: ArtefactKind, default: str = "") -> Any:
    """Declare a dataclass field that names an artefact's file or folder; "" for none.

    Args:
        kind: The kind of artefact.
        default: Default file name.
    """
    return dataclasses.field(default=default, metadata={"artefact": kind})


def iter_artefacts(value: Any) -> Iterator[str]:
    """Yield the names of all artefacts in a strategy or a part of one."""
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


def with_artefacts(value: T, resolve: Callable[[str, ArtefactKind], str]) -> T:
    """Return a strategy, or a part of one, with each artefact's name replaced.

    Args:
        value: The strategy; it is not changed.
        resolve: Returns the path of an artefact, from its name and kind.
    """
    result: Any = value
    if isinstance(value, tuple | list):
        result = tuple(with_artefacts(inner, resolve) for inner in value)
    elif _is_part(value):
        changed: dict[str, Any] = {}
        for field in dataclasses.fields(result):
            if field.name == "origin":
                continue
            inner = getattr(value, field.name)
            kind = field.metadata.get("artefact")
            if kind:
                changed[field.name] = resolve(inner, kind) if inner else inner
            else:
                changed[field.name] = with_artefacts(inner, resolve)
        result = dataclasses.replace(result, **changed)
    typed: T = result
    return typed


def _is_part(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)
