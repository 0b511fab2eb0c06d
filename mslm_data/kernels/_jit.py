"""Compile kernels on first use, and keep the machine code in a folder named after their sources.

numba's own cache looks at the file of the decorated function only. After an edit of a callee in
another file it would serve yesterday's machine code. Here the folder's name is a digest of every
kernel source, of numba and of Python.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba
import numpy as np
import numpy.typing as npt
from platformdirs import user_cache_path

P = ParamSpec("P")
R = TypeVar("R")
Array = npt.NDArray[Any]

config: Any = numba.config  # Any: numba is typed in some of the versions we allow
njit: Any = numba.njit


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a loop over arrays: types as they come, one thread, exact floats.

    With `NUMBA_DISABLE_JIT=1` the function stays plain Python. Sums of uint64 then wrap as silently
    as they do in compiled code.
    """
    if config.DISABLE_JIT:
        return np.errstate(over="ignore")(function)

    # numba reads its setting where a function is decorated, so it is ours for that line only.
    folder = cache_folder()
    users_own = config.CACHE_DIR
    config.CACHE_DIR = str(folder or "")
    try:
        compiled: Callable[P, R] = njit(cache=folder is not None)(function)
    finally:
        config.CACHE_DIR = users_own
    return compiled


@cache
def cache_folder() -> Path | None:
    """Return the folder for compiled kernels, made if missing; None where no folder is safe to use.

    It is `kernels/DIGEST` below `$MSLM_DATA_CACHE`, or else below the user's cache folder. numba
    unpickles what it finds there, so a folder that another user owns or may write to is not used.
    """
    base = os.environ.get("MSLM_DATA_CACHE")
    caches = Path(base) if base else user_cache_path("mslm-data")
    kernels = caches / "kernels"
    folder = kernels / sources_digest(Path(__file__).parent)

    try:
        kernels.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        usable = _is_ours(kernels) and _is_ours(folder)
    except OSError:
        return None
    return folder if usable else None


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


def _is_ours(folder: Path) -> bool:
    """Return whether this process may write to a folder that nobody else can write to."""
    if hasattr(os, "getuid"):
        status = folder.stat()
        owned = status.st_uid == os.getuid() and status.st_mode & 0o022 == 0
    else:  # Windows, where the user's cache folder is the user's alone
        owned = True
    return owned and os.access(folder, os.W_OK | os.X_OK)
