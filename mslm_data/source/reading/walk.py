"""Walks through input folders, past hidden files and past what this package made itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_UNFINISHED = ".build/locks"
"""A folder in each folder that a build has not finished."""
_FINISHED = ("manifest.json", "dataset_dict.json")
"""Files in each folder that a build has finished."""
_RECORD = ".made.json"
"""The name of a record of `mslm-data annotate` ends so, behind that of its file of lines."""


def plain_files(root: Path) -> Iterator[Path]:
    """Yield the files below a folder that may belong to a corpus, sorted.

    Hidden files, files added by macOS, and the output of this package are ignored.
    """
    made = MadeFiles(root)
    return (
        path
        for path in every_file(root)
        if not is_hidden(path.relative_to(root)) and not made.has(path)
    )


class MadeFiles:
    """Recognises the output of this package among the files below a folder.

    Those are the files of built folders, finished or not, and files of lines of `mslm-data
    annotate` with their records. Commands put them below their input where a user says so, and the
    same command must not read them when it is run again. A folder that a user names is read,
    whatever made it.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._built: dict[Path, bool] = {root: False}

    def has(self, path: Path) -> bool:
        """Return whether a file below the folder is one of them."""
        name = path.name
        if name.endswith(_RECORD) and path.with_name(name.removesuffix(_RECORD)).is_file():
            return True
        if name.endswith(".jsonl") and path.with_name(name + _RECORD).is_file():
            return True
        return self._is_built(path.parent)

    def _is_built(self, folder: Path) -> bool:
        """Return whether a folder is a built one, or lies in one."""
        if folder not in self._built:
            is_built = (folder / _UNFINISHED).is_dir() or all(
                (folder / name).is_file() for name in _FINISHED
            )
            self._built[folder] = is_built or self._is_built(folder.parent)
        return self._built[folder]


def every_file(root: Path) -> Iterator[Path]:
    """Give the files below a folder, sorted; links are followed that lead out of it.

    No folder is gone through twice. One that a link leads to within the root has its turn anyway,
    and a link to a folder above the root would lead back to it.
    """
    top = root.resolve()
    visited = {top}
    files: list[Path] = []
    for place, folders, names in os.walk(root, followlinks=True):
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
    """Return whether a path below an input is hidden, or was added by macOS."""
    return any(part.startswith((".", "__MACOSX")) for part in below.parts)
