"""Results of calls and commands: data with two renderings, a JSON object and tables.

A result is a dataclass or a `msgspec.Struct`. Its fields are the keys of `--json`, so that nobody
lists them a second time. A result that nests another and prints its keys beside its own overrides
`to_json`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec


class Table(NamedTuple):
    """A table for people.

    Attributes:
        rows: Cells by row: text, or numbers, which are aligned to the right.
        head: A heading for each column. Default: no line of headings.
    """

    rows: Sequence[Sequence[Any]]
    head: Sequence[str] = ()


class Styled(str):
    """A line that is printed as it is, with the codes of its colours."""

    __slots__ = ()


class Result:
    """Base class of results."""

    __slots__ = ()

    @property
    def exit_code(self) -> int:
        """Exit code of the command. Default: 0."""
        return 0

    @property
    def is_aside(self) -> bool:
        """Whether `--json` prints to stderr, since stdout has the output itself. Default: False."""
        return False

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values, at any depth."""
        fields: dict[str, Any] = plain_values(self)
        return fields

    def tables(self) -> Iterator[str | Table]:
        """Yield what a command prints: lines of text, and tables. Default: nothing."""
        yield from ()


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as "1 file" or "1,000 files"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def plain_values(value: Any) -> Any:
    """Return dataclasses, structs, mappings and sequences as dicts and lists, and paths as text."""
    return msgspec.to_builtins(value, enc_hook=_as_text)


def _as_text(value: Any) -> str:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(f"expected values that JSON knows, got {type(value).__name__}")
