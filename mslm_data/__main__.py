"""Runs `mslm-data`, which is `python -m mslm_data` too."""

import gc
import os
import signal
import sys
from types import FrameType


def main() -> int:
    """Run the command line of this process, and return its exit code.

    Where Ctrl-C or SIGTERM comes before the command has begun, or after it has ended, the process
    ends at once and says nothing: there is nothing to clean up or to resume.
    """
    _open_closed_streams()
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)

    from mslm_data.cli import main as run

    code = run()

    # Whatever Python still holds goes with the process. Taking it apart, object by object, would
    # cost a tenth of a second.
    gc.freeze()
    return code


def _open_closed_streams() -> None:
    """Let streams that a shell has closed (`2>&-`) lead nowhere.

    Python has None in their place. Their numbers would go to the next files that are opened, and
    what a library prints on stderr into a shard.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def _end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - what a handler is given
    os._exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
