"""Shows progress on stderr: a bar on a terminal, otherwise a line every 10 s. Never corpus text."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mslm_data.cli.output import echo
from mslm_data.log import plain

if TYPE_CHECKING:
    from mslm_data.builds import Progress

_EVERY_S = 10.0
"""Seconds between lines."""

_SMALL = 10_000_000
"""Number of bytes below which they are shown in kB, not in MB."""


@contextmanager
def showing(name: str) -> Iterator[Callable[[Progress], None]]:
    """Show the progress of a build, in bytes of input."""

    def show(progress: Progress) -> None:
        units = f"{progress.done}/{progress.total} work units"
        caption = f"{progress.documents:,} documents, {units}"
        meter.update(progress.bytes_done, progress.bytes_total, caption)

    with Meter(name, "bytes") as meter:
        yield show


@contextmanager
def downloading() -> Iterator[Callable[[str, int, int], None]]:
    """Show the progress of a download, in bytes of each file."""
    with Meter("fetch", "bytes") as meter:
        yield lambda name, done, total: meter.update(done, total, name)


@contextmanager
def counting(name: str, unit: str) -> Iterator[Callable[[int, int | None], None]]:
    """Show the progress of a count.

    Args:
        name: Name of the activity, in one word.
        unit: Unit of the count, such as "tokens".
    """
    with Meter(name, unit) as meter:
        yield meter.update


class Meter:
    """Shows the amount done, the rate and the time left of one activity."""

    def __init__(self, name: str, unit: str) -> None:
        """Show nothing yet.

        Args:
            name: Name of the activity.
            unit: Unit of the amounts. "bytes" are shown in kB or MB.
        """
        self._name = name
        self._unit = unit
        self._bar: Any = None
        self._shown = time.monotonic()

        # The rate is counted from here: the amount done, and the time.
        self._start = (0, self._shown)
        self._last: float = math.inf
        self._has_total = False

    def __enter__(self) -> Meter:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            columns = (BarColumn(), TextColumn("{task.description}", markup=False))
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.add_task(plain(self._name), total=None)
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int, total: int | None = None, caption: str = "") -> None:
        """Show an amount.

        Args:
            done: Amount done, in this run and an interrupted one before.
            total: The total; None or 0 if it is unknown.
            caption: Text to show beside.
        """
        now = time.monotonic()
        # Each file begins anew. What an earlier run has done is known at the first total.
        if done < self._last or (total and not self._has_total):
            self._start = (done, now)
        self._last = done
        self._has_total = bool(total)

        if self._bar is not None:
            line = plain(self._line(done, total, caption))
            self._bar.update(0, completed=done, total=total or None, description=line)
        elif now - self._shown >= _EVERY_S:
            self._shown = now
            echo(plain(self._line(done, total, caption)), err=True)

    def _line(self, done: int, total: int | None, caption: str) -> str:
        """Return `notes: 1.5 of 20.0 MB, 0.5 MB/s, 37 s left; 1,000 documents`."""
        start, began = self._start
        rate = (done - start) / max(time.monotonic() - began, 1e-9)
        size = max(done, total or 0)

        of_total = f" of {self._amount(total, size)}" if total else ""
        amount = f"{self._amount(done, size)}{of_total} {self._unit_of(size)}"
        speed = f"{self._amount(rate, size)} {self._unit_of(size)}/s"
        left = f", {(total - done) / rate:,.0f} s left" if total and rate else ""
        about = f"; {caption}" if caption else ""
        return f"{self._name}: {amount}, {speed}{left}{about}"

    def _amount(self, number: float, size: int) -> str:
        """Return a number in the unit for amounts up to a size."""
        if self._unit != "bytes":
            return f"{number:,.0f}"
        return f"{number / 1e3:,.0f}" if size < _SMALL else f"{number / 1e6:,.1f}"

    def _unit_of(self, size: int) -> str:
        if self._unit != "bytes":
            return self._unit
        return "kB" if size < _SMALL else "MB"
