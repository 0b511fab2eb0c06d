"""Write strategies as TOML, so that users can print, copy and change them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

USUAL_PICK = "units"
"""The pick of tables without `use`."""


def to_table(part: Any) -> dict[str, Any]:
    """Return a part of a strategy as a table with its tag, if it has one, and its fields.

    TOML has no null, so fields that are None and artefacts without a name are omitted.
    """
    table: dict[str, Any] = {}
    tag = getattr(part, "tag", None)
    if tag not in (None, USUAL_PICK):
        table["use"] = tag
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        unnamed = field.metadata.get("artefact") and value == ""
        if value is not None and not unnamed:
            table[field.name] = plain(value)
    return table


def plain(value: Any) -> Any:
    """Convert a value to tables, lists and plain values."""
    if isinstance(value, tuple | list):
        return [plain(inner) for inner in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return to_table(value)
    return value


def dump(table: Mapping[str, Any], name: str) -> str:
    """Return a table as TOML under its name, with arrays of tables."""
    return "\n".join(_lines(table, name, header=f"[{name}]")) + "\n"


def _lines(table: Mapping[str, Any], name: str, *, header: str) -> Iterator[str]:
    yield header

    # TOML requires the plain values of a table before its sub-tables.
    for key, value in table.items():
        if not _is_tables(value):
            yield f"{key} = {_value(value)}"

    for key, value in table.items():
        if _is_tables(value):
            for inner in value:
                yield ""
                yield from _lines(inner, f"{name}.{key}", header=f"[[{name}.{key}]]")


def _value(value: Any, depth: int = 0) -> str:
    """Format a value. A list with nested tables gets one line per item."""
    if not isinstance(value, list) or not any(isinstance(x, list | Mapping) for x in value):
        return inline(value)

    indent = "    " * (depth + 1)
    items = [f"{indent}{_value(inner, depth + 1)},\n" for inner in value]
    return f"[\n{''.join(items)}{'    ' * depth}]"


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(x, Mapping) for x in value)


def inline(value: Any) -> str:
    """Format a value as TOML on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{key} = {inline(inner)}" for key, inner in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, list):
        return f"[{', '.join(inline(inner) for inner in value)}]"
    return repr(value)
