"""Sorts input files into splits, by patterns of the pipeline or by what their names say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path

from mslm_data.data.document import split_order
from mslm_data.errors import SourceError
from mslm_data.source.table import SOURCES

_SPLIT_IN_NAME = {
    "train": re.compile(r"train"),
    "validation": re.compile(r"dev|valid|(?<![a-z])val(?![a-z])"),
    # Not the end of "latest", "contest", "attest" or "protest".
    "test": re.compile(r"(?<!la)(?<!con)(?<!at)(?<!pro)test|(?<![a-z])eval"),
}
_BINARY = (".parquet", ".arrow", ".feather")
"""Suffixes of tables that no reader of text can make anything of."""


def split_of(name: str) -> str | None:
    """Return the split that the name of a file or folder speaks of, None where it speaks of none.

    Raises:
        SourceError: It speaks of several.
    """
    found = [split for split, pattern in _SPLIT_IN_NAME.items() if pattern.search(name.lower())]
    if len(found) > 1:
        raise SourceError(
            f"{name}: expected a name that speaks of one split, got {' and '.join(found)}; say "
            "which files are which split with [source] splits, such as splits = "
            f"{{ train = ['*train*'] }}"
        )
    return found[0] if found else None


def by_split(
    inputs: Sequence[Path], *, suffixes: Sequence[str], splits: Mapping[str, Sequence[str]]
) -> dict[str, list[Path]]:
    """Sort input files into splits.

    With `splits`, each split takes the files whose path below the input matches one of its
    patterns.

    Without, a file belongs to the split that its name speaks of, or else the name of the nearest
    folder below the input. Files that speak of no split are left out where other files speak of
    one; where none does, all are `train`.

    Args:
        inputs: Files, or folders that are searched through.
        suffixes: What file names may end with (`.gz` may follow). A text file that is named
            directly may end with anything.
        splits: Split -> patterns as of `fnmatch`.

    Returns:
        Split -> files, sorted by path; train, validation and test first.

    Raises:
        SourceError: An input is missing, or no file fits.
    """
    sorted_out = assign(_candidates(inputs, suffixes), splits=splits)
    if not sorted_out:
        where = ", ".join(path.name for path in inputs)
        wanted = f"files ending with {', '.join(suffixes)}"
        if splits:
            wanted = "a file that [source] splits names"
        raise SourceError(
            f"{where}: expected {wanted}, found none; check --input and "
            f"[source]{_other_sources(inputs, suffixes)}"
        )
    return sorted_out


def assign(
    found: Iterable[tuple[Path, str]], *, splits: Mapping[str, Sequence[str]]
) -> dict[str, list[Path]]:
    """Sort paths into splits by the names that go with them, as `by_split` does.

    Args:
        found: Paths, each with its name below the input.
        splits: Split -> patterns as of `fnmatch`; if empty, the names alone decide.

    Returns:
        Split -> paths, each once, sorted; empty where no path fits.

    Raises:
        SourceError: A file fits several splits.
    """
    named: dict[str, set[Path]] = {}
    rest: set[Path] = set()
    for path, below in found:
        split = _matching(below, splits) if splits else _nearest(below)
        if split:
            named.setdefault(split, set()).add(path)
        else:
            rest.add(path)

    if rest and not named and not splits:
        named["train"] = rest
    return {split: sorted(named[split]) for split in sorted(named, key=split_order)}


def _matching(below: str, splits: Mapping[str, Sequence[str]]) -> str | None:
    """Return the split whose patterns a path below the input matches."""
    matching = [
        split
        for split, patterns in splits.items()
        if any(fnmatch(below, pattern) for pattern in patterns)
    ]
    if len(matching) > 1:
        raise SourceError(
            f"{below}: expected one split, got {' and '.join(matching)}; change the patterns of "
            "[source] splits"
        )
    return matching[0] if matching else None


def _nearest(below: str) -> str | None:
    """Return the split that a file's name speaks of, or else the nearest of its folders."""
    for name in reversed(Path(below).parts):
        split = split_of(name)
        if split:
            return split
    return None


def _candidates(inputs: Sequence[Path], suffixes: Sequence[str]) -> Iterator[tuple[Path, str]]:
    """Give each input file that may be of the format, with its path below its input."""
    for root in inputs:
        if root.is_file():
            if root.name.endswith(_BINARY) and not _ends_with(root, suffixes):
                raise SourceError(
                    f"{root}: expected a file ending with {', '.join(suffixes)}, got a binary "
                    f"table; check [source] use{_other_sources([root], suffixes)}"
                )
            yield root, root.name
        elif root.is_dir():
            for path in _files_below(root):
                if _ends_with(path, suffixes):
                    yield path, path.relative_to(root).as_posix()
        else:
            raise SourceError(
                f"{root}: expected a file or a folder, found nothing there; check --input"
            )


def _files_below(root: Path) -> Iterator[Path]:
    """Give the files below a folder, sorted, without hidden ones and those macOS adds."""
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        is_hidden = any(part.startswith((".", "__MACOSX")) for part in parts)
        if path.is_file() and not is_hidden:
            yield path


def _ends_with(path: Path, suffixes: Iterable[str]) -> bool:
    return path.name.removesuffix(".gz").endswith(tuple(suffixes))


def _other_sources(inputs: Sequence[Path], suffixes: Sequence[str]) -> str:
    """Return a hint at other sources that read the files there, "" for none.

    Only for error messages, as it imports the readers of all formats.
    """
    found = [path for root in inputs for path in ([root] if root.is_file() else _files_below(root))]
    hints = []
    for name in SOURCES.names():
        theirs = set(SOURCES.load(name).suffixes) - set(suffixes)
        present = sorted(suffix for suffix in theirs if any(_ends_with(p, [suffix]) for p in found))
        if present:
            hints.append(f"source '{name}' reads {', '.join(present)}")
    return f"; of the files there, {' and '.join(hints)}" if hints else ""
