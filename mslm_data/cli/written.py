"""Types of options that name a file to write, which refuse to replace what is not theirs.

A file is replaced by what a command writes, so a slip of the hand would lose a folder's manifest or
a table that somebody wrote. Both types look before anything is read or counted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mslm_data.cli.options import FileOrFolder


class LexiconFile(FileOrFolder):
    """A file to write a lexicon to: a new one, an empty one, or a lexicon to replace."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        path: Path = super().convert(value, param, ctx)
        if not _is_new(path) and not _is_lexicon(path):
            problem = (
                f"expected a new file, or a lexicon to replace, got '{path}', which holds "
                "something else; choose another file, or remove that one first"
            )
            self.fail(problem, param, ctx)
        return path


class TextFile(FileOrFolder):
    """A file to write text to: any but those that a build wrote."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        path: Path = super().convert(value, param, ctx)
        if path.exists() and not path.is_file():
            self.fail(f"expected a file, got '{path}', which is of another kind", param, ctx)
        if _is_build_file(path):
            problem = f"expected a new file, got '{path}' of a built folder; choose another file"
            self.fail(problem, param, ctx)
        return path


def _is_new(path: Path) -> bool:
    """Return whether nothing is lost where a path is written to."""
    return not path.exists() or (path.is_file() and not path.stat().st_size)


def _is_lexicon(path: Path) -> bool:
    from mslm_data.errors import VocabularyError
    from mslm_data.lexicon.artefacts import LEXICON, read_about

    try:
        read_about(path, LEXICON)
    except VocabularyError:
        return False
    return True


def _is_build_file(path: Path) -> bool:
    """Return whether a file is one of a built folder's own: its manifest, a shard, its card."""
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
