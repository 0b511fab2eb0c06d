"""Compile kernels on first use, and keep the machine code in a folder named after their sources.

numba's own cache looks at the file of the decorated function only. After an edit of a callee in
another file it would serve yesterday's machine code. Here the folder's name is a digest of every
kernel source, of numba and of Python.
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
"""All kernels that were imported, as numba's dispatchers."""


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a loop over arrays: types as they come, one thread, exact floats.

    Other threads run meanwhile, as compiled code needs nothing of Python.

    With `NUMBA_DISABLE_JIT=1` the function stays plain Python. Sums of uint64 then wrap as silently
    as they do in compiled code.
    """
    return _compiled(function, inline="never")


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Copy a helper into each kernel that calls it, in place of compiling it by itself.

    A function costs a tenth of a second to compile, for each set of types. A copy costs its share
    of the caller. So this is for helpers that a kernel calls at one place, or that are an
    expression.
    """
    return _compiled(function, inline="always")


def _compiled(function: Callable[P, R], *, inline: str) -> Callable[P, R]:
    """Return numba's dispatcher of a function."""
    if config.DISABLE_JIT:
        return np.errstate(over="ignore")(function)

    # numba reads its setting where a function is decorated, so it is ours for that line only.
    folder = cache_folder()
    users_own = config.CACHE_DIR
    config.CACHE_DIR = str(folder or "")
    try:
        options = njit(nogil=True, inline=inline, cache=folder is not None, no_cfunc_wrapper=True)
        compiled: Callable[P, R] = options(function)
    finally:
        config.CACHE_DIR = users_own
    if folder is not None:
        _put_off_declarations(compiled)
        _store_apart(compiled)
    _KERNELS.append(compiled)
    return compiled


def _put_off_declarations(compiled: Any) -> None:
    """Have numba load stored machine code without reading what functions it could compile.

    Before it looks for stored code it reads all declarations that it has, and imports their
    modules: a third of the CPU time of `mask-stats` on a small folder (0.3 of 1.0 seconds), in each
    command and worker. It does so again before it compiles anything. Machine code that is
    loaded needs nothing of them but numba's runtime, whose functions it calls.

    Args:
        compiled: A kernel, as numba's dispatcher.
    """
    stored = compiled._cache

    def load_overload(signature: Any, context: Any) -> Any:
        local_cpu.rtsys.initialize(context)
        with stored._guard_against_spurious_io_errors():
            return stored._load_overload(signature, context)

    # numba has no public way to say this. A version that keeps these elsewhere goes its own way.
    known = (stored, "_load_overload"), (stored, "_guard_against_spurious_io_errors")
    if all(hasattr(*place) for place in (*known, (local_cpu, "rtsys"))):
        stored.load_overload = load_overload


def _store_apart(compiled: Any) -> None:
    """Have numba store machine code in files whose names no other process chooses.

    It numbers them, beginning behind those that its index has. Two processes that store code of one
    kernel at once, for two types or two CPUs, take the same number. Then the index of one of them
    may name the code of the other, which would be called for good, with arrays of a type that it
    takes for another. Of two indices written at once one is lost: its code is compiled again.

    Args:
        compiled: A kernel, as numba's dispatcher.
    """
    # numba has no public way to say this, as above.
    file: Any = getattr(compiled._cache, "_cache_file", None)
    if not (hasattr(file, "_data_name") and hasattr(file, "_index_name")):
        return

    stem = file._index_name.removesuffix(".nbi")

    def data_name(_number: int) -> str:
        return f"{stem}.{uuid.uuid4().hex}.nbc"

    file._data_name = data_name


# What is compiled, and what is said of it ---------------------------------------------------------


class _Listener:
    """Hears of every function that numba compiles, and not of those that it finds compiled."""

    def notify(self, event: Any) -> None:
        """Take an event, at its start and at its end."""
        if event.data["dispatcher"].py_func.__module__.startswith("mslm_data."):
            say_that_kernels_compile()


events.Listener.register(_Listener)
events.register("numba:compile", _Listener())


@cache
def say_that_kernels_compile() -> None:
    """Log why this process takes its time: once, however many kernels it compiles."""
    if cache_folder() is None:
        note_to_who_waits(
            "compiling kernels, which takes some seconds in each run, as there is no folder that "
            "is this user's alone to keep them; MSLM_DATA_CACHE can name one"
        )
    else:
        note_to_who_waits("compiling kernels, once after an installation; this takes some seconds")


def say_if_none_is_compiled() -> None:
    """Log the same for processes that will compile kernels while this one waits."""
    folder = cache_folder()
    if not config.DISABLE_JIT and (folder is None or not any(folder.rglob("*.nbi"))):
        say_that_kernels_compile()


def load_compiled() -> None:
    """Load the machine code of all imported kernels, as far as an earlier process has compiled it.

    Otherwise each is loaded by its first call, in every process. Those that are forked from this
    one share what it has loaded.
    """
    for dispatcher in _KERNELS:
        # numba has no public way to ask what is stored. If a version of it keeps that elsewhere,
        # nothing is loaded here.
        with suppress(Exception):
            stored = dispatcher._cache
            codegen = dispatcher.targetctx.codegen()
            for key in stored._cache_file._load_index():
                signature = key[0]
                if stored._index_key(signature, codegen) == key:  # of this CPU
                    dispatcher.compile(signature)


# Where it is kept ---------------------------------------------------------------------------------


@cache
def cache_folder() -> Path | None:
    """Return the folder for compiled kernels, made if missing; None where no folder is safe to use.

    It is `kernels/DIGEST` below `$MSLM_DATA_CACHE`, or else below the user's cache folder. numba
    unpickles what it finds there, by its path, whenever a kernel is called first. So a folder is
    not used that another user may write to, or could put another in the place of.
    The folder's time is that of its last use, so that `find -mtime` finds unused ones.
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

    with suppress(OSError):  # a file system may keep no times
        os.utime(folder)
    return folder


def sources_digest(folder: Path) -> str:
    """Return 16 hex digits that change with the name or text of any `.py` file in a folder.

    They change with the versions of numba and Python too.
    """
    versions = f"numba {numba.__version__} python {platform.python_version()}"
    digest = hashlib.sha256(versions.encode())
    for path in sorted(folder.glob("*.py")):
        source = path.read_bytes()
        digest.update(f"\n{path.name} {len(source)}\n".encode() + source)
    return digest.hexdigest()[:16]
