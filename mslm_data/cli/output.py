"""Prints the results of commands: tables for people, one JSON object for programs."""

from __future__ import annotations

import codecs
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from mslm_data.log import plain
from mslm_data.results import Result, Styled


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


def has_colours() -> bool:
    """Return whether stdout shows colours: a terminal, unless `NO_COLOR` is set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def report(result: Result, *, as_json: bool) -> None:
    """Print the result of a command."""
    if as_json:
        print_json(result.to_json(), err=result.is_aside)
        return
    for part in result.tables():
        if isinstance(part, Styled):
            click.echo(part)
        else:
            echo(part if isinstance(part, str) else table(part.head, part.rows))


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return rows as aligned text: text left, numbers right, with thousands separators.

    Args:
        head: A heading for each column; empty for a table without headings.
        rows: Cells by row.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    lines = [[plain(name) for name in head], *cells] if head else cells
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    numeric = [
        bool(rows) and all(isinstance(row[column], int | float) for row in rows)
        for column in range(len(widths))
    ]

    # Align a column of numbers to the right, with its heading.
    aligned = []
    for line in lines:
        fields = [
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(line, widths, numeric, strict=True)
        ]
        aligned.append("  ".join(fields).rstrip())

    return "\n".join(aligned)


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
