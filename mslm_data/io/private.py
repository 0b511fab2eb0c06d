"""Warns if text is written to a folder that other users can enter."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from mslm_data.log import LOGGER


def warn_readable(folders: Iterable[Path]) -> None:
    """Log a warning for each existing folder that other users can enter or list.

    Files written there are readable only by their owner, but other users see their names and sizes.
    """
    if os.name != "posix":
        return
    for folder in folders:
        mode = stat.S_IMODE(folder.stat().st_mode) if folder.is_dir() else 0
        if mode & 0o077:
            LOGGER.warning(
                "%s: text, or tokens that can be turned back into it, goes to a folder that others "
                "can enter (mode %o); `chmod 700 %s` closes it",
                *(folder, mode, folder),
            )
