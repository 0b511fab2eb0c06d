"""Where inputs are: URLs and archives become local files, and files become splits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from mslm_data.data.document import split_order
from mslm_data.errors import SourceError
from mslm_data.source.reading.records import opened

_SPLIT_IN_NAME = {
    "train": re.compile(r"train"),
    "validation": re.compile(r"dev|valid|(?<![a-z])val(?![a-z])"),
    "test": re.compile(r"(?<!la)(?<!con)(?<!at)(?<!pro)test|(?<![a-z])eval"),
}
MAX_UNPACKED = 64 * 2**30
"""Bytes that a compressed file may grow to."""


class SingleFile:
    """A source whose every document lies in one file; see `Source.files`."""

    __slots__ = ()

    def files(self, path: Path) -> list[Path]:
        """Return the file itself."""
        return [path]


class Line(NamedTuple):
    """One line of a file: its number from 1, and its bytes without the line end."""

    number: int
    data: bytes


def split_of(name: str) -> str | None:
    """Return the split that a file's or folder's name speaks of, None where it speaks of none.

    Raises:
        SourceError: It speaks of several.
    """
    found = [split for split, pattern in _SPLIT_IN_NAME.items() if pattern.search(name.lower())]
    if len(found) > 1:
        raise SourceError(
            f"{name}: the name speaks of {' and '.join(found)}; say which files are which split with "
            f"[source] splits, such as splits = {{ train = ['*train*'] }}"
        )
    return found[0] if found else None


def by_split(
    inputs: Sequence[Path], *, suffixes: Sequence[str], splits: Mapping[str, Sequence[str]]
) -> dict[str, list[Path]]:
    """Sort input files into splits.

    With `splits`, each split takes the files whose path below the input matches one of its patterns. Without, a
    file belongs to the split that its name speaks of, or else the nearest folder's name below the input; files that
    speak of none are left out where others do, and are all `train` where none does.

    Args:
        inputs: Files or folders; folders are searched through.
        suffixes: What file names may end with (also followed by `.gz`); a file named directly may end with anything.
        splits: Split -> patterns as of `fnmatch`.

    Returns:
        Split -> files, sorted by path; train, validation and test first.

    Raises:
        SourceError: An input is missing, or no file fits.
    """
    sorted_out = assign(_candidates(inputs, suffixes), splits=splits)
    if not sorted_out:
        where = ", ".join(path.name for path in inputs)
        wanted = (
            "a file that [source] splits names"
            if splits
            else f"files ending with {', '.join(suffixes)}"
        )
        raise SourceError(f"{where}: expected {wanted}, found none; check --input and [source]")
    return sorted_out


def assign(
    found: Iterable[tuple[Path, str]], *, splits: Mapping[str, Sequence[str]]
) -> dict[str, list[Path]]:
    """Sort paths into splits by the names that go with them; the rule is that of `by_split`.

    Args:
        found: Paths, each with its name below the input.
        splits: Split -> patterns as of `fnmatch`; empty to go by the names alone.

    Returns:
        Split -> paths, each once, sorted; empty where no path fits.
    """
    named: dict[str, set[Path]] = {}
    rest: set[Path] = set()
    for path, below in found:
        if splits:
            of = [
                split
                for split, patterns in splits.items()
                if any(fnmatch(below, p) for p in patterns)
            ]
            if len(of) > 1:
                raise SourceError(
                    f"{below}: [source] splits puts it into {' and '.join(of)}; a file has one split"
                )
            split = of[0] if of else None
        else:
            split = next((s for s in map(split_of, reversed(Path(below).parts)) if s), None)
        (named.setdefault(split, set()) if split else rest).add(path)
    if not named and not splits and rest:
        named["train"] = rest
    return {split: sorted(named[split]) for split in sorted(named, key=split_order)}


def _candidates(inputs: Sequence[Path], suffixes: Sequence[str]) -> Iterator[tuple[Path, str]]:
    """Give each input file with its path below the input it was found in."""
    for root in inputs:
        if root.is_file():
            yield root, root.name
        elif root.is_dir():
            for path in sorted(root.rglob("*")):
                below = path.relative_to(root)
                hidden = any(part.startswith((".", "__MACOSX")) for part in below.parts)
                if (
                    path.is_file()
                    and not hidden
                    and path.name.removesuffix(".gz").endswith(tuple(suffixes))
                ):
                    yield path, below.as_posix()
        else:
            raise SourceError(
                f"{root}: expected a file or a folder, found nothing there; check --input"
            )


def read_bytes(path: Path, start: int = 0, stop: int = -1) -> bytes:
    """Read bytes `[start, stop)` of a file, of its unpacked form if it ends with `.gz`; -1 means to its end.

    Raises:
        SourceError: Missing, unreadable, truncated, or larger than `MAX_UNPACKED` when unpacked.
    """
    count = -1 if stop < 0 else stop - start
    with opened(path) as file:
        file.seek(start)
        if path.suffix != ".gz":
            return file.read(count)
        left = count if count >= 0 else MAX_UNPACKED + 1
        pieces = []
        while left and (
            piece := file.read(min(left, 1 << 20))
        ):  # read(n) would set n bytes aside at once
            pieces.append(piece)
            left -= len(piece)
        data = b"".join(pieces)
    if len(data) > MAX_UNPACKED:
        raise SourceError(
            f"{path.name}: unpacks to more than {MAX_UNPACKED >> 30} GiB; unpack it and pass the folder"
        )
    return data


def lines(data: bytes, *, first: int = 1) -> Iterator[Line]:
    """Give the lines of some bytes. Only LF and CRLF end a line; a byte order mark at the start of a file goes.

    Args:
        data: Whole lines.
        first: Number of the first.
    """
    pieces = (data.removeprefix(b"\xef\xbb\xbf") if first == 1 else data).split(b"\n")
    if pieces and not pieces[-1]:
        pieces.pop()
    for number, piece in enumerate(pieces, start=first):
        yield Line(number, piece.removesuffix(b"\r"))
