"""Prints the results of commands: tables for people, one JSON object for programs."""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Sequence
from typing import Any

import click

from mslm_data.log import plain


def echo(message: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a message to stdout or stderr, with control characters of the corpus escaped."""
    click.echo(plain(str(message), keep="\n\t"), err=err, nl=nl)


def print_json(value: Any, *, err: bool = False) -> None:
    """Print one JSON object to stdout or stderr.

    Characters outside ASCII are escaped if the stream is not UTF, because JSON allows only these.
    """
    encoding = getattr(sys.stderr if err else sys.stdout, "encoding", None) or "utf-8"
    takes_all = codecs.lookup(encoding).name.startswith("utf")
    echo(json.dumps(value, ensure_ascii=not takes_all), err=err)


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return rows as aligned text: text left, numbers right, with thousands separators."""
    cells = [[_cell(value) for value in row] for row in rows]
    head = [plain(name) for name in head]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    numeric = [
        bool(rows) and all(isinstance(row[column], int | float) for row in rows)
        for column in range(len(head))
    ]

    # Align a column of numbers to the right, with its heading.
    lines = []
    for line in ([*head], *cells):
        fields = [
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(line, widths, numeric, strict=True)
        ]
        lines.append("  ".join(fields).rstrip())

    return "\n".join(lines)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as "1 file" or "1,000 files"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def other_files(names: Sequence[str]) -> str:
    """Describe files that no build writes, by their number and the first name."""
    such_as = ", " if len(names) == 1 else ", such as "
    return f"{counted(len(names), 'file')} that no build writes{such_as}{names[0]}"


def defused(text: str) -> str:
    """Prefix a cell with `'` if a spreadsheet would run it as a formula."""
    if text.startswith(("=", "+", "-", "@", "\t", "\r")):
        return f"'{text}"
    return text


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    if isinstance(value, int):
        return f"{value:,}"
    return plain(str(value))
