"""Looks at Python, CPUs, the cache folder and its locks, and imports nothing heavy."""

from __future__ import annotations

import getpass
import os
import platform
import re
import socket
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mslm_data.engine.cpus import cpus as default_workers
from mslm_data.engine.cpus import cpus_of_group, usable_cpus
from mslm_data.errors import MslmDataError
from mslm_data.io import cache
from mslm_data.io.files import make_folder
from mslm_data.io.locks import HeldError, locked

FLOCK = "flock"
OWNER_FILES = "files that name their owner"

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS")
_LONGEST_NUMBER = 9
"""Digits of the largest number of threads that is believed."""
_LEAST_NAME = 3
"""Shorter names of users and machines stand in too many words to be taken out of them."""


def python() -> dict[str, Any]:
    """Return the version and the kind of this Python."""
    return {
        "version": platform.python_version(),
        "implementation": platform.python_implementation(),
    }


def system() -> dict[str, str]:
    """Return the system, the processor's kind and the C library; "" where unknown."""
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()).strip(),
    }


# CPUs ---------------------------------------------------------------------------------------------


def cpus() -> dict[str, Any]:
    """Return how many CPUs there are, and how many of them this process may use.

    Returns:
        `machine` CPUs are there, `usable` may be run on, control groups allow the time of
        `control_group` (None: all), and builds start `workers` of their own accord.
    """
    return {
        "machine": os.cpu_count() or 1,
        "usable": usable_cpus(),
        "control_group": cpus_of_group(),
        "workers": default_workers(),
    }


def threads() -> dict[str, int]:
    """Return the variables that limit threads, as far as they are numbers."""
    given = {name: os.environ.get(name, "") for name in _THREADS}
    return {
        name: int(value)
        for name, value in given.items()
        if value.isdecimal() and len(value) <= _LONGEST_NUMBER
    }


def numba_has_no_thread() -> bool:
    """Return whether `NUMBA_NUM_THREADS` leaves numba no thread, so that it cannot be imported."""
    value = os.environ.get("NUMBA_NUM_THREADS", "").strip()
    return re.fullmatch(r"[+-]?0+|-\d+", value) is not None


# The cache folder ---------------------------------------------------------------------------------


def cache_folder() -> dict[str, Any]:
    """Return where the cache folder is, what names it, and whether it can be written."""
    found: dict[str, Any] = {
        "folder": "",
        "named_by": cache.VARIABLE if os.environ.get(cache.VARIABLE) else None,
        "writable": False,
        "files": 0,
        "bytes": 0,
        "error": None,
    }
    try:
        root = cache.root()
        found["folder"] = anonymous(str(root))
        found["files"], found["bytes"] = size_of(root)
        with _trial_folder() as folder:
            (Path(folder) / "file").write_bytes(b"1")
    except ImportError as error:
        found["error"] = anonymous(str(error))
    except OSError as error:
        found["error"] = error.strerror or type(error).__name__
    else:
        found["writable"] = True
    return found


def locks() -> str:
    """Lock a file of the cache folder; return `FLOCK`, `OWNER_FILES`, or what went wrong.

    A second lock on a file that is locked has to be refused: some file systems grant both.
    """
    try:
        with _trial_folder() as folder:
            path = Path(folder) / "lock"
            with locked(path, error=MslmDataError, patience=0):
                return _second_lock(path)
    except HeldError:
        return "a lock on a new file was refused"
    except ImportError as error:
        return anonymous(str(error))
    except OSError as error:
        return error.strerror or type(error).__name__
    except MslmDataError as error:
        return anonymous(str(error))


def _second_lock(path: Path) -> str:
    """Lock a file that is locked, and return what that shows."""
    try:
        with locked(path, error=MslmDataError, patience=0):
            return "two locks on one file were granted at a time"
    except HeldError:
        return OWNER_FILES if path.with_name(f"{path.name}.owner").exists() else FLOCK


def _trial_folder() -> TemporaryDirectory[str]:
    """Make a folder in the cache folder, which is made too, to be removed after use."""
    root = cache.root()
    make_folder(root)
    return TemporaryDirectory(prefix=".doctor-", dir=root)


def size_of(root: Path) -> tuple[int, int]:
    """Return the number of files below a folder, and their bytes, as far as it can be read."""
    files = size = 0
    for place, _, names in os.walk(root):
        for name in names:
            try:
                size += os.lstat(Path(place, name)).st_size
            except OSError:
                continue
            files += 1
    return files, size


# What is said -------------------------------------------------------------------------------------


def anonymous(words: str) -> str:
    """Return words without the user's home, the user's name in paths, and the machine's name."""
    home = os.path.expanduser("~").rstrip("/\\")
    if home not in ("", "~"):
        words = re.sub(rf"{re.escape(home)}(?![\w-])", "~", words)
    for name, stands in ((_user(), "USER"), (socket.gethostname(), "HOST")):
        if len(name) >= _LEAST_NAME and name != "localhost":
            words = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", stands, words)
    return words


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a number without a name, as in some containers
        return ""
