"""Makes a message of SIGBUS, by which the system ends a process whose mapped file became shorter.

A handler of Python's `signal` would never run. Python calls it between two steps of Python, but the
read that failed is in the middle of one, and is tried for ever. So libc gets a function by ctypes,
which runs at the read that failed, in its thread. Reading memory holds no lock but Python's own,
which ctypes takes if it has to. The function says what happened and ends the process at once, so
temporary files stay, as after SIGKILL.
"""

from __future__ import annotations

import mmap
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_MAPS = Path("/proc/self/maps")
"""Where Linux lists the mapped files of this process."""
_SHOW_CURSOR = b"\x1b[?25h\n"
"""Undoes on a terminal what a progress bar did."""


@contextmanager
def explained_bus_errors() -> Iterator[None]:
    """End the process with a message and exit code 1 on SIGBUS, where the system has that."""
    if not hasattr(signal, "SIGBUS"):
        yield
        return

    import ctypes

    set_handler = ctypes.CDLL(None).signal
    set_handler.argtypes = [ctypes.c_int, ctypes.c_void_p]
    set_handler.restype = ctypes.c_void_p
    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(_end)

    before = set_handler(signal.SIGBUS, ctypes.cast(handler, ctypes.c_void_p))
    try:
        yield
    finally:
        set_handler(signal.SIGBUS, before)


def _end(number: int) -> None:  # noqa: ARG001 - what a handler is given
    try:
        if os.isatty(2):
            os.write(2, _SHOW_CURSOR)
        os.write(2, f"error: {_message()}\n".encode(errors="backslashreplace"))
    finally:
        os._exit(1)


def _message() -> str:
    advice = "restore it, or build again, and run the same command again"
    shorter = shorter_files()
    if shorter:
        return (
            f"{shorter[0]}: expected a file that stays as it is while it is read, got one that "
            f"became shorter; {advice}"
        )
    return (
        "expected files that can be read to their end, got one that became shorter meanwhile, or a "
        f"disk that cannot be read (SIGBUS); {advice}"
    )


def shorter_files() -> list[str]:
    """Return the files that this process has mapped beyond their present end; none off Linux."""
    mapped: dict[bytes, int] = {}
    programs = set()
    with suppress(OSError), _MAPS.open("rb") as lines:
        for line in lines:
            # start-stop permissions offset device inode path
            fields = line.split(maxsplit=5)
            if len(fields) < 6:
                continue

            path = fields[5].removesuffix(b"\n")
            start, stop = (int(place, 16) for place in fields[0].split(b"-"))
            mapped[path] = max(mapped.get(path, 0), int(fields[2], 16) + stop - start)
            if b"x" in fields[1]:
                programs.add(path)

    # Programs and libraries may be mapped beyond their end.
    return [
        os.fsdecode(path)
        for path, end in mapped.items()
        if path not in programs and end > _whole_pages(path, most=end)
    ]


def _whole_pages(path: bytes, *, most: int) -> int:
    """Return the bytes of the pages that a file has, `most` if it is gone."""
    try:
        size = os.stat(path).st_size
    except (OSError, ValueError):
        return most
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
