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
from numba.core import cpu as numba_cpu
from numba.core import event as numba_events

from mslm_data.folders import cache_root, first_open, is_ours
from mslm_data.log import note_to_who_waits

P = ParamSpec("P")
R = TypeVar("R")
Array = npt.NDArray[Any]

config: Any = numba.config  # Any: numba is typed in some of the versions we allow
njit: Any = numba.njit
events: Any = numba_events
local_cpu: Any = numba_cpu

_KERNELS: list[Any] = []
"""Dispatchers (numba's compiled functions) of all imported kernels."""


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
        _skip_declarations(compiled)
        _use_unique_names(compiled)
    _KERNELS.append(compiled)
    return compiled


def _skip_declarations(compiled: Any) -> None:
    """Make numba load cached machine code without importing its declarations of functions.

    numba imports all declarations before it looks into the cache. This takes 0.3 of the 1.0 seconds
    of CPU time of `mask-stats` on a small folder, in each command and worker. Loaded code needs
    only the runtime of numba. Before a compilation, numba imports the declarations anyway.
    """
    stored = compiled._cache

    def load_overload(signature: Any, context: Any) -> Any:
        local_cpu.rtsys.initialize(context)
        with stored._guard_against_spurious_io_errors():
            return stored._load_overload(signature, context)

    # Private attributes of numba, which has no public option for this. If a version of numba lacks
    # them, its own method is kept.
    known = (stored, "_load_overload"), (stored, "_guard_against_spurious_io_errors")
    if all(hasattr(*place) for place in (*known, (local_cpu, "rtsys"))):
        stored.load_overload = load_overload


def _use_unique_names(compiled: Any) -> None:
    """Make numba store machine code in files with unique names.

    numba numbers the files of a kernel. Two processes that compile it at the same time, for other
    types or another CPU, would use the same number. Then the index of one process may refer to the
    code of the other, which would be called with arrays of the wrong type from then on. With unique
    names, only one of two indices is lost, and its code is compiled again.
    """
    # Private attributes of numba, as above.
    file: Any = getattr(compiled._cache, "_cache_file", None)
    if not (hasattr(file, "_data_name") and hasattr(file, "_index_name")):
        return

    stem = file._index_name.removesuffix(".nbi")

    def data_name(_number: int) -> str:
        return f"{stem}.{uuid.uuid4().hex}.nbc"

    file._data_name = data_name


# Progress messages --------------------------------------------------------------------------------


class _Listener:
    """Listener to numba's compilations. Functions from the cache cause no event."""

    def notify(self, event: Any) -> None:
        """Log a message if a kernel of this package is being compiled."""
        if event.data["dispatcher"].py_func.__module__.startswith("mslm_data."):
            log_compilation()


events.Listener.register(_Listener)
events.register("numba:compile", _Listener())


@cache
def log_compilation() -> None:
    """Log that kernels are being compiled, once per process."""
    if cache_folder() is None:
        note_to_who_waits(
            "compiling kernels, which takes some seconds in each run, since there is no safe cache "
            "folder; set MSLM_DATA_CACHE to a folder that only you can write to"
        )
    else:
        note_to_who_waits("compiling kernels, once after an installation; this takes some seconds")


def log_compilation_of_workers() -> None:
    """Log that worker processes will compile kernels, if none is cached."""
    folder = cache_folder()
    if not config.DISABLE_JIT and (folder is None or not any(folder.rglob("*.nbi"))):
        log_compilation()


def load_compiled() -> None:
    """Load the machine code of all imported kernels from the cache.

    Processes forked from this one share it. Otherwise each process loads a kernel at its first
    call.
    """
    for dispatcher in _KERNELS:
        # Private attributes of numba, which has no public way to list cached code. If a version of
        # numba lacks them, nothing is loaded here.
        with suppress(Exception):
            stored = dispatcher._cache
            codegen = dispatcher.targetctx.codegen()
            for key in stored._cache_file._load_index():
                signature = key[0]
                if stored._index_key(signature, codegen) == key:  # compiled for this CPU
                    dispatcher.compile(signature)


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
