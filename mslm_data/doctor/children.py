"""Runs functions of `trial` in processes of their own, whatever becomes of these."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from typing import Any, NamedTuple

from mslm_data.doctor.machine import anonymous
from mslm_data.log import plain

_CODE = """\
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from mslm_data.doctor import trial
print("answer:" + json.dumps(getattr(trial, sys.argv[2])(*sys.argv[3:])))
"""
_ANSWER = "answer:"
_ERROR = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit)(:|$)")
"""The line of a traceback that names the error."""
_LONGEST = 300
"""Characters of an error that are shown."""


class Outcome(NamedTuple):
    """The end of a function.

    Attributes:
        value: What it returned; None where it failed.
        error: Why it failed, without its traceback; None where it did not.
    """

    value: Any
    error: str | None


def run(function: str, *words: str, seconds: float) -> Outcome:
    """Run a function of `trial` in a new process that looks for packages where this one does.

    Args:
        function: Its name.
        words: Its arguments.
        seconds: After these it is called stuck, and is ended.
    """
    # Without -P a file beside the user could take the place of a package.
    command = [sys.executable, "-P", "-c", _CODE, json.dumps(sys.path), function, *words]
    try:
        done = subprocess.run(  # noqa: S603 - our own code, by our own Python
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Outcome(None, f"no answer after {seconds:g} seconds")
    except OSError as error:
        return Outcome(None, f"no process could be started: {error.strerror}")

    # Packages may print too, while they are imported and at the end.
    for line in done.stdout.decode(errors="replace").splitlines():
        if line.startswith(_ANSWER):
            return Outcome(json.loads(line.removeprefix(_ANSWER)), None)
    return Outcome(None, _why(done))


def _why(done: subprocess.CompletedProcess[bytes]) -> str:
    """Return why a process failed: the error that ended it, or the signal."""
    if done.returncode < 0:
        number = -done.returncode
        return f"its process was ended by signal {number} ({signal.strsignal(number)})"

    lines = done.stderr.decode(errors="replace").strip().splitlines()
    errors = [line for line in lines if _ERROR.match(line)]
    said = (errors or lines or [f"its process ended with code {done.returncode}"])[-1]
    return plain(anonymous(said.removeprefix("mslm_data.errors.")))[:_LONGEST]
