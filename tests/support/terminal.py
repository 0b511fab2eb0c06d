"""Programs that have a terminal for their stderr."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress


def shown_at_terminal(command: Sequence[str], env: Mapping[str, str]) -> str:
    """Run a program to its end, which must be a good one, and return what a terminal shows of its stderr."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # nobody writes there any more
        while piece := os.read(ours, 1 << 16):
            shown += piece
    os.close(ours)

    assert process.wait() == 0, shown
    return shown.decode()
