"""Reads text files of words, names and numbers, plain or gzipped."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal

from mslm_data.errors import MslmDataError, SourceError
from mslm_data.io.limits import iter_lines
from mslm_data.source.reading.files import opened


@contextmanager
def open_text(
    path: Path, error: type[MslmDataError], *, newline: Literal["", "\n"] = ""
) -> Iterator[IO[str]]:
    r"""Open a text file as UTF-8 without newline translation.

    Args:
        path: The file.
        error: Exception class for a file that is unreadable, truncated or not UTF-8; raised on
            opening, or when reading within the `with` block.
        newline: What ends a line: "\n" alone, or "" for carriage returns too. Default: "".
    """
    try:
        with (
            opened(path) as file,
            io.TextIOWrapper(file, encoding="utf-8-sig", newline=newline) as text,
        ):
            yield text
    except UnicodeDecodeError:
        raise error(f"{path}: not valid UTF-8; save the file as UTF-8") from None
    except SourceError as problem:
        raise error(str(problem)) from None


def read_lines(
    path: Path, error: type[MslmDataError], *, newline: Literal["", "\n"] = ""
) -> Iterator[str]:
    """Yield the lines of a text file, including line ends; see `open_text`."""
    with open_text(path, error, newline=newline) as file:
        yield from iter_lines(file, path, error)
