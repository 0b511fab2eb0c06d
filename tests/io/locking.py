"""A process that holds a lock: `python -m tests.io.locking NAME PATH`, with the name of an error."""

from __future__ import annotations

import errno
import fcntl
import sys
import time
from pathlib import Path
from typing import NoReturn

from mslm_data.errors import BuildError, MslmDataError
from mslm_data.io.locks import HeldError, locked


def without_flock(name: str) -> None:
    """Make `flock` fail with an error from now on, like some file systems."""
    number = getattr(errno, name)

    def refuse(*_: object) -> NoReturn:
        raise OSError(number, f"pretended {name}")

    fcntl.flock = refuse


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(name: str, path: str, held: str) -> None:
    """Take a lock, report the result, and hold it for some seconds."""
    if name:
        without_flock(name)
    try:
        with locked(Path(path), error=BuildError, patience=0):
            _say("held")
            time.sleep(float(held))
    except HeldError as error:
        _say(f"refused {error}")
    except MslmDataError as error:
        _say(f"error {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
