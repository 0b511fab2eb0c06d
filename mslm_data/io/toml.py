"""Writes TOML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_NESTED = (list, tuple, Mapping)
"""Values whose lists have a line for each item."""


def dump(tables: Mapping[str, Any]) -> str:
    """Return tables as TOML. Values that are None, which TOML does not have, are left out."""
    return "\n".join(_lines(tables, ())).strip("\n") + "\n"


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    # TOML requires the plain values of a table before its sub-tables.
    values = {key: value for key, value in table.items() if value is not None}
    for key, value in values.items():
        if not _is_table(value, path) and not _is_tables(value):
            yield f"{_key(key)} = {_value(value)}"

    for key, value in values.items():
        name = ".".join(map(_key, (*path, key)))
        if _is_table(value, path):
            yield from ("", f"[{name}]", *_lines(value, (*path, key)))
        elif _is_tables(value):
            for inner in value:
                yield from ("", f"[[{name}]]", *_lines(inner, (*path, key)))


def _is_table(value: Any, path: tuple[str, ...]) -> bool:
    """Return whether a value gets a header; tables within tables are written on one line."""
    return isinstance(value, Mapping) and not path


def _is_tables(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(map(_is_mapping, value))


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else inline(key)


def _value(value: Any, depth: int = 0) -> str:
    """Format a value. A list with nested tables gets one line per item."""
    if not isinstance(value, list | tuple) or not any(isinstance(x, _NESTED) for x in value):
        return inline(value)

    indent = "    " * (depth + 1)
    items = [f"{indent}{_value(inner, depth + 1)},\n" for inner in value]
    return f"[\n{''.join(items)}{'    ' * depth}]"


def inline(value: Any) -> str:
    """Format a value as TOML on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # TOML escapes as JSON does, and the delete character besides.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        pairs = [f"{_key(key)} = {inline(x)}" for key, x in value.items() if x is not None]
        return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(inline, value))}]"
    return repr(value)
