"""Progress on stderr: a bar where it is a terminal, a plain line now and then where it is not. Never any text."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mslm_data.builds import Progress

_EVERY = 10.0
"""Seconds between plain lines."""


@contextmanager
def showing(name: str) -> Iterator[Callable[[Progress], None]]:
    """Show a build's progress."""
    began, first = time.monotonic(), -1
    with _bar(name) as update:

        def show(progress: Progress) -> None:
            nonlocal first
            first = progress.documents if first < 0 else first
            rate = (progress.documents - first) / max(time.monotonic() - began, 1e-9)
            said = f"{progress.documents:,} documents, {rate:,.0f}/s, {progress.done}/{progress.total} shards"
            update(progress.bytes_done, progress.bytes_total, said)

        yield show


@contextmanager
def downloading() -> Iterator[Callable[[str, int, int], None]]:
    """Show a download's progress."""
    with _bar("fetch") as update:
        yield lambda name, done, total: update(done, total, name)


@contextmanager
def counting(name: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    """Show how many of something are done, such as tokens: called with those done and all there are."""
    began = last = time.monotonic()
    start = -1

    def line(done: int, total: int) -> None:
        nonlocal last, start
        start = (
            done if start < 0 else start
        )  # what an earlier call had done says nothing about the rate
        now = time.monotonic()
        if now - last < _EVERY:
            return
        last = now
        rate = (done - start) / (now - began)
        left = f", {(total - done) / rate:,.0f} s left" if rate else ""
        click.echo(f"{name}: {done:,} of {total:,} {unit}, {rate:,.0f}/s{left}", err=True)

    if not sys.stderr.isatty():
        yield line
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def _bar(name: str) -> Iterator[Callable[[int, int, str], None]]:
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[said]}"),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(name, total=None, said="")
            yield lambda done, total, said: bar.update(task, completed=done, total=total, said=said)
        return
    began = last = time.monotonic()

    def line(done: int, total: int, said: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < _EVERY:
            return
        last = now
        rate = done / (now - began)
        left = f", {(total - done) / rate:.0f} s left" if rate and total else ""
        click.echo(
            f"{name}: {done / 1e6:.1f} of {total / 1e6:.1f} MB, {rate / 1e6:.1f} MB/s{left}; {said}",
            err=True,
        )

    yield line
