"""A warning where text goes to a folder that others can enter."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

import click


def warn_of_readers(folders: Iterable[Path]) -> None:
    """Warn on stderr of folders that are there already and that others than their owner can enter or list.

    What is written into them is readable by its owner alone all the same; names and sizes are for all to see.
    """
    for folder in folders:
        mode = stat.S_IMODE(folder.stat().st_mode) if folder.is_dir() and os.name == "posix" else 0
        if mode & 0o077:
            click.echo(
                f"warning: {folder}: text, or what it can be made of again, goes to a folder that others can enter "
                f"(mode {mode:o}); `chmod 700 {folder}` closes it",
                err=True,
            )
