"""Says where things are cached, and whether another user could change what a folder holds."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

CACHE = "MSLM_DATA_CACHE"
"""Environment variable that names another folder for what is cached."""

_MOST_LINKS = 40
"""Links that are followed on the way to a folder, as Linux does."""


def cache_root() -> Path:
    """Return the folder of all that is cached: `MSLM_DATA_CACHE`, or the platform's own."""
    import platformdirs

    named = os.environ.get(CACHE)
    return Path(named).expanduser() if named else platformdirs.user_cache_path("mslm-data")


def is_ours(folder: Path) -> bool:
    """Return whether a folder is this user's, who alone may write into it.

    On Windows, where modes say nothing, every folder is.
    """
    if not hasattr(os, "geteuid"):
        return True
    status = folder.stat()
    return status.st_uid == os.geteuid() and not _others_may_write(status)


def first_open(folder: Path) -> Path | None:
    """Return the first folder on the way to a folder where others could put something in its place.

    That is one of another user than this one and root, or one that others may write into and rename
    what lies there. In a folder with the sticky bit, such as `/tmp`, they cannot. None if there is
    no such folder.
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
    """Give each folder and each link on the way to a path, from the root on."""
    left = [*reversed(path.absolute().parts)]
    at = Path(left.pop())
    yield at
    links = 0
    while left:
        name = left.pop()
        if name == "..":
            at = at.parent  # no link leads here: those before were replaced by what they lead to
            continue

        yield at / name
        if not (at / name).is_symlink():
            at /= name
            continue
        links += 1
        if links > _MOST_LINKS:
            return
        target = (at / name).readlink()
        left += reversed(target.parts)
        if target.is_absolute():
            at = Path(left.pop())


def _others_may_write(status: os.stat_result) -> bool:
    """Return whether others than a folder's owner may write into it.

    Many systems give each user a group of the same name, and let it write by default.
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
