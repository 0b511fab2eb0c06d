"""Declare all runs, the most valuable first.

Within a question and a corpus, all arms of a seed come before the next seed, so an interruption
leaves complete pairs. An arm's learning rate is the best of `RATES` on validation text. These tries
are runs, too, and come first. The plan is recomputed after each run, so rates are known when they
are needed.

A pair consists of two runs with the same seed and the same initial weights. The language modelling
head of these weights differs in its last bits between processors. If a run's partner has no line
with the weights of this machine, both are run here.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from experiments.lines import Line, Run, key_of

SEEDS = range(5)
RATES = (1e-4, 2e-4, 4e-4, 8e-4)
"""Learning rates that each arm tries."""
UNTRIED_RATE = 2e-4
"""Learning rate before any try."""
TRIED_SEEDS = (100, 101, 102)
"""Seeds of the tries. No comparison uses them."""


NER: dict[str, Any] = {"epochs": 3, "batch_size": 16, "scored": "test"}
ADAPTATION: dict[str, Any] = {"epochs": 1, "batch_size": 32, "rate": 2e-4, "dropout": False}
"""Adaptation on domain text. No dropout: one pass cannot overfit."""
ADAPTED_RATE = 4e-4
"""Learning rate of fine-tuning after adaptation, and of the plain arm beside it."""
CLASSIFIER: dict[str, dict[str, Any]] = {
    "ACL-ARC": {"epochs": 8, "batch_size": 16, "rate": 2e-4, "scored": "test"},
    "ChemProt": {"epochs": 4, "batch_size": 16, "rate": 2e-4, "scored": "test"},
}
"""Training of each task's classifier. The learning rate is chosen on ChemProt's validation rows."""
TASK_ADAPTATION: dict[str, dict[str, Any]] = {
    "ACL-ARC": {"epochs": 8, "batch_size": 16, "rate": 2e-4},
    "ChemProt": {"epochs": 3, "batch_size": 16, "rate": 2e-4},
}
"""Adaptation before classification, on the task's training text."""
TASK_RATES = (5e-5, *RATES)
"""Learning rates that classifiers try without adaptation."""
TASK_MASKED = 0.15
TASK_SEEDS = {"ACL-ARC": range(10), "ChemProt": SEEDS}
CLASSIFIED: dict[str, tuple[str, str]] = {
    "no adaptation": ("", ""),
    "token": ("token", ""),
    "difference": ("difference", ""),
    "whole-word": ("whole-word", ""),
    "salient": ("salient", ""),
    "entitybert": ("entitybert", ""),
    "selective": ("selective", ""),
    "attention-high": ("attention-high", ""),
    "mst": ("mst", ""),
    "DGA, gradients": ("token", "gradients"),
    "DGA, updates": ("token", "updates"),
}
"""Row of Difference-Masking's table -> masks, and the part of training that DGA scales."""


@dataclass(frozen=True, kw_only=True)
class Arm:
    """A way to train for named entities.

    Attributes:
        views: `plain` finds mentions in unmasked rows; `masked` uses masked rows for all losses, as
            in the paper; `two` predicts tokens in masked rows and finds mentions in the same rows
            unmasked.
        masks: Name in `experiments.masks.MASKS`; "" for no masking.
        weights: Loss weights of masked term tokens and of other masked tokens; `eq5` for the
            weights of Eq. 5, `inverse` for those of Eq. 2. At the paper's headline rates, Eq. 5
            gives 0.5 and 0.5 with this vocabulary.
        adapted: Masks of a previous adaptation on domain text; "" for none.
        epochs: Number of epochs.
        tries: Arm whose learning rate is used; "" to try rates for this arm.
        rate: Fixed learning rate, instead of tries. Default: None.
    """

    views: str = "plain"
    masks: str = ""
    weights: tuple[float, float] | str = (0.5, 0.5)
    adapted: str = ""
    epochs: int = 3
    tries: str = ""
    rate: float | None = None

    def options(self, rate: float) -> dict[str, Any]:
        """Return the options of a run."""
        about: dict[str, Any] = {"views": self.views, "adapted": self.adapted}
        if self.masks:
            weights = self.weights if isinstance(self.weights, str) else list(self.weights)
            about |= {"masks": self.masks, "weights": weights}
        return {**NER, **about, "epochs": self.epochs, "rate": rate}


JOINT: dict[str, Arm] = {
    "plain": Arm(),
    "two views, joint": Arm(views="two", masks="joint"),
    "the paper's": Arm(views="masked", masks="joint"),
    "two views, token": Arm(views="two", masks="token"),
    "plain, twice as long": Arm(epochs=6, tries="plain"),
    "two views, light": Arm(views="two", masks="joint", weights=(0.1, 0.1)),
}
"""Arms of joint training. Each is compared with `plain`."""
_TWO = "two views, joint"
RATED: dict[str, Arm] = {
    _TWO: JOINT[_TWO],
    **{
        f"two views, ELM {elm:g}, BLM {blm:g}": Arm(
            views="two", masks=f"joint {elm:g}, {blm:g}", tries=_TWO
        )
        for elm, blm in ((0.25, 0.15), (0.5, 0.075), (0.5, 0.15), (1.0, 0.15))
    },
    "the paper's, ELM 0.5, BLM 0.075": Arm(views="masked", masks="joint 0.5, 0.075", tries=_TWO),
}
"""Arms with other masking rates, in two views.

At ELM 1.0, the paper's joint training never sees an unmasked mention. At 0.5, it does.
"""
_EQUAL = "two views, ELM 0.25, BLM 0.15"
WEIGHTS: dict[str, Arm] = {
    _EQUAL: RATED[_EQUAL],
    "Eq. 5": replace(RATED[_EQUAL], weights="eq5"),
    "inverse": replace(RATED[_EQUAL], weights="inverse"),
}
"""Arms with other loss weights, at masking rates where the weights of Eq. 5 differ.

Each is compared with the first, which has equal weights and is also in `RATED`.
"""
ELSEWHERE = {"SEC filings": 10, "WNUT17": 5}
"""Corpus outside of medicine -> number of epochs. They are small."""
WITHOUT_VALIDATION = ("SEC filings",)
TRIED_ELSEWHERE = ("WNUT17",)
"""Those with validation text."""
ADAPTED = (
    "token",
    "joint",
    "whole-word",
    "span",
    "difference",
    "half",
    "half-unbiased",
    "pmi",
    "salient",
    "joint, weak",
)
"""Masks of adaptation. Each is compared with `token` and with no adaptation."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A run of the plan.

    Attributes:
        run: The run.
        against: Runs to compare it with. They must have the same initial weights.
        needs: Runs that must be finished first: they choose a learning rate or adapt the encoder.
    """

    run: Run
    against: tuple[Run, ...] = ()
    needs: tuple[Run, ...] = ()

    def done(self, starts: Mapping[str, Collection[str]]) -> bool:
        """Return whether the run and its partners have lines with the same initial weights.

        Args:
            starts: Key of a run -> digests of the initial weights of its lines.
        """
        together = [set(starts.get(run.key, ())) for run in (self.run, *self.against)]
        return bool(set.intersection(*together))

    def open_runs(self, starts: Mapping[str, Collection[str]], start: str) -> list[Run]:
        """Return the runs to do now; none while a needed run is unfinished.

        Args:
            starts: Key of a run -> digests of the initial weights of its lines.
            start: Digest of the initial weights of this machine.
        """
        if self.done(starts) or any(run.key not in starts for run in self.needs):
            return []
        return [run for run in (*self.against, self.run) if start not in starts.get(run.key, ())]


@dataclass(frozen=True, kw_only=True)
class Study:
    """Corpora of named entities on which arms are compared.

    Attributes:
        corpora: Names of the corpora.
        tried_on: Corpus whose learning rates are used for corpora without validation text, or
            without finished tries.
        arms: Arms that try learning rates.
        options: Further options of all runs.
    """

    corpora: tuple[str, ...]
    tried_on: str
    arms: Mapping[str, Arm] = field(default_factory=lambda: JOINT)
    options: Mapping[str, Any] = field(default_factory=dict)

    def steps(self, arms: Mapping[str, Arm], lines: Sequence[Line]) -> Iterator[Step]:
        """Yield the steps of all corpora. Each arm is compared with the first."""
        for corpus in self.corpora:
            for seed in SEEDS:
                yield from self.steps_of(arms, corpus, seed, lines)

    def steps_of(
        self, arms: Mapping[str, Arm], corpus: str, seed: int, lines: Sequence[Line]
    ) -> Iterator[Step]:
        """Yield the steps of one corpus and seed."""
        against: tuple[Step, ...] = ()
        for name, arm in arms.items():
            step = self.step(name, arm, corpus, seed, lines, against=against)
            yield from with_needs(step)
            against = against or (step,)

    def step(
        self,
        name: str,
        arm: Arm,
        corpus: str,
        seed: int,
        lines: Sequence[Line],
        *,
        against: Sequence[Step] = (),
    ) -> Step:
        """Return an arm's step, with the learning rate chosen by its tries so far."""
        tries = [] if arm.rate else self.tries(arm.tries or name, corpus)
        rate = (
            arm.rate
            or chosen_rate(tries, lines)
            or chosen_rate(self.tries(arm.tries or name, self.tried_on), lines)
            or UNTRIED_RATE
        )
        options = {**arm.options(rate), **self.options}
        return Step(
            run=Run(task="ner", corpus=corpus, arm=name, seed=seed, options=options),
            against=tuple(step.run for step in against),
            needs=(*tries, *(need for step in against for need in step.needs)),
        )

    def tries(self, name: str, corpus: str) -> list[Run]:
        """Return the runs that choose an arm's learning rate on a corpus.

        They train as long as the final runs and are scored on validation text. Shorter runs would
        favour high rates, especially for arms that learn slowly.

        Args:
            name: Name in `arms`.
            corpus: Name in `corpora`. Without validation text, the tries are on `tried_on`.
        """
        tried_on = self.tried_on if corpus in WITHOUT_VALIDATION else corpus
        tried = {"scored": "validation", **self.options}
        return [
            Run(
                task="ner",
                corpus=tried_on,
                arm=name,
                seed=seed,
                options={**self.arms[name].options(rate), **tried},
            )
            for seed in TRIED_SEEDS
            for rate in RATES
        ]


BLURB = Study(corpora=("NCBI-disease", "BC5CDR-chem", "BC2GM"), tried_on="NCBI-disease")

Questions = Mapping[str, Callable[[Sequence[Line]], Iterator[Step]]]
"""Name of a question -> function from the finished lines, which choose rates, to its steps."""


def questions_of(study: Study) -> Questions:
    """Return the questions of a study of any corpus."""
    return {name: partial(study.steps, arms) for name, arms in ARMS.items()}


def plan(
    names: Sequence[str], lines: Sequence[Line], questions: Questions | None = None
) -> Iterator[Step]:
    """Yield the steps of questions in order, finished ones included. Runs may occur repeatedly.

    Args:
        names: Names of questions.
        lines: Lines of finished runs, which choose learning rates.
        questions: Name -> steps. Default: `QUESTIONS`.
    """
    for name in names:
        yield from (questions or QUESTIONS)[name](lines)


def current(lines: Sequence[Line], questions: Questions | None = None) -> list[Line]:
    """Return the lines of the planned runs, without those at learning rates no longer chosen."""
    asked = questions or QUESTIONS
    wanted = {step.run.key for step in plan(list(asked), lines, asked)}
    return [line for line in lines if key_of(line) in wanted]


def _adaptation(lines: Sequence[Line]) -> Iterator[Step]:
    before = Run(task="adaptation", corpus="domain", arm="", seed=0, options=ADAPTATION)
    yield Step(run=before)
    # All corpora of a seed are adjacent, because they share an adapted encoder.
    for seed in SEEDS:
        for corpus in BLURB.corpora:
            plain = BLURB.step("plain", Arm(rate=ADAPTED_RATE), corpus, seed, lines)
            yield from with_needs(plain)
            against: tuple[Step, ...] = (plain,)
            for masks in ADAPTED:
                adapt = adaptation(masks, seed)
                token = () if masks == ADAPTED[0] else (adaptation(ADAPTED[0], seed),)
                yield Step(run=adapt, against=(before, *token))

                arm = Arm(adapted=masks, rate=ADAPTED_RATE)
                step = BLURB.step(f"adapted, {masks}", arm, corpus, seed, lines, against=against)
                step = replace(step, needs=(*step.needs, adapt))
                yield step
                if masks == ADAPTED[0]:
                    against = (plain, step)


def _learning_rates(lines: Sequence[Line]) -> Iterator[Step]:  # noqa: ARG001 - a question's signature
    """Yield the tries of all arms, beginning with `plain`, which most comparisons use."""
    own = [name for name, arm in JOINT.items() if not arm.tries]
    for name in sorted(own, key=lambda name: (name == "the paper's", name != "plain")):
        for corpus in BLURB.corpora:
            for run in BLURB.tries(name, corpus):
                yield Step(run=run)


def _few_shot(lines: Sequence[Line]) -> Iterator[Step]:
    from experiments import few_shot  # which takes steps from here

    yield from few_shot.steps(lines)


def _elsewhere(lines: Sequence[Line]) -> Iterator[Step]:
    for corpus, epochs in ELSEWHERE.items():
        arms = {
            name: replace(
                arm, epochs=epochs * (arm.epochs // Arm().epochs), tries=arm.tries or name
            )
            for name, arm in JOINT.items()
        }
        study = BLURB
        if corpus in TRIED_ELSEWHERE:
            study = Study(corpora=(corpus,), tried_on=corpus, arms=arms)
        for seed in SEEDS:
            yield from study.steps_of(arms, corpus, seed, lines)


def _tasks(lines: Sequence[Line]) -> Iterator[Step]:
    tries = [
        _classified("ChemProt", "no adaptation", TRIED_SEEDS[0], rate, scored="validation")
        for rate in TASK_RATES
    ]
    for run in tries:
        yield Step(run=run)
    rate = chosen_rate(tries, lines, "micro_f1") or UNTRIED_RATE
    # Seeds in the outer loop, so that both tables soon have a few pairs.
    for seed in range(max(len(seeds) for seeds in TASK_SEEDS.values())):
        for corpus in (corpus for corpus, seeds in TASK_SEEDS.items() if seed in seeds):
            first, *others = (_classified(corpus, arm, seed, rate) for arm in CLASSIFIED)
            yield Step(run=first, needs=tuple(tries))
            for run in others:
                yield Step(run=run, against=(first,), needs=tuple(tries))


def _classified(corpus: str, arm: str, seed: int, rate: float, *, scored: str = "test") -> Run:
    masks, guard = CLASSIFIED[arm]
    options = {**CLASSIFIER[corpus], "rate": rate, "scored": scored, "masks": masks}
    if masks:
        adapted = {"adaptation": TASK_ADAPTATION[corpus], "hidden": TASK_MASKED, "guard": guard}
        options |= adapted
    return Run(task="classification", corpus=corpus, arm=arm, seed=seed, options=options)


ARMS: Mapping[str, Mapping[str, Arm]] = {
    "joint": JOINT,
    "weights": WEIGHTS,
    "rates": {"plain": JOINT["plain"], **RATED},
}
"""Name of a question about any corpus -> its arms."""
QUESTIONS: Questions = {
    "learning-rates": _learning_rates,
    "joint": partial(BLURB.steps, ARMS["joint"]),
    "adaptation": _adaptation,
    "tasks": _tasks,
    "weights": partial(BLURB.steps, ARMS["weights"]),
    "rates": partial(BLURB.steps, ARMS["rates"]),
    "elsewhere": _elsewhere,
    "few-shot": _few_shot,
}
"""The questions of docs/evidence.md."""


def adaptation(masks: str, seed: int) -> Run:
    """Return the run that adapts the encoder with masks, on text with gold mentions."""
    return Run(task="adaptation", corpus="domain", arm=masks, seed=seed, options=ADAPTATION)


def with_needs(step: Step) -> Iterator[Step]:
    """Yield a step after the runs that it needs."""
    for run in step.needs:
        yield Step(run=run)
    yield step


def loss_weights(wanted: Sequence[float] | str, masked: Mapping[str, Any]) -> tuple[float, float]:
    """Return the loss weights of masked term tokens and of other masked tokens.

    Args:
        wanted: `Arm.weights`.
        masked: `n_elm` and `n_blm`, numbers of masked tokens in an epoch, and `eq5`, the weights
            of Eq. 5.
    """
    n_elm, n_blm = masked.get("n_elm", 0), masked.get("n_blm", 0)
    if not isinstance(wanted, str):
        w_elm, w_blm = wanted
    elif wanted == "eq5":
        w_elm, w_blm = masked["eq5"]
    else:  # inverse
        w_elm, w_blm = n_blm / (n_elm + n_blm), n_elm / (n_elm + n_blm)
    return w_elm, w_blm


def chosen_rate(tries: Sequence[Run], lines: Sequence[Line], score: str = "f1") -> float | None:
    """Return the learning rate with the highest mean score; None before a seed has tried all rates.

    The mean is over all seeds with a score at every rate. Ties go to the higher rate.
    """
    scores = scores_by_rate(tries, lines, score)
    rates: set[float] = {run.options["rate"] for run in tries}
    complete = [by_rate for by_rate in scores.values() if set(by_rate) == rates]
    if not complete:
        return None
    means = {rate: statistics.fmean(by_rate[rate] for by_rate in complete) for rate in rates}
    return max((mean, rate) for rate, mean in means.items())[1]


def scores_by_rate(
    tries: Sequence[Run], lines: Sequence[Line], score: str = "f1"
) -> dict[int, dict[float, float]]:
    """Return seed -> learning rate -> score, for the finished tries."""
    rates = {run.key: (run.seed, run.options["rate"]) for run in tries}
    scores: dict[int, dict[float, float]] = {}
    for line in lines:
        if key_of(line) in rates:
            seed, rate = rates[key_of(line)]
            scores.setdefault(seed, {})[rate] = line["scores"][score]
    return scores
