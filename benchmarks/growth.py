"""Measure time and memory from ten thousand rows to ten million: `python -m benchmarks.growth`.

A corpus of each size is made of varied sentences of the project's own. It is built, counted by
mask-stats, and read for an epoch of shuffled, masked batches, each in a process of its own. Memory
is what the processes have for themselves. Pages of mapped shards belong to the system, which takes
them back as it likes. Writes RESULTS-growth.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks import inputs as corpora
from benchmarks.batching import own_memory
from benchmarks.report import commit, machine

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
BLOCK = 10_000
"""Sentences of one file. A corpus of more than `BLOCKS` files repeats them."""
BLOCKS = 25
LOOK_S = 0.05
VOCAB = corpora.ROOT / "vocab" / "sample" / "vocab.txt"
_CORPORA = [
    VOCAB.parent / name / "train.tsv" for name in ("bc2gm", "bc5cdr-chem", "jnlpba", "ncbi-disease")
]


class Figure(NamedTuple):
    """Seconds and output of one command, and the peak MiB of its processes together."""

    seconds: float
    printed: str
    mib: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all sizes and write the page, or run one step in this process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--workers", default="2")
    parser.add_argument("--scratch", type=Path, help="Where there is room: 400 bytes a sequence.")
    parser.add_argument(
        "--out", type=Path, default=corpora.ROOT / "benchmarks" / "RESULTS-growth.md"
    )
    parser.add_argument("--epoch", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.epoch:
        return _epoch(options.epoch)
    lines = []
    for size in options.sizes:
        with tempfile.TemporaryDirectory(prefix="mslm-growth-", dir=options.scratch) as folder:
            lines.append(_measured(size, Path(folder), options.workers))
            print(lines[-1], file=sys.stderr, flush=True)
    page = _page(lines, options.workers)
    options.out.write_text(page, encoding="utf-8")
    print(page)
    return 0


def _measured(size: int, scratch: Path, workers: str) -> str:
    """Return the line of one size."""
    source, out = scratch / "in", scratch / "out"
    num_bytes = _write(source, size)
    program = [sys.executable, "-m", "mslm_data"]
    words = (
        "build",
        "--source",
        _pipeline(scratch),
        "--input",
        str(source),
        "--tokenizer",
        str(VOCAB),
    )
    built = _watched([*program, *words, "--out", str(out), "--workers", workers])
    stats = _watched([*program, "mask-stats", str(out), "--json"])
    epoch = _watched([sys.executable, "-m", "benchmarks.growth", "--epoch", str(out)])
    tokens = json.loads(stats.printed)["tokens"]
    disk = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    cells = [f"{size:,}", f"{tokens / 1e6:,.1f}", f"{num_bytes / 1e6:,.0f}", f"{disk / 1e6:,.0f}"]
    for figure in (built, stats, epoch):
        cells += [
            f"{figure.seconds:,.1f}",
            f"{tokens / figure.seconds / 1e6:,.2f}",
            f"{figure.mib:,.0f}",
        ]
    return f"| {' | '.join(cells)} |"


def _write(folder: Path, size: int) -> int:
    """Write a corpus of some sentences into files of a block each; return its bytes."""
    folder.mkdir()
    sentences = [sentence for path in _CORPORA for sentence in corpora.read(path)]
    varied = corpora.vary(sentences, min(size, BLOCK * BLOCKS))
    written = 0
    for number in range(-(-size // BLOCK)):
        start = number % BLOCKS * BLOCK
        path = folder / f"train-{number:05d}.tsv"
        corpora.write(path, varied[start : start + min(BLOCK, size - number * BLOCK)])
        written += path.stat().st_size
    return written


def _pipeline(scratch: Path) -> str:
    path = scratch / "growth.toml"
    path.write_text(
        'name = "growth"\n[source]\nuse = "conll"\n[segment]\nuse = "presplit"\n', encoding="utf-8"
    )
    return str(path)


def _epoch(folder: Path) -> int:
    """Read an epoch of batches, as a training loop would."""
    from mslm_data import Batches, load, strategy

    rows = sum(
        len(batch["input_ids"])
        for batch in Batches(load(folder)["train"], strategy("joint"), batch_size=32)
    )
    print(json.dumps({"sequences": rows}))
    return 0


def _watched(command: Sequence[str]) -> Figure:
    """Run a command, and read the memory of its processes all the while."""
    most = 0
    start = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=corpora.ROOT
    ) as process:
        over = threading.Event()

        def look() -> None:
            nonlocal most
            while not over.wait(LOOK_S):
                most = max(most, sum(map(own_memory, _all(process.pid))))

        looking = threading.Thread(target=look)
        looking.start()
        printed = process.communicate()[0].decode()
        over.set()
        looking.join()
        if process.returncode:
            raise SystemExit(
                f"expected {' '.join(command[2:4])} to succeed, got exit code {process.returncode}"
            )
    return Figure(time.perf_counter() - start, printed, most / 1024)


def _all(pid: int) -> Iterator[int]:
    """Yield a process and those below it."""
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from _all(int(child))


def _page(lines: Sequence[str], workers: str) -> str:
    three = " | ".join(f"{work}, s | M tokens/s | MiB" for work in ("build", "mask-stats", "epoch"))
    return "\n".join([
        "# How cost grows", "",
        "Written by `python -m benchmarks.growth`: generated sentences, each work in processes of "
        "its own, start-up "
        "included.",
        f"Build with {workers} workers; an epoch is all batches of 32 of `joint`, shuffled. MiB "
        f"are of all processes "
        "of the work together, without",
        "pages of mapped files.", "",
        f"| sequences | M tokens | input, MB | shards, MB | {three} |",
        f"| {' | '.join(['---:'] * 13)} |", *lines, "",
        *[f"* {line}" for line in [*machine(), f"Commit: {commit(corpora.ROOT)}"]], "",
    ])  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
