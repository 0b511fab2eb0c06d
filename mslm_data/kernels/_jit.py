"""Compile kernels on first use, and cache the machine code by a digest of all kernel sources.

The cache of numba checks only the file of the decorated function. After an edit of a callee in
another file, it would load stale machine code. So the name of the cache folder is a digest of all
kernel sources and of the versions of numba and Python.
"""

from __future__ import annotations

import hashlib
import os
import platform
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba
import numpy as np
import numpy.typing as npt

from mslm_data.folders import cache_root, first_open, is_ours
from mslm_data.log import note_to_who_waits

P = ParamSpec("P")
R = TypeVar("R")
Array = npt.NDArray[Any]

config: Any = numba.config  # Any: numba is typed in some of the versions we allow
njit: Any = numba.njit


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a loop over arrays on its first call for each set of types.

    The code runs in one thread, releases the GIL, and does not reorder floating-point operations.

    With `NUMBA_DISABLE_JIT=1` the function stays Python. Overflow of uint64 then gives no warning,
    as in compiled code.
    """
    return _compiled(function, inline="never")


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Inline a helper into each kernel that calls it, instead of compiling it on its own.

    For helpers that are an expression, or that a kernel calls only once: a separate function takes
    a tenth of a second to compile for each set of types.
    """
    return _compiled(function, inline="always")


def _compiled(function: Callable[P, R], *, inline: str) -> Callable[P, R]:
    if config.DISABLE_JIT:
        return np.errstate(over="ignore")(function)

    log_compilation()
    # numba reads CACHE_DIR when a function is decorated. Restore the user's setting afterwards.
    folder = cache_folder()
    users_own = config.CACHE_DIR
    config.CACHE_DIR = str(folder or "")
    try:
        options = njit(nogil=True, inline=inline, cache=folder is not None, no_cfunc_wrapper=True)
        compiled: Callable[P, R] = options(function)
    finally:
        config.CACHE_DIR = users_own
    if folder is not None:
        _use_unique_names(compiled)
    return compiled


def _use_unique_names(compiled: Any) -> None:
    """Make numba store machine code in files with unique names.

    numba numbers the files of a kernel. Two processes that compile it at the same time, for other
    types or another CPU, would use the same number. Then the index of one process may refer to the
    code of the other, which would be called with arrays of the wrong type from then on. With unique
    names, only one of two indices is lost, and its code is compiled again.
    """
    # Private attributes of numba, which has no public option for this. If a version of numba lacks
    # them, its own names are kept.
    file: Any = getattr(compiled._cache, "_cache_file", None)
    if not (hasattr(file, "_data_name") and hasattr(file, "_index_name")):
        return

    stem = file._index_name.removesuffix(".nbi")

    def data_name(_number: int) -> str:
        return f"{stem}.{uuid.uuid4().hex}.nbc"

    file._data_name = data_name


@cache
def log_compilation() -> None:
    """Log that kernels will be compiled, once per process; nothing if some are in the cache."""
    if config.DISABLE_JIT:
        return

    folder = cache_folder()
    if folder is None:
        note_to_who_waits(
            "compiling kernels, which takes some seconds in each run, since there is no safe cache "
            "folder; set MSLM_DATA_CACHE to a folder that only you can write to"
        )
    elif not any(folder.rglob("*.nbi")):
        note_to_who_waits("compiling kernels, once after an installation; this takes some seconds")


# Cache folder -------------------------------------------------------------------------------------


@cache
def cache_folder() -> Path | None:
    """Return the cache folder of compiled kernels, or None if no folder is safe to use.

    It is `kernels/DIGEST` in `$MSLM_DATA_CACHE`, by default in the user's cache folder, and made if
    missing. numba unpickles files from it, so a folder is not used if another user could write to
    it or replace it. Its modification time is the time of its last use, so that `find -mtime` finds
    unused folders.
    """
    kernels = cache_root() / "kernels"
    folder = kernels / sources_digest(Path(__file__).parent)

    try:
        for path in (*reversed(folder.parents), folder):
            if not path.is_dir():
                path.mkdir(mode=0o700, exist_ok=True)
        usable = is_ours(kernels) and is_ours(folder) and first_open(folder) is None
        usable = usable and os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        return None
    if not usable:
        return None

    with suppress(OSError):  # not all file systems support it
        os.utime(folder)
    return folder


def sources_digest(folder: Path) -> str:
    """Return a digest of all `.py` files of a folder and of the versions of numba and Python.

    It has 16 hex digits.
    """
    versions = f"numba {numba.__version__} python {platform.python_version()}"
    digest = hashlib.sha256(versions.encode())
    for path in sorted(folder.glob("*.py")):
        source = path.read_bytes()
        digest.update(f"\n{path.name} {len(source)}\n".encode() + source)
    return digest.hexdigest()[:16]
