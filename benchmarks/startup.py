"""Start-up times: `--help`, first commands and first batches, with and without cached kernels.

`python -m benchmarks startup`
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from benchmarks.folders import sentences
from benchmarks.harness import MET, MISSED, Results, Row, row_at_most
from benchmarks.inputs import Inputs
from benchmarks.watch import watched

_HELP_SECONDS = 0.3
_COMPILE_SECONDS = {"build": 5.0, "mask-stats": 2.0}
"""Command -> maximum CPU seconds to compile kernels on first use."""
_ROUNDS = 3
_CACHE = "MSLM_DATA_CACHE"
"""Environment variable with the folder of cached kernels."""

_FIRST_BATCH = """
import time
start = time.perf_counter()
import numba
numba_ready = time.perf_counter()
import sys
import mslm_data as md
train = md.load(sys.argv[1])["train"]
batches = iter(md.Batches(train, md.strategy("joint"), batch_size=4))
ready = time.perf_counter()
next(batches)
done = time.perf_counter()
print(numba_ready - start, ready - numba_ready, done - ready)
"""


def run(inputs: Inputs, scratch: Path) -> Results:
    """Time `--help`, first commands, and first batches: compiled and cached."""
    folder = Path(str(sentences(inputs, scratch, copies=1).folder))
    rows = [_help(command) for command in ([], ["build"])]
    rows += _first_commands()

    with tempfile.TemporaryDirectory(prefix="mslm-bench-") as cache:
        # Runs share a cache: the first one compiles kernels, the others load them.
        runs = [_times(_FIRST_BATCH, folder, cache) for _ in range(4)]

    cold = runs[0]
    cached = [statistics.median(times) for times in zip(*runs[1:], strict=True)]
    what = "in a new process, after all imports, the first batch of a built folder"
    rows.append(
        Row(name="first batch, kernels compiled", what=f"{what}; no cache.", unit="s", ours=cold[2])
    )
    rows.append(
        Row(
            name="first batch, kernels cached",
            what=f"{what}, with the kernels from the cache; the limit is `import numba` (ours "
            "comes besides).",
            unit="s",
            ours=cached[2],
            limit=cached[0],
        )
    )
    return Results(rows=rows)


def _help(command: list[str]) -> Row:
    """Time `--help` and `python -c pass` in turn."""
    ours = []
    bare = []
    for _ in range(9):
        ours.append(watched(["-m", "mslm_data", *command, "--help"]))
        bare.append(watched(["-c", "pass"]))

    seconds = [figure.seconds for figure in ours]
    cpu = statistics.median(figure.cpu for figure in ours)
    return row_at_most(
        " ".join(["`mslm-data", *command, "--help`"]),
        statistics.median(seconds),
        _HELP_SECONDS,
        unit="s",
        what=f"wall clock ({min(seconds):.2f} to {max(seconds):.2f} s; CPU {cpu:.2f} s); the limit "
        "is `python -c pass`.",
        limit=statistics.median(figure.seconds for figure in bare),
    )


def _first_commands() -> list[Row]:
    """Time a build of a sample and `mask-stats`, with an empty kernel cache, then a filled one.

    The rows give the minimum CPU time over rounds, which depends least on other load.
    """
    cold: dict[str, list[float]] = {name: [] for name in _COMPILE_SECONDS}
    cached: dict[str, list[float]] = {name: [] for name in _COMPILE_SECONDS}
    for _ in range(_ROUNDS):
        with tempfile.TemporaryDirectory(prefix="mslm-bench-") as scratch:
            for seconds in (cold, cached):
                out = str(Path(scratch, "cold" if seconds is cold else "cached"))
                sample = ["--source", "blurb/ncbi-disease", "--sample", "--out", out]
                for command in (["build", *sample], ["mask-stats", out]):
                    figure = watched(["-m", "mslm_data", *command], env={_CACHE: scratch})
                    seconds[command[0]].append(figure.cpu)

    rows = []
    for name, goal in _COMPILE_SECONDS.items():
        ours, limit = min(cold[name]), min(cached[name])
        rows.append(
            Row(
                name=f"first `mslm-data {name}` of a sample, kernels compiled",
                what="CPU time of the whole command; the limit is the same with the kernels from "
                "the cache.",
                unit="s",
                ours=ours,
                limit=limit,
                goal=f"{goal:g} s more than the limit",
                met=MET if ours - limit <= goal else MISSED,
            )
        )
    return rows


def _times(script: str, folder: Path, cache: str) -> list[float]:
    """Run a script on a shard folder, with its kernel cache in `cache`; return its figures."""
    printed = watched(["-c", script, str(folder)], env={_CACHE: cache}).printed
    return [float(seconds) for seconds in printed.split()]
