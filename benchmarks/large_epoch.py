"""Plan epochs of 200 million rows, from their lengths alone: memory and time.

`python -m benchmarks.large_epoch`

No text is needed: an epoch is planned from the lengths of its rows and the sizes of its shards.
Each kind of batches is planned in a process of its own, which then takes the batches of one rank of
eight to the end of the epoch. Prints a table for docs/limits.md. The exit code is 1 if a plan takes
more memory or time than its maximum.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.report import markdown_table
from mslm_data.batches.batch_options import BatchOptions
from mslm_data.batches.order import EpochOrder, Position

ROWS = 200_000_000
SHARD_ROWS = 100_000
WORLD = 8
MAX_BYTES = 12
"""Maximum memory of a plan per row."""
MAX_SECONDS = 90.0
"""Maximum CPU time of a plan, in one thread."""
ORDERS: Mapping[str, dict[str, Any]] = {
    "32 rows": {"batch_size": 32},
    "32 rows, `bucketed=False`": {"batch_size": 32, "bucketed": False},
    "3,328 tokens": {"batch_tokens": 3328},
    '3,328 tokens, `shuffle="shards"`': {"batch_tokens": 3328, "shuffle": "shards"},
}


class Lengths:
    """Rows of which only the lengths exist, like those of sentences.

    Attributes:
        tokens: Number of tokens.
        shard_rows: Number of rows of each shard.
    """

    def __init__(self, rows: int) -> None:
        """Draw the lengths, 2 bytes a row."""
        rng = np.random.default_rng(0)
        self._lengths = np.empty(rows, np.uint16)
        for first in range(0, rows, SHARD_ROWS):
            drawn = rng.gamma(3, 11, min(SHARD_ROWS, rows - first)).clip(3, 128)
            self._lengths[first : first + SHARD_ROWS] = drawn
        self.tokens = int(self._lengths.sum(dtype=np.int64))
        bounds = [*range(0, rows, SHARD_ROWS), rows]
        self.shard_rows = tuple(np.diff(bounds).tolist())

    def __len__(self) -> int:
        return len(self._lengths)

    def lengths(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.uint16]:
        """Return the number of tokens of each row."""
        lengths: npt.NDArray[np.uint16] = self._lengths[rows]
        return lengths


def main(arguments: Sequence[str] | None = None) -> int:
    """Plan each kind of epoch in a process of its own, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--order", choices=list(ORDERS), help="plan this kind here, for main")
    options = parser.parse_args(arguments)
    if options.order:
        print(json.dumps(plan(options.rows, options.order)))
        return 0

    table = []
    is_within = True
    for name in ORDERS:
        words = ["--rows", str(options.rows), "--order", name]
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.large_epoch", *words],
            check=True,
            capture_output=True,
            text=True,
        )
        found = json.loads(done.stdout)
        is_within &= found["bytes"] <= MAX_BYTES and found["plan"] <= MAX_SECONDS
        table.append(
            (
                name,
                f"{found['bytes']:.1f}",
                f"{found['plan']:.1f}",
                f"{found['steps']:,}",
                f"{found['epoch']:.1f}",
            )
        )
    head = ("batches", "bytes a row", "CPU s to plan", f"steps on {WORLD} ranks", "CPU s an epoch")
    print(f"{options.rows:,} rows in shards of {SHARD_ROWS:,}\n")
    print("\n".join(markdown_table(head, table, align="lrrrr")))
    return 0 if is_within else 1


def plan(rows: int, name: str) -> dict[str, float]:
    """Plan an epoch and walk through the steps of one rank.

    Returns:
        `bytes`, the peak of memory per row above that of the lengths; `plan`, CPU seconds to plan
        all blocks; `epoch`, CPU seconds to plan and walk; `steps`.
    """
    options = BatchOptions(seed=1, **ORDERS[name])
    # Compiles the kernels.
    for _ in EpochOrder(Lengths(10_000), options).batches(Position(1, step=0, tokens=0)):
        pass

    order = EpochOrder(Lengths(rows), options)
    before = _peak()
    start = time.process_time()
    for block in range(len(order.bounds(1)) - 1):
        order.plan(1, block)
    planned = time.process_time() - start
    peak = _peak()

    order = EpochOrder(order.rows, options)
    start = time.process_time()
    taken = order.batches(Position(1, step=0, tokens=0), rank=WORLD - 1, world=WORLD)
    steps = sum(1 for _ in taken)
    epoch = time.process_time() - start
    return {"bytes": (peak - before) / rows, "plan": planned, "epoch": epoch, "steps": steps}


def _peak() -> int:
    """Return the maximum memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    sys.exit(main())
