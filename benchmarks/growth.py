"""Time and memory from ten thousand rows to ten million.

`python -m benchmarks growth`

For each size, a generated corpus is built with each number of workers, counted by `mask-stats`, and
read for an epoch of shuffled, masked batches. All are timed as whole commands. Memory excludes
pages of memory-mapped shards, which the system can reclaim. The page has the serial share of builds
and the speed-up expected on `CORES` cores.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks import inputs as corpora
from benchmarks.harness import Results, Table
from benchmarks.inputs import Inputs
from benchmarks.watch import Figure, watched

BLOCK = 10_000
"""Sentences of a file."""
BLOCKS = 25
"""Number of distinct files. Larger corpora repeat them."""
CORES = 64
"""Number of cores for which the page extrapolates the speed-up."""

VOCAB = corpora.ROOT / "vocab" / "sample" / "vocab.txt"
_CORPORA = [
    VOCAB.parent / name / "train.tsv" for name in ("bc2gm", "bc5cdr-chem", "jnlpba", "ncbi-disease")
]
_PIPELINE = """
name = "growth"
[source]
duplicates = "keep"
use = "conll"
[segment]
use = "given"
"""
_EPOCH = """
import json, sys
import mslm_data as md
batches = md.Batches(md.load(sys.argv[1])["train"], "joint", batch_size=32)
print(json.dumps({"sequences": sum(len(batch["input_ids"]) for batch in batches)}))
"""

_ABOUT = """
Generated sentences, each work a whole command, start-up included. CPU time and memory are of all
processes together, memory at its peak: pages that processes share count once, pages of mapped files
not at all.
"""
_ABOUT_SCALING = """
By Amdahl's law a build takes *s + p / n* seconds with *n* workers: *s* is what no further worker
shortens, *p* is what is divided among them. Together they are the time with one worker. The serial
share is *s / (s + p)*. On {cores} cores a build is at most *(s + p) / (s + p / {cores})* times as
fast as with one worker. Here *s* is found in three ways.

* By times: the law is fitted to the wall times above. With one worker and two, *s* is twice the
second time less the first. So it includes what cores take from each other: memory, disk, clock.
* By looking: the seconds of the build with {most} workers in which fewer than two of its processes
computed or could, looked at twenty times a second. They are start-up, planning, the end, waiting
for the disk, and the last work unit.
* Of the program: the same, less the seconds in which one of the processes waited for the disk. A
machine with more cores has a disk of its own, so this is what the program itself allows.

The law does not know how many work units there are: {cores} workers need as many, and several times
as many to end at about the same time.
"""


class Measured(NamedTuple):
    """Measurements on a corpus of one size.

    Attributes:
        sentences: Number of sentences.
        tokens: Number of tokens of all rows.
        read: Size of the corpus in bytes.
        written: Size of the shard folder in bytes.
        builds: Number of workers -> time and memory of the build.
        stats: Time and memory of `mask-stats`.
        epoch: Time and memory of an epoch of batches.
    """

    sentences: int
    tokens: int
    read: int
    written: int
    builds: Mapping[int, Figure]
    stats: Figure
    epoch: Figure


def run(
    inputs: Inputs,  # noqa: ARG001 - corpora of all sizes are generated from the samples
    scratch: Path,
    *,
    sizes: Sequence[int] = (10_000, 100_000, 1_000_000, 10_000_000),
    workers: Sequence[int] = (1, 2),
    rounds: int = 1,
) -> Results:
    """Measure all sizes.

    Args:
        inputs: Unused.
        scratch: Scratch folder; 900 bytes per sentence.
        sizes: Numbers of sentences.
        workers: Numbers of workers.
        rounds: Number of builds with each, of which the median is taken.
    """
    measurements = []
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            measurements.append(measure(size, Path(folder), workers=sorted(workers), rounds=rounds))
        print(f"{size:,} sequences are measured", file=sys.stderr, flush=True)
    return Results(about=_ABOUT, tables=tables(measurements, rounds=rounds))


def measure(size: int, scratch: Path, *, workers: Sequence[int], rounds: int) -> Measured:
    """Build a corpus with each number of workers, count its masks and read an epoch.

    Args:
        size: Number of sentences.
        scratch: Folder for corpus and shards.
        workers: Numbers of workers.
        rounds: Number of builds with each.

    Raises:
        RuntimeError: A command fails, or folders of two builds differ.
    """
    source = scratch / "in"
    out = scratch / "out"
    pipeline = scratch / "growth.toml"
    pipeline.write_text(_PIPELINE, encoding="utf-8")
    read = _write(source, size)

    builds: dict[int, list[Figure]] = {number: [] for number in workers}
    digests = set()
    for _ in range(rounds):
        for number, figures in builds.items():
            shutil.rmtree(out, ignore_errors=True)
            figures.append(
                watched(
                    [
                        *("-m", "mslm_data", "build"),
                        *("--source", str(pipeline)),
                        *("--input", str(source)),
                        *("--tokenizer", str(VOCAB)),
                        *("--workers", str(number)),
                        *("--out", str(out)),
                    ]
                )
            )
            digests.add((out / "manifest.json").read_bytes())
    if len(digests) != 1:
        raise RuntimeError(f"build of {size:,}: expected equal folders with any number of workers")

    stats = watched(["-m", "mslm_data", "mask-stats", str(out), "--json"])
    epoch = watched(["-c", _EPOCH, str(out)])
    return Measured(
        sentences=size,
        tokens=json.loads(stats.printed)["tokens"],
        read=read,
        written=sum(path.stat().st_size for path in out.rglob("*") if path.is_file()),
        builds={number: _middle(figures) for number, figures in builds.items()},
        stats=stats,
        epoch=epoch,
    )


def _write(folder: Path, size: int) -> int:
    """Write a corpus of `size` sentences in files of `BLOCK`; return its size in bytes."""
    sentences = [sentence for path in _CORPORA for sentence in corpora.read(path)]
    varied = corpora.vary(sentences, min(size, BLOCK * BLOCKS))

    folder.mkdir()
    written = 0
    for number in range(-(-size // BLOCK)):
        first = number % BLOCKS * BLOCK
        remaining = size - number * BLOCK
        path = folder / f"train-{number:05d}.tsv"
        corpora.write(path, varied[first : first + min(BLOCK, remaining)])
        written += path.stat().st_size
    return written


def _middle(figures: Sequence[Figure]) -> Figure:
    """Return the figure of median duration, the lower one if their number is even."""
    return sorted(figures, key=lambda figure: figure.seconds)[(len(figures) - 1) // 2]


def undivided(seconds: Mapping[int, float]) -> float:
    """Return the serial seconds s of a build, by Amdahl's law `s + p / n` for n workers.

    The law is fitted by least squares. With one worker and two, s is twice the second time minus
    the first. The result is clipped to `[0, time with the fewest workers]`.

    Args:
        seconds: Number of workers -> wall time. At least two entries.
    """
    inverse = [1 / number for number in seconds]
    _, undivided = np.polyfit(inverse, list(seconds.values()), 1)
    return min(max(0.0, float(undivided)), seconds[min(seconds)])


def speed_up(undivided: float, one_worker: float, cores: int) -> float:
    """Return the speed-up over one worker, by Amdahl's law.

    Args:
        undivided: Serial seconds.
        one_worker: Seconds with one worker.
        cores: Number of cores and of workers.
    """
    return one_worker / (undivided + (one_worker - undivided) / cores)


def tables(measurements: Sequence[Measured], *, rounds: int) -> list[Table]:
    """Make the tables of builds, of reading, and of the serial time of builds.

    The last needs times of one worker and of more.
    """
    times = "once" if rounds == 1 else f"{rounds} times in turn (the medians are shown)"
    builds = _table(
        "Builds",
        f"Every corpus was built {times} with each number of workers, to equal folders.",
        "sequences; M tokens; input, MB; folder, MB; workers; s; CPU, s; M tokens/s; MiB",
        [cells for measured in measurements for cells in _build_rows(measured)],
    )
    reading = _table(
        "Reading",
        "An epoch is all batches of 32 of `joint`, shuffled.",
        "sequences; mask-stats, s; M tokens/s; MiB; epoch, s; M tokens/s; MiB",
        [_reading_row(measured) for measured in measurements],
    )
    if any(len(measured.builds) < 2 or 1 not in measured.builds for measured in measurements):
        return [builds, reading]

    most = max(workers for measured in measurements for workers in measured.builds)
    share = f"serial share; on {CORES} cores"
    scaling = _table(
        "What is not divided among workers",
        _ABOUT_SCALING.format(cores=CORES, most=most),
        f"sequences; 1 worker, s; {most} workers, s; times as fast; s by times; {share}; "
        f"s by looking; {share}; s of the program; {share}",
        [_scaling_row(measured) for measured in measurements],
    )
    return [builds, reading, scaling]


def _table(title: str, about: str, header: str, rows: Sequence[Sequence[str]]) -> Table:
    titles = header.split("; ")
    return Table(title=title, about=about, header=titles, rows=rows, align="r" * len(titles))


def _build_rows(measured: Measured) -> list[list[str]]:
    """Return the cells of a table row for each number of workers."""
    return [
        [
            f"{measured.sentences:,}",
            f"{measured.tokens / 1e6:,.1f}",
            f"{measured.read / 1e6:,.0f}",
            f"{measured.written / 1e6:,.0f}",
            f"{workers}",
            f"{figure.seconds:,.1f}",
            f"{figure.cpu:,.1f}",
            f"{measured.tokens / figure.seconds / 1e6:,.2f}",
            f"{figure.mib:,.0f}",
        ]
        for workers, figure in measured.builds.items()
    ]


def _reading_row(measured: Measured) -> list[str]:
    cells = [f"{measured.sentences:,}"]
    for figure in (measured.stats, measured.epoch):
        cells += [
            f"{figure.seconds:,.1f}",
            f"{measured.tokens / figure.seconds / 1e6:,.2f}",
            f"{figure.mib:,.0f}",
        ]
    return cells


def _scaling_row(measured: Measured) -> list[str]:
    builds = measured.builds
    one_worker = builds[1].seconds
    most_workers = builds[max(builds)]

    cells = [
        f"{measured.sentences:,}",
        f"{one_worker:,.1f}",
        f"{most_workers.seconds:,.1f}",
        f"{one_worker / most_workers.seconds:.2f}x",
    ]
    by_times = undivided({workers: figure.seconds for workers, figure in builds.items()})
    for seconds in (
        by_times,
        min(most_workers.alone, one_worker),
        min(most_workers.alone - most_workers.disk, one_worker),
    ):
        cells += [
            f"{seconds:,.2f}",
            f"{seconds / one_worker:.1%}",
            f"{speed_up(seconds, one_worker, CORES):,.1f}x",
        ]
    return cells
