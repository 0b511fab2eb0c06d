"""Begins and ends a command's process.

Its files are private, signals end it cleanly, and every end has an exit code and one message.
"""

from __future__ import annotations

import codecs
import errno
import gc
import io
import logging
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import click

from mslm_data.errors import MslmDataError, system_message
from mslm_data.log import LOGGER, TO_KEEP, plain

INTERRUPTED, NOBODY_READS, TERMINATED = 130, 141, 143
"""Exit codes as shells give them: 128 plus the number of SIGINT, SIGPIPE or SIGTERM."""

_COLLECT_AFTER = 50_000
"""New objects before Python looks for unreachable ones; by default 700 to 2,000."""

_ADVICE = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space of your quota",
    errno.EACCES: "change its permissions, or choose another place",
    errno.EPERM: "change its permissions, or choose another place",
    errno.EROFS: "choose another place",
    errno.EFAULT: "see whether a file that is read became shorter",
    errno.EIO: "see whether the disk, or the way to it, is sound",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "close other programs",
    errno.ENOMEM: "close other programs, or ask for fewer --workers",
}
"""Advice on errors of the system; others are reported in the system's words alone."""


_CLEANING_S = 5.0
"""So long after a signal others are ignored, as a command cleans up. Later ones may be needed: what
was raised for the first can get lost in a library."""
_AGAIN_S = 0.02
"""So long after what was raised for a signal got lost the signal is sent again."""


class Interrupted(KeyboardInterrupt):
    """Report that Ctrl-C came.

    Python remembers where a plain `KeyboardInterrupt` left code that was made of a string, as much
    of what is imported is. It then ends the process by the signal, whatever the exit code.
    """


class Terminated(KeyboardInterrupt):
    """Report that SIGTERM came.

    It ends a command as Ctrl-C does, so that temporary files and child processes go.
    """


_RAISED = {signal.SIGINT: Interrupted, signal.SIGTERM: Terminated}
"""Signal -> what is raised when it comes."""


@contextmanager
def private_files() -> Iterator[None]:
    """Make all files that are written, by libraries too, readable by their owner alone."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def every_character() -> Iterator[None]:
    """Let stdout show a character that its encoding lacks as an escape, as Python writes it.

    Under a locale such as ISO-8859-1 a command would otherwise fail when its work is done. ASCII
    becomes UTF-8, as click takes it: it is what a process has that nobody told an encoding.
    """
    stream = sys.stdout
    if not isinstance(stream, io.TextIOWrapper) or stream.errors != "strict":
        yield
        return

    before = stream.encoding
    is_ascii = codecs.lookup(before).name == "ascii"
    stream.reconfigure(encoding="utf-8" if is_ascii else before, errors="backslashreplace")
    try:
        yield
    finally:
        with suppress(OSError, ValueError):  # nobody reads it, or it was closed
            stream.reconfigure(encoding=before, errors="strict")


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let Python look for unreachable objects less often.

    Imports make objects that stay. Looking through them takes a tenth of a short command's time.
    """
    before = gc.get_threshold()
    gc.set_threshold(_COLLECT_AFTER, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def log_on_stderr() -> Iterator[None]:
    """Show on stderr what the package logs: warnings, notes to keep, on a terminal all."""
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
    """Prints records on the stderr of the moment, which a progress bar may have replaced."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a warning, a note to keep, or a note for somebody who waits at a terminal."""
        is_to_keep = TO_KEEP.items() <= vars(record).items()
        if record.levelno >= logging.WARNING:
            say(f"warning: {record.getMessage()}")
        elif is_to_keep or sys.stderr.isatty():
            say(record.getMessage())


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Raise `Interrupted` when Ctrl-C comes and `Terminated` when SIGTERM does.

    A signal that the process ignores stays ignored. Python drops what is raised in a destructor or
    in a function that C calls, and a compiler of kernels has many of both: the signal then comes
    again a moment later.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    cleaned_up_at = 0.0
    came: list[type[KeyboardInterrupt]] = []

    def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - what a handler is given
        nonlocal cleaned_up_at
        now = time.monotonic()
        if now >= cleaned_up_at:
            cleaned_up_at = now + _CLEANING_S
            came.append(_RAISED[signal.Signals(number)])
            raise came[-1]

    again: list[threading.Timer] = []
    say_dropped = sys.unraisablehook

    def dropped(what: sys.UnraisableHookArgs) -> None:
        nonlocal cleaned_up_at
        numbers = [number for number, kind in _RAISED.items() if what.exc_type is kind]
        for number in numbers:
            cleaned_up_at = 0.0
            again.append(threading.Timer(_AGAIN_S, os.kill, (os.getpid(), number)))
            again[-1].daemon = True
            again[-1].start()
        # What an end leaves half made fails in its destructor, which is nothing to be told of.
        if not numbers and time.monotonic() >= cleaned_up_at:
            say_dropped(what)

    before = {number: signal.getsignal(number) for number in _RAISED}
    taken = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in taken:
        signal.signal(number, end)
    sys.unraisablehook = dropped
    try:
        yield
    except Exception as error:
        if came:  # an error of what the signal left half done
            raise came[-1] from error
        raise
    finally:
        sys.unraisablehook = say_dropped
        for timer in again:
            timer.cancel()
        for number in taken:
            signal.signal(number, before[number])


def end_of(error: BaseException) -> tuple[int, str]:
    """Return the exit code and the message for an exception that ended a command.

    Args:
        error: Any exception but click's own. One that is neither ours nor the system's is named by
            its class and place only, as its message may hold a note's text.
    """
    causes = [*_chain(error)]
    if any(isinstance(cause, Terminated) for cause in causes):
        return TERMINATED, "terminated; run the same command again to resume"
    if any(isinstance(cause, KeyboardInterrupt) for cause in causes) or _is_ctrl_c(error):
        return INTERRUPTED, "interrupted; run the same command again to resume"

    # click and rich make a SystemExit of a broken pipe, rich after it has turned stdout away. A
    # broken pipe alone may be one between our own processes, which is an error like others.
    broken = any(isinstance(cause, BrokenPipeError) for cause in causes)
    exits = any(isinstance(cause, SystemExit) for cause in causes)
    if (broken and exits) or ((broken or exits) and _nobody_reads()):
        return NOBODY_READS, ""
    return 1, f"error: {_reason(error, causes)}"


def say(message: str) -> None:
    """Print a message on stderr, if anybody reads that."""
    if message:
        with suppress(OSError):
            click.echo(plain(message, keep="\n\t"), err=True)


def detach_stdout() -> None:
    """Turn stdout away from a pipe that nobody reads, or Python would complain when it ends."""
    with suppress(OSError, ValueError, AttributeError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Give an exception, its cause, the cause of that, and so on."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _is_ctrl_c(error: BaseException) -> bool:
    """Return whether click's `Abort` stands for Ctrl-C and not for a file that ended too early."""
    return isinstance(error, click.Abort) and not isinstance(error.__cause__, EOFError)


def _reason(error: BaseException, causes: list[BaseException]) -> str:
    """Return what is wrong and what to do about it."""
    if isinstance(error, MslmDataError):
        return str(error)
    if isinstance(error, MemoryError):
        return (
            "out of memory; fewer --workers or smaller work units need less, then run the same "
            "command again"
        )
    # Python 3.13 raises a SystemError there where it imports a compiled module.
    if isinstance(error, FileNotFoundError | SystemError) and not _has_current_folder():
        return (
            "current folder: expected one that is there, got one that was removed; change to "
            "another (cd) and run the same command again"
        )
    if isinstance(error, OSError) and (said := system_message(error)):
        advice = _ADVICE.get(error.errno or 0)
        return f"{said}; {advice}, then run the same command again" if advice else said
    return f"{_unexpected(causes)}, which should not happen; --debug shows more"


def _has_current_folder() -> bool:
    try:
        return bool(os.getcwd())
    except OSError:
        return False


def _unexpected(causes: list[BaseException]) -> str:
    """Name an exception by its class and place."""
    error = next((cause for cause in causes if not isinstance(cause, click.Abort)), causes[0])
    frames = traceback.extract_tb(error.__traceback__)
    place = f" in {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"


def _nobody_reads() -> bool:
    """Return whether stdout or stderr is a pipe whose reader has gone."""
    if not hasattr(select, "poll"):
        return False
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            poll = select.poll()
            poll.register(stream.fileno(), 0)
            if any(event & select.POLLERR for _, event in poll.poll(0)):
                return True
    return False
