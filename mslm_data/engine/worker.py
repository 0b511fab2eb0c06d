"""A worker process of this machine: receives the work, then tasks, and answers each."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from mslm_data.engine import attempt
from mslm_data.engine.crew import Ready
from mslm_data.errors import BuildError
from mslm_data.log import LOGGER


def serve(pipe: Connection) -> None:
    """Receive the work, then do tasks until there are no more.

    Args:
        pipe: Brings the work and the tasks, and takes `Ready` and the answers. Its other end is
            closed when there is nothing left to do.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the process that leads
    os.umask(0o077)
    LOGGER.disabled = True  # the process that leads speaks for all

    with suppress(EOFError, OSError):  # the process that leads is gone, or has no more to do
        work = _received(pipe)
        if isinstance(work, BuildError):
            pipe.send(work)
            return

        pipe.send(Ready())
        while True:
            task = _received(pipe)
            pipe.send(task if isinstance(task, BuildError) else attempt(work, task))


def _received(pipe: Connection) -> Any:
    """Return what the leader has sent, or an error if it cannot be read here."""
    try:
        return pipe.recv()
    except (EOFError, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - what is read may be of any class
        return BuildError(
            f"engine 'local': a worker could not read its work ({type(error).__name__}); define it "
            "in a module that can be imported, as workers do not import the main module, or pass "
            "--workers 1"
        )
