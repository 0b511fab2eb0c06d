"""Option types for output files, which do not overwrite files of another kind.

A mistyped path could otherwise replace a folder's manifest or a user's table. Both types check
before anything is read or counted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mslm_data.cli.options import FileOrFolder


class LexiconFile(FileOrFolder):
    """An output file for a lexicon: new, empty, or a lexicon to replace."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path, or fail for another file."""
        path: Path = super().convert(value, param, ctx)
        if not _is_new(path) and not _is_lexicon(path):
            problem = (
                f"expected a new file, or a lexicon to replace, got '{path}', which is no lexicon; "
                "choose another file, or remove it first"
            )
            self.fail(problem, param, ctx)
        return path


class TextFile(FileOrFolder):
    """An output file for text: any file that no build wrote."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path, or fail for a file of a built folder."""
        path: Path = super().convert(value, param, ctx)
        if path.exists() and not path.is_file():
            self.fail(f"expected a file, got '{path}', which is not a file", param, ctx)
        if _is_build_file(path):
            problem = (
                f"expected a new file, got '{path}', which belongs to a built folder; choose "
                "another file"
            )
            self.fail(problem, param, ctx)
        return path


def _is_new(path: Path) -> bool:
    """Return whether a path does not exist or is an empty file."""
    return not path.exists() or (path.is_file() and not path.stat().st_size)


def _is_lexicon(path: Path) -> bool:
    from mslm_data.errors import VocabularyError
    from mslm_data.lexicon.artefacts import LEXICON

    try:
        LEXICON.read_about(path)
    except VocabularyError:
        return False
    return True


def _is_build_file(path: Path) -> bool:
    """Return whether a file belongs to a built folder: its manifest, a shard or its card."""
    from mslm_data.errors import ShardError
    from mslm_data.shard.manifest import NAME, read_manifest

    file = path.resolve()
    for folder in file.parents[:2]:
        if not (folder / NAME).is_file():
            continue
        try:
            own = read_manifest(folder).files()
        except ShardError:  # another program's file of that name
            continue
        if file.relative_to(folder).as_posix() in own:
            return True
    return False
