"""Runs the soak, and writes docs/results/soak.md."""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from benchmarks.inputs import ROOT
from benchmarks.soak import corpora
from benchmarks.soak.page import Finding, memory_findings, page
from benchmarks.soak.reader import Reader
from benchmarks.soak.rounds import ROUNDS, Round, Soak

_MOST_FINDINGS = 200
"""After so many findings the soak ends: more say nothing new."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Soak for some minutes, write the page, and return 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, metavar="N", help="do round N alone, and write no page")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "soak.md")
    options = parser.parse_args(arguments)

    # As after Ctrl-C, the folder of everything goes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))

    began = time.monotonic()
    numbers = count() if options.only is None else [options.only]
    findings: list[Finding] = []
    kinds = Counter[str]()
    with tempfile.TemporaryDirectory(prefix="mslm-soak-") as folder:
        scratch = Path(folder)
        with Reader(scratch / "reader.err") as reader:
            soak = Soak(scratch, reader)
            for number in numbers:
                if time.monotonic() - began > options.minutes * 60:
                    break
                if len(findings) >= _MOST_FINDINGS:
                    break
                kind, found = _round(soak, options.seed, number)
                kinds[kind] += 1
                findings += found

    minutes = (time.monotonic() - began) / 60
    findings += memory_findings(soak.memory)
    if options.only is None:
        text = page(
            {"rounds": kinds, "events": soak.counts},
            findings,
            soak.memory,
            seed=options.seed,
            minutes=minutes,
            rounds=kinds.total(),
            forms=len(corpora.names()) // corpora.VARIANTS,
        )
        options.out.write_text(text, encoding="utf-8")
        print(text)
    return 1 if findings else 0


def _round(soak: Soak, seed: int, number: int) -> tuple[str, list[Finding]]:
    """Do a round; return its kind and what was found."""
    rng = random.Random(f"{seed}-{number}")
    do = _drawn(rng)
    kind = do.__name__.replace("_", " ")
    soak.out.parent.mkdir()

    began = time.monotonic()
    found = []
    for complaint in do(soak, rng):
        what = complaint.replace(str(soak.scratch), "…").replace(str(ROOT), "…")
        found.append(Finding(number, kind, what))
    shutil.rmtree(soak.out.parent)

    seconds = time.monotonic() - began
    print(f"round {number}, {kind}: {seconds:.1f} s", file=sys.stderr, flush=True)
    for finding in found:
        print(f"  FOUND: {finding.what}", file=sys.stderr, flush=True)
    return kind, found


def _drawn(rng: random.Random) -> Round:
    return rng.choices([*ROUNDS], [*ROUNDS.values()])[0]


if __name__ == "__main__":
    sys.exit(main())
