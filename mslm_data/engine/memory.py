"""Keeps the memory of a process that makes large arrays, one batch after the other."""

from __future__ import annotations

import ctypes
import os
import sys

_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
"""Parameters of glibc's mallopt(3)."""

_KEPT = 256 << 20
"""Bytes of freed memory that a process may keep."""
_MAPPED_ALONE = 1 << 30
"""Bytes from which an array gets memory of its own, which goes back when it is freed."""
_MAPPED_ALONE_BEFORE = 32 << 20
"""The same for versions of glibc that refuse more."""


def keep_freed_memory() -> None:
    """Have this process keep memory that it frees, for its next batch.

    A work unit makes arrays of some megabytes and frees them, over and over. By default such memory
    goes back to the system, which clears it page by page before it hands it out again: a tenth of
    a build's time. Other C libraries than glibc are left as they are.

    To be called before pyarrow is imported, which else has a store of its own. For processes that
    are ours alone, as it changes the whole process.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    mallopt(_TRIM_THRESHOLD, _KEPT)
    if not mallopt(_MMAP_THRESHOLD, _MAPPED_ALONE):
        mallopt(_MMAP_THRESHOLD, _MAPPED_ALONE_BEFORE)
