"""Starts and ends the process of a command.

Its files are private, signals end it cleanly, and each end has an exit code and one message.
"""

from __future__ import annotations

import gc
import io
import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import click

from mslm_data.errors import MslmDataError, explain_system_error, place_of
from mslm_data.log import LOGGER, TO_KEEP, plain

INTERRUPTED, OUTPUT_CLOSED, TERMINATED = 130, 141, 143
"""Exit codes: 128 plus the number of SIGINT, SIGPIPE or SIGTERM, as in shells."""

_COLLECT_AFTER = 50_000
"""Number of new objects between garbage collections. Python's default is 700 to 2,000."""

_CLEANING_S = 5.0
"""Time after a signal in which others are ignored, while the command cleans up, in seconds. A later
signal raises again, because a library may have dropped the first exception."""


class Interrupted(KeyboardInterrupt):
    """Raised on Ctrl-C.

    Python turns a plain `KeyboardInterrupt` that leaves code compiled from a string, as in many
    imports, into death by SIGINT, whatever the exit code; a subclass is not.
    """


class Terminated(KeyboardInterrupt):
    """Raised on SIGTERM.

    It ends a command like Ctrl-C does, so that temporary files and child processes are removed.
    """


_RAISED = {signal.SIGINT: Interrupted, signal.SIGTERM: Terminated}
"""Signal -> its exception."""


@contextmanager
def private_files() -> Iterator[None]:
    """Make all written files readable by their owner only, including those of libraries."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def escape_unencodable() -> Iterator[None]:
    """Escape characters that the encoding of stdout lacks, as Python literals do.

    Otherwise a command under a locale such as ISO-8859-1 would fail after its work. Where the
    encoding is ASCII, click writes UTF-8.
    """
    stream = sys.stdout
    if not isinstance(stream, io.TextIOWrapper) or stream.errors != "strict":
        yield
        return

    stream.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        with suppress(OSError, ValueError):  # the stream is closed or broken
            stream.reconfigure(errors="strict")


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect garbage less often.

    Objects of imports stay alive, and scanning them takes a tenth of a short command's time.
    """
    before = gc.get_threshold()
    gc.set_threshold(_COLLECT_AFTER, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def log_on_stderr() -> Iterator[None]:
    """Print log messages to stderr: warnings and messages to keep; on a terminal, all."""
    handler = _OnStderr(logging.INFO)
    before = LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOGGER.setLevel(before)
        LOGGER.removeHandler(handler)


class _OnStderr(logging.Handler):
    """Prints to the current `sys.stderr`, which a progress bar may have replaced."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print warnings and messages to keep; on a terminal, all messages."""
        is_to_keep = TO_KEEP.items() <= vars(record).items()
        if record.levelno >= logging.WARNING:
            print_message(f"warning: {record.getMessage()}")
        elif is_to_keep or sys.stderr.isatty():
            print_message(record.getMessage())


@contextmanager
def raise_on_signals() -> Iterator[None]:
    """Raise `Interrupted` on Ctrl-C and `Terminated` on SIGTERM. Ignored signals stay ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    ignored_until = 0.0
    raised: list[type[KeyboardInterrupt]] = []

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - signature of a handler
        nonlocal ignored_until
        now = time.monotonic()
        if now >= ignored_until:
            ignored_until = now + _CLEANING_S
            raised.append(_RAISED[signal.Signals(number)])
            raise raised[-1]

    # `nohup` ignores some signals: leave these alone.
    before = {number: signal.getsignal(number) for number in _RAISED}
    handled = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in handled:
        signal.signal(number, handle)
    try:
        yield
    except Exception as error:
        if raised:  # the error may be a consequence of the signal
            raise raised[-1] from error
        raise
    finally:
        for number in handled:
            signal.signal(number, before[number])


def explain_end(error: BaseException) -> tuple[int, str]:
    """Return the exit code and the message for an exception that ended a command.

    Args:
        error: Any exception except click's. Exceptions that are neither ours nor the system's are
            named by class and place only, because their messages may contain text of notes.
    """
    causes = [*_chain(error)]
    if any(isinstance(cause, Terminated) for cause in causes):
        return TERMINATED, "terminated; run the same command again to resume"
    if any(isinstance(cause, KeyboardInterrupt) for cause in causes) or _is_ctrl_c(error):
        return INTERRUPTED, "interrupted; run the same command again to resume"

    # click and rich turn a broken pipe into a SystemExit, rich after redirecting stdout. A broken
    # pipe without SystemExit may be one between our own processes, which is an ordinary error.
    broken = any(isinstance(cause, BrokenPipeError) for cause in causes)
    exits = any(isinstance(cause, SystemExit) for cause in causes)
    if (broken and exits) or ((broken or exits) and _is_output_closed()):
        return OUTPUT_CLOSED, ""
    return 1, f"error: {_reason(error, causes)}"


def print_message(message: str) -> None:
    """Print a message to stderr, if it is open."""
    if message:
        with suppress(OSError):
            click.echo(plain(message, keep="\n\t"), err=True)


def detach_stdout() -> None:
    """Redirect stdout away from a closed pipe, so that Python does not complain at exit."""
    with suppress(OSError, ValueError, AttributeError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and all of its causes."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _is_ctrl_c(error: BaseException) -> bool:
    """Return whether click's `Abort` means Ctrl-C, and not the end of a file."""
    return isinstance(error, click.Abort) and not isinstance(error.__cause__, EOFError)


def _reason(error: BaseException, causes: list[BaseException]) -> str:
    """Return the message of an error, with advice."""
    if isinstance(error, MslmDataError):
        return str(error)
    if isinstance(error, MemoryError):
        return (
            "out of memory; fewer --workers or smaller work units need less, then run the same "
            "command again"
        )
    # Without a current folder, Python 3.13 raises SystemError when it imports a compiled module.
    if isinstance(error, FileNotFoundError | SystemError) and not _has_current_folder():
        return (
            "the current folder was removed; change to another (cd) and run the same command again"
        )
    if isinstance(error, OSError) and (message := explain_system_error(error)):
        return message
    return f"{_unexpected(causes)}, which should not happen; `mslm-data --debug …` shows more"


def _has_current_folder() -> bool:
    try:
        return bool(os.getcwd())
    except OSError:
        return False


def _unexpected(causes: list[BaseException]) -> str:
    """Describe an exception by its class and place."""
    error = next((cause for cause in causes if not isinstance(cause, click.Abort)), causes[0])
    place = place_of(error)
    return f"{type(error).__name__} in {place}" if place else type(error).__name__


def _is_output_closed() -> bool:
    """Return whether stdout or stderr is a pipe without a reader."""
    if not hasattr(select, "poll"):
        return False
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            poll = select.poll()
            poll.register(stream.fileno(), 0)
            if any(event & select.POLLERR for _, event in poll.poll(0)):
                return True
    return False
