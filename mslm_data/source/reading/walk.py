"""Walks through input folders. Ignores hidden files and the output of this package."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from mslm_data.errors import SourceError

_UNFINISHED = ".build/locks"
"""Subfolder of an unfinished build."""
_FINISHED = ("manifest.json", "dataset_dict.json")
"""Files of a finished build."""


def plain_files(root: Path) -> Iterator[Path]:
    """Yield the files below a folder that may belong to a corpus, sorted.

    Hidden files, files added by macOS, and the output of this package are ignored; see `is_hidden`.
    """
    built: dict[Path, bool] = {root: False}
    return (
        path
        for path in every_file(root)
        if not is_hidden(path.relative_to(root)) and not is_output(path.parent, built)
    )


def is_output(folder: Path, built: dict[Path, bool]) -> bool:
    """Return whether a folder is a built folder, or below one.

    Users may write output below their input. Running the same command again must not read it. A
    folder given directly with `--input` is always read.

    Args:
        folder: The folder, below a folder of `built`.
        built: Cache. It has at least the folder that the user gave, with False.
    """
    if folder not in built:
        is_built = (folder / _UNFINISHED).is_dir() or all(
            (folder / name).is_file() for name in _FINISHED
        )
        built[folder] = is_built or is_output(folder.parent, built)
    return built[folder]


def every_file(root: Path) -> Iterator[Path]:
    """Return the files below a folder, sorted. Follows links that lead outside the folder.

    Each folder is visited once. A link to a folder within `root` is skipped, as that folder is
    visited anyway; a link to a parent of `root` is skipped, as it would lead back.

    Raises:
        SourceError: A folder cannot be listed. Its files would be missing without a word.
    """

    def check(error: OSError) -> None:
        # A folder may be removed meanwhile, such as the temporary one of another process.
        if not isinstance(error, FileNotFoundError) and not is_hidden(
            Path(error.filename).relative_to(root)
        ):
            raise SourceError(
                f"{error.filename}: cannot list the folder ({error.strerror}); make it readable, "
                "or pass the files and folders to read with --input"
            ) from None

    top = root.resolve()
    visited = {top}
    files: list[Path] = []
    for place, folders, names in os.walk(root, onerror=check, followlinks=True):
        folder = Path(place)
        files += (folder / name for name in names)
        below = {name: (folder / name).resolve() for name in sorted(folders)}
        folders[:] = []
        for name, real in below.items():
            leads_back = (folder / name).is_symlink() and (
                real.is_relative_to(top) or top.is_relative_to(real)
            )
            if real not in visited and not leads_back:
                visited.add(real)
                folders.append(name)
    return (path for path in sorted(files) if path.is_file())


def is_hidden(below: Path) -> bool:
    """Return whether a path below the input is hidden, or was added by macOS or a file system."""
    return any(part.startswith((".", "__MACOSX", "lost+found")) for part in below.parts)
