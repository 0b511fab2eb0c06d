"""Run the soak test, and write docs/results/soak.md."""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

from benchmarks.inputs import ROOT
from benchmarks.soak import corpora
from benchmarks.soak.page import Finding, memory_findings, page
from benchmarks.soak.reader import Reader
from benchmarks.soak.rounds import ROUNDS, Round, Soak

_MOST_FINDINGS = 200
"""Number of findings after which the soak ends early."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run rounds and write the page. Returns 1 if there are findings."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, metavar="N", help="run only round N, write no page")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "soak.md")
    options = parser.parse_args(arguments)

    # Delete the scratch folder as after Ctrl-C.
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
                kind, round_findings = _round(soak, options.seed, number)
                kinds[kind] += 1
                findings += round_findings

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
    """Run a round, and return its kind and its findings."""
    rng = random.Random(f"{seed}-{number}")
    play = _draw_round(rng)
    kind = play.__name__.replace("_", " ")
    soak.out.parent.mkdir()

    began = time.monotonic()
    round_findings = []
    for complaint in _complaints(play, soak, rng):
        what = complaint.replace(str(soak.scratch), "…").replace(str(ROOT), "…")
        round_findings.append(Finding(number, kind, what))
    shutil.rmtree(soak.out.parent)

    seconds = time.monotonic() - began
    print(f"round {number}, {kind}: {seconds:.1f} s", file=sys.stderr, flush=True)
    for finding in round_findings:
        print(f"  FOUND: {finding.what}", file=sys.stderr, flush=True)
    return kind, round_findings


def _complaints(play: Round, soak: Soak, rng: random.Random) -> Iterator[str]:
    """Yield the complaints of a round. An error that ends it is one: later rounds must go on."""
    try:
        yield from play(soak, rng)
    except Exception as error:  # noqa: BLE001 - the findings of hours would be lost
        traceback.print_exc()
        last = str(error).strip().rpartition("\n")[2]
        yield f"{type(error).__name__}: {last}"


def _draw_round(rng: random.Random) -> Round:
    return rng.choices([*ROUNDS], [*ROUNDS.values()])[0]


if __name__ == "__main__":
    sys.exit(main())
