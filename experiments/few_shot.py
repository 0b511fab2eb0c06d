"""Plan of the few-shot question: does masking terms help where few gold documents are at hand?

The encoder is adapted on text without gold mentions, with names of open vocabularies as terms. Then
it is fine-tuned on a share of a corpus' training documents, and scored on the whole test text. All
arms mask equally many tokens in equally many steps.

Five replicates are independent: each has an adapted encoder and a nested subset of its own. Three
fine-tuning seeds in each replicate average the chance of training out. The replicate is the unit of
all intervals. `experiments/README.md` has the protocol.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.lines import Line, Run, key_of
from experiments.plan import ADAPTATION, TRIED_SEEDS, Step, with_needs

CORPORA = ("NCBI-disease", "BC5CDR-chem")
"""Corpora of the primary comparison."""
MORE_CORPORA = ("BC5CDR-disease",)
SHARES = (0.10, 0.05)
"""Shares of the training documents of the primary comparison."""
OTHER_SHARES = (0.25, 0.02, 0.01, 1.0)
"""Further points of the curve, with one seed a replicate."""
REPLICATES = range(5)
SEEDS = 3
"""Fine-tuning seeds of a replicate."""

MASKED = 0.15
"""Share of tokens masked in each adaptation."""
ARMS: Mapping[str, str] = {
    "token": "token",
    "joint": "half-unbiased",
    "random spans": "random spans",
    "none": "",
    "whole-word": "whole-word",
}
"""Arm -> the masks of its adaptation, names of `experiments.masks.MASKS`."""
PRIMARY = ("token", "joint", "random spans", "none")
"""Arms of the primary comparison, its control and its baseline, in the order of the runs."""
EPOCHS: Mapping[float, tuple[int, int]] = {
    0.01: (60, 120),
    0.02: (30, 60),
    0.05: (12, 24),
    0.10: (6, 12),
    0.25: (3, 5),
    1.0: (2, 3),
}
"""Share -> the two numbers of epochs to try. Up to a tenth, these are about 200 and 400 steps."""
RATES = (2e-4, 4e-4)
"""Learning rates that are tried."""
BATCH_SIZE = 16


def steps(lines: Sequence[Line]) -> Iterator[Step]:
    """Yield the runs: tries, the primary comparison, the curve of the yardstick, then the rest."""
    for corpus, share in itertools.product(CORPORA, SHARES):
        for run in tries(corpus, share):
            yield Step(run=run)

    for replicate in REPLICATES:
        for corpus, share in itertools.product(CORPORA, SHARES):
            yield from _compare(PRIMARY, corpus, share, replicate, SEEDS, lines)

    # The yardstick needs this arm's curve alone. A point of it needs all replicates.
    for share, replicate, corpus in itertools.product(OTHER_SHARES, REPLICATES, CORPORA):
        yield from _compare(("none",), corpus, share, replicate, 1, lines)

    for replicate in REPLICATES:
        for share in SHARES:
            for corpus in MORE_CORPORA:
                yield from _compare(PRIMARY, corpus, share, replicate, SEEDS, lines)
            for corpus in CORPORA:
                yield from _compare(("token", "whole-word"), corpus, share, replicate, 1, lines)
                yield from _compare(PRIMARY, corpus, share, replicate, 1, lines, frozen=True)
        for corpus, share in itertools.product(CORPORA, OTHER_SHARES):
            yield from _compare(PRIMARY, corpus, share, replicate, 1, lines)


def tries(corpus: str, share: float) -> list[Run]:
    """Return the runs that choose the epochs and the learning rate of a corpus and a share.

    They train the arm without adaptation and are scored on validation text. No comparison uses
    their subsets and seeds. A share without tries takes the choice of the nearest share with tries.
    """
    near = min(SHARES, key=lambda tried: abs(tried - share))
    return [
        _run("none", corpus, near, seed, seed, (longer, rate), scored="validation")
        for longer, rate in itertools.product((False, True), RATES)
        for seed in TRIED_SEEDS
    ]


def adaptation(arm: str, replicate: int) -> Run:
    """Return the run that adapts the encoder for an arm in a replicate."""
    options = {**ADAPTATION, "masked": MASKED}
    return Run(
        task="adaptation", corpus="open text", arm=ARMS[arm], seed=replicate, options=options
    )


def choose_schedule(corpus: str, share: float, lines: Sequence[Line]) -> tuple[bool, float]:
    """Return whether to train longer, and the learning rate, by mean F1 on validation text.

    Until all tries are finished, these are the shorter training and the lower rate.
    """
    runs = tries(corpus, share)
    keys = {run.key for run in runs}
    scores = {key_of(line): line["scores"]["f1"] for line in lines if key_of(line) in keys}
    if len(scores) < len(runs):
        return False, RATES[0]

    by_schedule: dict[tuple[bool, float], list[float]] = {}
    for run in runs:
        longer = run.options["epochs"] == EPOCHS[run.options["share"]][1]
        schedule = (longer, run.options["rate"])
        by_schedule.setdefault(schedule, []).append(scores[run.key])
    return max(by_schedule, key=lambda schedule: statistics.fmean(by_schedule[schedule]))


def _compare(
    arms: Sequence[str],
    corpus: str,
    share: float,
    replicate: int,
    seeds: int,
    lines: Sequence[Line],
    *,
    frozen: bool = False,
) -> Iterator[Step]:
    """Yield the runs of some arms, each compared with the first."""
    schedule = choose_schedule(corpus, share, lines)
    tried = tries(corpus, share)
    for number in range(seeds):
        seed = replicate * SEEDS + number
        first: tuple[Run, ...] = ()
        for arm in arms:
            run = _run(arm, corpus, share, replicate, seed, schedule, frozen=frozen)
            adapted = [adaptation(name, replicate) for name in (arms[0], arm) if ARMS[name]]
            yield from with_needs(Step(run=run, against=first, needs=(*tried, *adapted)))
            first = first or (run,)


def _run(
    arm: str,
    corpus: str,
    share: float,
    replicate: int,
    seed: int,
    schedule: tuple[bool, float],
    *,
    scored: str = "test",
    frozen: bool = False,
) -> Run:
    longer, rate = schedule
    options: dict[str, Any] = {
        "batch_size": BATCH_SIZE,
        "epochs": EPOCHS[share][longer],
        "frozen": frozen,
        "rate": rate,
        "replicate": replicate,
        "scored": scored,
        "share": share,
    }
    return Run(task="few-shot", corpus=corpus, arm=arm, seed=seed, options=options)
