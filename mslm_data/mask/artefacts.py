"""Lexicons and score columns that a strategy reads: find their names, and replace them by paths."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from mslm_data.lexicon.artefacts import ArtefactKind

T = TypeVar("T")


def artefact(kind: ArtefactKind, default: str = "") -> Any:
    """Declare a dataclass field with the file or folder of an artefact; "" for none.

    Args:
        kind: Kind of artefact.
        default: Default file name. Default: "".
    """
    return dataclasses.field(default=default, metadata={"artefact": kind})


def iter_artefacts(value: Any) -> Iterator[str]:
    """Yield the names of all artefacts in a strategy, or in a part of a strategy."""
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
    """Return a copy of a strategy, or of a part, with the names of artefacts replaced.

    Args:
        value: The strategy or part. Not changed.
        resolve: Function from name and kind of an artefact to its path.
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
        if hasattr(value, "origin"):
            # A plug-in's class need not have this field, see `table._with_origin`.
            object.__setattr__(result, "origin", value.origin)
    typed: T = result
    return typed


def _is_part(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)
