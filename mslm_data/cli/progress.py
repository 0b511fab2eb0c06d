"""Progress on stderr: a bar on a terminal, else a plain line now and then. Never any text."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mslm_data.cli.output import echo
from mslm_data.log import plain

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

    from mslm_data.builds import Progress

_EVERY_S = 10.0
"""Seconds between plain lines."""

_SMALL = 10_000_000
"""Bytes of input below which a rate says nothing, as starting takes longer than reading."""

Told = Callable[[int, int | None, str], None]
"""Takes how much is done, how much there is in all if that is known, and words about it."""


@contextmanager
def showing(name: str) -> Iterator[Callable[[Progress], None]]:
    """Show a build's progress, by bytes of input."""
    began = time.monotonic()
    earlier: int | None = None
    with _bytes_shown(name) as tell:

        def show(progress: Progress) -> None:
            nonlocal earlier
            # Documents of an interrupted build say nothing about the rate. They are not known while
            # the files are looked at.
            if earlier is None and progress.total:
                earlier = progress.documents
            rate = (progress.documents - (earlier or 0)) / max(time.monotonic() - began, 1e-9)
            tell(
                progress.bytes_done,
                progress.bytes_total,
                f"{progress.documents:,} documents, {rate:,.0f}/s, "
                f"{progress.done}/{progress.total} work units",
            )

        yield show


@contextmanager
def downloading() -> Iterator[Callable[[str, int, int], None]]:
    """Show a download's progress."""
    with _bytes_shown("fetch") as tell:
        yield lambda name, done, total: tell(done, total, name)


@contextmanager
def counting(name: str, unit: str) -> Iterator[Callable[[int, int | None], None]]:
    """Show how many of something are done, of how many in all or, where nobody knows, of None.

    Args:
        name: What is going on, in a word.
        unit: What is counted, such as "tokens".
    """
    began = time.monotonic()
    earlier: int | None = None

    def line(done: int, total: int | None, _: str) -> str:
        rate = (done - (earlier or 0)) / max(time.monotonic() - began, 1e-9)
        if total is None:
            return f"{name}: {done:,} {unit}, {rate:,.0f}/s"
        left = f", {(total - done) / rate:,.0f} s left" if rate else ""
        return f"{name}: {done:,} of {total:,} {unit}, {rate:,.0f}/s{left}"

    def columns() -> list[ProgressColumn]:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

        return [
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(unit),
            TimeRemainingColumn(),
        ]

    with _shown(name, line, columns) as tell:

        def count(done: int, total: int | None) -> None:
            nonlocal earlier
            if earlier is None:  # what an interrupted run has done says nothing about the rate
                earlier = done
            tell(done, total, "")

        yield count


@contextmanager
def _bytes_shown(name: str) -> Iterator[Told]:
    """Show how many bytes are done."""
    began = time.monotonic()
    earlier = 0
    last: int | None = None
    had_total = False

    def line(done: int, total: int | None, said: str) -> str:
        if total and total < _SMALL:
            return f"{name}: {done / 1e3:,.0f} of {total / 1e3:,.0f} kB; {said}"
        if not total and not done:
            return f"{name}: {said}"

        rate = (done - earlier) / max(time.monotonic() - began, 1e-9)
        of_all = f" of {total / 1e6:.1f}" if total else ""
        left = f", {(total - done) / rate:.0f} s left" if total and rate else ""
        return f"{name}: {done / 1e6:.1f}{of_all} MB, {rate / 1e6:.1f} MB/s{left}; {said}"

    def columns() -> list[ProgressColumn]:
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        return [
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[said]}", markup=False),
        ]

    with _shown(name, line, columns) as tell:

        def told(done: int, total: int | None, said: str) -> None:
            nonlocal began, earlier, last, had_total
            # What an interrupted build has done says nothing about the rate, and neither does a
            # file about the next one.
            if last is None or done < last or (total and not had_total):
                began = time.monotonic()
                earlier = done
            last = done
            had_total = bool(total)
            tell(done, total, said)

        yield told


@contextmanager
def _shown(
    name: str,
    line: Callable[[int, int | None, str], str],
    columns: Callable[[], list[ProgressColumn]],
) -> Iterator[Told]:
    """Show a bar with some columns on a terminal, else a line each `_EVERY_S` seconds."""
    name = plain(name)
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import Progress

        with Progress(*columns(), console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(name, total=None, said="")
            yield lambda done, total, said: bar.update(
                task, completed=done, total=total, said=plain(said)
            )
        return

    last = time.monotonic()

    def tell(done: int, total: int | None, said: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _EVERY_S:
            last = now
            echo(line(done, total, said), err=True)

    yield tell
