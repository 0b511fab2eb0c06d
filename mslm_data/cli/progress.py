"""Shows progress on stderr: a bar on a terminal, otherwise a line every 10 s. Never corpus text."""

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
"""Seconds between lines."""

_SMALL = 10_000_000
"""Minimum input bytes for showing a rate. Smaller inputs take less time than starting."""

Update = Callable[[int, int | None, str], None]
"""Called with the amount done, the total (None if unknown) and a caption."""


@contextmanager
def showing(name: str) -> Iterator[Callable[[Progress], None]]:
    """Show the progress of a build in bytes of input."""
    began = time.monotonic()
    earlier: int | None = None
    with _bytes_shown(name) as draw:

        def show(progress: Progress) -> None:
            nonlocal earlier
            # The rate excludes documents of an earlier, interrupted build. Their number is known
            # after the files are scanned.
            if earlier is None and progress.total:
                earlier = progress.documents
            rate = (progress.documents - (earlier or 0)) / max(time.monotonic() - began, 1e-9)
            draw(
                progress.bytes_done,
                progress.bytes_total,
                f"{progress.documents:,} documents, {rate:,.0f}/s, "
                f"{progress.done}/{progress.total} work units",
            )

        yield show


@contextmanager
def downloading() -> Iterator[Callable[[str, int, int], None]]:
    """Show the progress of a download."""
    with _bytes_shown("fetch") as draw:
        yield lambda name, done, total: draw(done, total, name)


@contextmanager
def counting(name: str, unit: str) -> Iterator[Callable[[int, int | None], None]]:
    """Show the progress of a count.

    Args:
        name: Name of the activity, in one word.
        unit: Unit of the count, such as "tokens".
    """
    began = time.monotonic()
    earlier: int | None = None

    def line(done: int, total: int | None, _: str) -> str:
        rate = (done - (earlier or 0)) / max(time.monotonic() - began, 1e-9)
        if total is None:
            return f"{name}: {done:,} {unit}, {rate:,.0f}/s"
        remaining = f", {(total - done) / rate:,.0f} s left" if rate else ""
        return f"{name}: {done:,} of {total:,} {unit}, {rate:,.0f}/s{remaining}"

    def columns() -> list[ProgressColumn]:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

        return [
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(unit),
            TimeRemainingColumn(),
        ]

    with _shown(name, line, columns) as draw:

        def count(done: int, total: int | None) -> None:
            nonlocal earlier
            if earlier is None:  # the rate excludes an earlier, interrupted run
                earlier = done
            draw(done, total, "")

        yield count


@contextmanager
def _bytes_shown(name: str) -> Iterator[Update]:
    """Show progress in bytes."""
    began = time.monotonic()
    earlier = 0
    last: int | None = None
    had_total = False

    def line(done: int, total: int | None, caption: str) -> str:
        if total and total < _SMALL:
            return f"{name}: {done / 1e3:,.0f} of {total / 1e3:,.0f} kB; {caption}"
        if not total and not done:
            return f"{name}: {caption}"

        rate = (done - earlier) / max(time.monotonic() - began, 1e-9)
        out_of = f" of {total / 1e6:.1f}" if total else ""
        remaining = f", {(total - done) / rate:.0f} s left" if total and rate else ""
        return f"{name}: {done / 1e6:.1f}{out_of} MB, {rate / 1e6:.1f} MB/s{remaining}; {caption}"

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
            TextColumn("{task.fields[caption]}", markup=False),
        ]

    with _shown(name, line, columns) as draw:

        def update(done: int, total: int | None, caption: str) -> None:
            nonlocal began, earlier, last, had_total
            # Restart the rate for each file, without the bytes of an earlier run.
            if last is None or done < last or (total and not had_total):
                began = time.monotonic()
                earlier = done
            last = done
            had_total = bool(total)
            draw(done, total, caption)

        yield update


@contextmanager
def _shown(
    name: str,
    line: Callable[[int, int | None, str], str],
    columns: Callable[[], list[ProgressColumn]],
) -> Iterator[Update]:
    """Show a progress bar on a terminal, otherwise a line every `_EVERY_S`."""
    name = plain(name)
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import Progress

        with Progress(*columns(), console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(name, total=None, caption="")
            yield lambda done, total, caption: bar.update(
                task, completed=done, total=total, caption=plain(caption)
            )
        return

    last = time.monotonic()

    def draw(done: int, total: int | None, caption: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _EVERY_S:
            last = now
            echo(line(done, total, caption), err=True)

    yield draw
