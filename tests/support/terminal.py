"""Run programs with a terminal as stderr."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress


def shown_at_terminal(command: Sequence[str], env: Mapping[str, str]) -> str:
    """Run a program, check its exit code, and return its output on a terminal as stderr."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    output = b""
    with suppress(OSError):  # raised when the program has closed the terminal
        while piece := os.read(ours, 1 << 16):
            output += piece
    os.close(ours)

    assert process.wait() == 0, output
    return output.decode()
