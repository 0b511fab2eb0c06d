"""Runs `mslm-data`, also as `python -m mslm_data`."""

import gc
import os
import signal
import sys
from types import FrameType


def main() -> int:
    """Run the command line of this process, and return its exit code.

    Ctrl-C and SIGTERM before the command starts or after it ends stop the process silently, because
    there is nothing to clean up.
    """
    _open_closed_streams()
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)

    from mslm_data.cli import main as run

    code = run()

    # The process ends anyway. Freezing skips the collection of all objects at exit: 0.1 s.
    gc.freeze()
    return code


def _open_closed_streams() -> None:
    """Redirect streams closed by the shell (`2>&-`) to nowhere.

    Python sets them to None. The next opened files would get their file descriptors, and a
    library's output to stderr could be written into a shard.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def _end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - signature of a handler
    os._exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
