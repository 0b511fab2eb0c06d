"""Reads text files of words, names and numbers, plain or gzipped."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal

from mslm_data.errors import MslmDataError, SourceError, VocabularyError
from mslm_data.io import resources
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


def read_stop_words(name: str) -> frozenset[str]:
    """Read lower-cased stop words, one per line.

    `english` is the shipped list, `none` an empty list.

    Raises:
        VocabularyError: The file is missing or not UTF-8, or a line has several words.
    """
    if name == "none":
        return frozenset()

    path = resources.path("vocab", "stop-words-english.txt") if name == "english" else Path(name)
    if not path.is_file():
        raise VocabularyError(
            f"{name}: no such file of stop words; `english` names those that are shipped"
        )

    words = set()
    for number, line in enumerate(read_lines(path, VocabularyError), start=1):
        if len(line.split()) > 1:
            raise VocabularyError(
                f"{name}:{number}: expected one stop word a line, got a line of several words; "
                "leave counts and comments out"
            )
        words.update(line.lower().split())
    return frozenset(words)
