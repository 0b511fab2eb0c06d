"""Keeps freed memory in processes with large arrays for each batch."""

from __future__ import annotations

import ctypes
import os
import sys

_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
"""Parameters of glibc's mallopt(3)."""

_KEPT = 256 << 20
"""Maximum freed memory kept by a process, in bytes."""
_MAPPED_ALONE = 1 << 30
"""Minimum size of arrays with their own memory mapping, which is returned when freed, in bytes."""
_MAPPED_ALONE_BEFORE = 32 << 20
"""The maximum of `_MAPPED_ALONE` for older versions of glibc, in bytes."""


def keep_freed_memory() -> None:
    """Keep freed memory in this process for its next batch.

    Work units allocate and free arrays of megabytes all the time. By default, freed memory returns
    to the system, which clears each page before reuse: a tenth of the time of a build. Only glibc
    is configured.

    Call this before importing pyarrow, which otherwise uses its own allocator. It changes the whole
    process, so call it only in worker processes.
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
