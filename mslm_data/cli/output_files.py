"""The option type for output files, which replace no file of another kind.

A mistyped path could otherwise replace a folder's manifest or a user's table. The type checks
before anything is read or counted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mslm_data.cli.options import FileOrFolder


class OutputFile(FileOrFolder):
    """An output file: any file that no build wrote. A lexicon replaces lexicons only."""

    def __init__(self, *, is_lexicon: bool = False) -> None:
        """Create the type.

        Args:
            is_lexicon: Whether the file is a lexicon. Default: False, text.
        """
        super().__init__(dir_okay=False)
        self._is_lexicon = is_lexicon

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path, or fail for a file of another kind."""
        path: Path = super().convert(value, param, ctx)
        if self._is_lexicon and not (_is_new(path) or _is_lexicon(path)):
            problem = (
                f"expected a new file, or a lexicon to replace, got '{path}', which is no lexicon; "
                "choose another file, or remove it first"
            )
            self.fail(problem, param, ctx)
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
