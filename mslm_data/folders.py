"""Finds the cache folder, and checks whether other users can change the contents of a folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

CACHE = "MSLM_DATA_CACHE"
"""Environment variable for the path of the cache folder."""

_MAX_LINKS = 40
"""Maximum number of links to follow in a path, as in Linux."""


def cache_root() -> Path:
    """Return the cache folder: `MSLM_DATA_CACHE`, otherwise the platform's default."""
    import platformdirs

    named = os.environ.get(CACHE)
    return Path(named).expanduser() if named else platformdirs.user_cache_path("mslm-data")


def is_ours(folder: Path) -> bool:
    """Return whether only this user can write to a folder.

    Always True on Windows, whose file modes have no meaning.
    """
    if not hasattr(os, "geteuid"):
        return True
    status = folder.stat()
    return status.st_uid == os.geteuid() and not _others_may_write(status)


def first_open(folder: Path) -> Path | None:
    """Return the first folder on a path that other users could replace or change, or None.

    Such a folder is owned by a user other than this one and root, or is writable for others.
    Folders with the sticky bit, such as `/tmp`, are safe.
    """
    if not hasattr(os, "geteuid"):
        return None
    for place in _way(folder):
        status = place.lstat()
        if status.st_uid not in (0, os.geteuid()):
            return place
        is_sticky = bool(status.st_mode & stat.S_ISVTX)
        if stat.S_ISDIR(status.st_mode) and not is_sticky and _others_may_write(status):
            return place
    return None


def _way(path: Path) -> Iterator[Path]:
    """Yield each folder and link on a path, from the root."""
    remaining = [*reversed(path.absolute().parts)]
    at = Path(remaining.pop())
    yield at
    links = 0
    while remaining:
        name = remaining.pop()
        if name == "..":
            # Correct, because `at` has no links: they were replaced by their targets.
            at = at.parent
            continue

        yield at / name
        if not (at / name).is_symlink():
            at /= name
            continue

        # Continue with the parts of the link's target.
        links += 1
        if links > _MAX_LINKS:
            return
        target = (at / name).readlink()
        remaining += reversed(target.parts)
        if target.is_absolute():
            at = Path(remaining.pop())


def _others_may_write(status: os.stat_result) -> bool:
    """Return whether users other than its owner can write to a folder.

    Many systems give each user a private group with write permission: this group is safe.
    """
    if status.st_mode & stat.S_IWOTH:
        return True
    if not status.st_mode & stat.S_IWGRP:
        return False

    import grp
    import pwd

    try:
        owner = pwd.getpwuid(status.st_uid).pw_name
        group = grp.getgrgid(status.st_gid)
    except KeyError:  # a number without a name, as in some containers
        return True
    return group.gr_name != owner or not {owner}.issuperset(group.gr_mem)
