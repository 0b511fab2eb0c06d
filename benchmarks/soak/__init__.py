"""Soak test: build, load, kill and damage at random. `python -m benchmarks soak`.

| file | contents |
|---|---|
| `corpora` | corpora in several formats |
| `commands` | running and disturbing the command, and checks of its end |
| `reader` | a long-lived process that loads folders, reads epochs and builds |
| `rounds` | kinds of rounds |
| `page` | growth of memory, and the tables |

Each round has its own random stream, so `--try --set only=N` with the same seed repeats its
choices. The timing of signals is not reproducible.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from pathlib import Path

from benchmarks.harness import Results
from benchmarks.inputs import Inputs

_MOST_FINDINGS = 200
"""Number of findings after which the soak ends early."""
_ABOUT = """
Builds of corpora of {forms} forms, kills and signals, loads and epochs in a process that lives as
long as the soak, and damaged files, in a loop at random: {minutes:.0f} minutes, {rounds:,} rounds,
{commands:,} commands, seed {seed}. {found}
"""


def run(
    inputs: Inputs,  # noqa: ARG001 - corpora are made from the shipped samples
    scratch: Path,
    *,
    minutes: float = 120,
    seed: int = 0,
    only: int = -1,
) -> Results:
    """Run rounds, and judge them and the growth of memory.

    Args:
        inputs: Unused.
        scratch: Scratch folder.
        minutes: Duration.
        seed: Random seed.
        only: Number of the only round. Default: -1, all.
    """
    # Not at the top: the reader's process imports this package too.
    from benchmarks.soak import corpora, page
    from benchmarks.soak.reader import Reader
    from benchmarks.soak.rounds import Soak, play_round

    began = time.monotonic()
    numbers = itertools.count() if only < 0 else iter([only])
    findings: list[str] = []
    kinds = Counter[str]()
    with Reader(scratch / "reader.err") as reader:
        soak = Soak(scratch, reader)
        for number in numbers:
            if time.monotonic() - began > minutes * 60 or len(findings) >= _MOST_FINDINGS:
                break
            kind, round_findings = play_round(soak, seed, number)
            kinds[kind] += 1
            findings += round_findings

    findings += page.memory_findings(soak.memory)
    about = _ABOUT.format(
        forms=len(corpora.names()) // corpora.VARIANTS,
        minutes=(time.monotonic() - began) / 60,
        rounds=kinds.total(),
        commands=soak.counts["commands"],
        seed=seed,
        found="" if findings else "Nothing was found.",
    )
    tables = [
        page.counts_table("round", kinds, title="What was done"),
        page.counts_table("event", soak.counts),
        page.memory_table(soak.memory),
    ]
    return Results(about=about, tables=tables, failures=findings)
