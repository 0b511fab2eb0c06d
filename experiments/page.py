"""Write tables and figures of the lines in `experiments/results`; no number is written by hand.

They stand between marks in `docs/evidence.md`, whose other words are not touched. A table is there
only where there are lines for it. Lines of runs that the plan no longer has, such as those at a
learning rate that a later try has beaten, are left out.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.inputs import ROOT
from experiments import few_shot_tables, figure, intervals, lines, repeats
from experiments.corpora import HELD_OUT
from experiments.intervals import Difference, Floats
from experiments.lines import Line, key_of
from experiments.plan import (
    ADAPTED,
    ARMS,
    BLURB,
    CLASSIFIED,
    ELSEWHERE,
    JOINT,
    QUESTIONS,
    RATED,
    RATES,
    SEEDS,
    TASK_RATES,
    TRIED_ELSEWHERE,
    TRIED_SEEDS,
    WEIGHTS,
    current,
    loss_weights,
)
from experiments.tables import as_table, difference_cells, in_points, percent, spread

GUIDE = ROOT / "docs" / "evidence.md"
FIGURES = lines.RESULTS.parent / "figures"

EQUAL_COST = ("plain, twice as long", *(name for name, arm in JOINT.items() if arm.views == "two"))
"""Arms of `JOINT` that read equally many rows; each is compared with the first."""


class Question(NamedTuple):
    """A comparison with a table for each corpus.

    Attributes:
        title: Its name, from which its figures have theirs.
        arms: The arms, the one to compare with first.
        corpora: The corpora.
        plans: The questions of the plan that its runs belong to; none takes all lines.
    """

    title: str
    arms: tuple[str, ...]
    corpora: tuple[str, ...]
    plans: tuple[str, ...] = ()

    def lines(self, found: Sequence[Line]) -> Sequence[Line]:
        """Leave out runs that other questions alone have: the same arm at another learning rate."""
        own = set(self.plans or QUESTIONS)
        others = {name: make for name, make in QUESTIONS.items() if name not in own}
        ours = {key_of(line) for line in current(found, {name: QUESTIONS[name] for name in own})}
        theirs = {key_of(line) for line in current(found, others)}
        return [line for line in found if key_of(line) not in theirs - ours]


Runs = dict[tuple[int, str], Line]
"""Lines of an arm by seed and by the weights that they began with: what makes a pair."""

_END = "<!-- end -->"
_COMPARED = 4
"""Lines of a table with two arms: its head, a ruler, and a row for each."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the figures, and the tables of the guide."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.page",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--results", type=Path, default=lines.RESULTS, help="read lines of this folder"
    )
    parser.add_argument(
        "--figures",
        type=Path,
        default=FIGURES,
        help="write figures to this folder (default experiments/figures)",
    )
    parser.add_argument("--guide", type=Path, default=GUIDE, help="fill the tables of this file")
    options = parser.parse_args(arguments)

    every = lines.read(options.results)
    found = current(every)
    options.figures.mkdir(exist_ok=True)
    for path in options.figures.glob("*.svg"):
        path.unlink()
    for name, svg in figures(found).items():
        (options.figures / name).write_text(svg, encoding="utf-8")
    guide = options.guide.read_text(encoding="utf-8")
    options.guide.write_text(filled(guide, found, every), encoding="utf-8")
    return 0


def figures(found: Sequence[Line]) -> dict[str, str]:
    """Return the figures of the guide by the name of their file: one for each table of arms."""
    drawn: dict[str, str] = {}
    for question in _questions():
        own, arms = question.lines(found), question.arms
        for corpus in question.corpora:
            if len(ner_table(own, arms, corpus)) < _COMPARED:
                continue
            apart = differences(own, arms, corpus)
            drawn[_figure(question.title, corpus)] = figure.intervals(
                f"{corpus}: points of F1 against {arms[0]}", apart
            )
    return drawn | few_shot_tables.curves(found)


def _figure(title: str, corpus: str) -> str:
    """Return the name of the file that draws a question's table of one corpus."""
    return f"{_slug(title)}-{_slug(corpus)}.svg"


def filled(guide: str, found: Sequence[Line], every: Sequence[Line] = ()) -> str:
    """Return the guide with its marked tables written anew.

    Args:
        guide: Its text.
        found: Lines of the runs that the plan has now.
        every: All lines, for comparisons at learning rates that the plan no longer takes.

    Raises:
        ValueError: It has a mark of an unknown table.
    """
    for name in re.findall(r"<!-- made: (.+?) -->", guide):
        if name not in _MADE:
            raise ValueError(f"guide: expected marks of {', '.join(_MADE)}, got '{name}'")
        own = every if _MADE[name] is _equal_rates else found
        table = "\n".join(_MADE[name](own) or ["No line yet."])
        begin, mark, rest = guide.partition(f"<!-- made: {name} -->\n")
        _, end, after = rest.partition(_END)
        guide = f"{begin}{mark}{table}\n{end}{after}"
    return guide


def of_corpus(found: Sequence[Line], corpus: str, names: Sequence[str]) -> list[str]:
    """Return tables and sentences of some questions of `ARMS` about one corpus."""
    asked = [Question(name, tuple(ARMS[name]), (corpus,)) for name in names]
    parts: list[str] = []
    for question in asked:
        table = ner_table(found, question.arms, corpus)
        if len(table) >= _COMPARED:
            parts += [f"## {question.title}", "", *table, ""]
    return [*parts, *_verdicts(found, asked)]


def _questions() -> list[Question]:
    """Return all comparisons of named entities."""
    adapted = tuple(f"adapted, {masks}" for masks in ADAPTED)
    everywhere = (*BLURB.corpora, *ELSEWHERE)
    views = ("two views, token", "two views, joint")
    return [
        Question("Joint training", tuple(JOINT), BLURB.corpora, ("joint",)),
        Question("Two views at equal cost", EQUAL_COST, everywhere, ("joint", "elsewhere")),
        Question("Masks in two views", views, everywhere, ("joint", "elsewhere")),
        Question("Adapt, then fine-tune", ("plain", *adapted), BLURB.corpora, ("adaptation",)),
        Question("Adaptation with other masks", adapted, BLURB.corpora, ("adaptation",)),
        Question("Weights at ELM 0.25 and BLM 0.15", tuple(WEIGHTS), BLURB.corpora, ("weights",)),
        Question("Rates of masking", ("plain", *RATED), BLURB.corpora, ("rates",)),
        Question(
            "Joint training outside of medicine", tuple(JOINT), tuple(ELSEWHERE), ("elsewhere",)
        ),
    ]


# Tables of named entities ------------------------------------------------------------------------


def ner_table(found: Sequence[Line], arms: Sequence[str], corpus: str) -> list[str]:
    """Return the lines of a table: an arm a row, the one to compare with first.

    Where an arm weighs terms otherwise than other words, a column has the weights.
    """
    by_arm = {arm: list(_runs(found, arm, corpus).values()) for arm in arms}
    weights = {arm: _mean_weights(runs) for arm, runs in by_arm.items() if runs}
    weighted = any(both and both[0] != both[1] for both in weights.values())

    about = ("arm", "runs", *(["terms / others"] if weighted else []), "hidden")
    scores = ("F1", "precision", "recall", "against the first", "95 %", "could be seen")
    rows: list[tuple[str, ...]] = [(*about, *scores)]
    apart = differences(found, arms, corpus)
    for arm, both in weights.items():
        runs = by_arm[arm]
        hidden = statistics.fmean(run["hidden"] for run in runs)
        f1 = spread([run["scores"]["f1"] for run in runs])
        precision, recall = (
            percent(statistics.fmean(run["scores"][name] for run in runs))
            for name in ("precision", "recall")
        )
        row = [arm, str(len(runs))]
        if weighted:
            row.append(f"{both[0]:.2f} / {both[1]:.2f}" if both else "-")
        row += [percent(hidden) if hidden else "-", f1, precision, recall]
        rows.append((*row, *difference_cells(apart.get(arm))))
    return as_table(rows)


def _mean_weights(runs: Sequence[Line]) -> tuple[float, float] | None:
    """Return the weights of terms and of others in the loss; None where nothing is hidden."""
    if "weights" not in runs[0]["run"]["options"]:
        return None
    each = [loss_weights(run["run"]["options"]["weights"], run) for run in runs]
    w_elm, w_blm = np.mean(each, axis=0).tolist()
    return w_elm, w_blm


def _by_length(found: Sequence[Line], corpus: str) -> list[str]:
    """Return the table of sentences with fewer and with more words than the average."""
    first = _runs(found, "plain", corpus)
    rows: list[tuple[str, ...]] = [
        ("arm", "pairs", "shorter: F1", "against plain", "longer: F1", "against plain")
    ]
    for arm in dict.fromkeys((*JOINT, *RATED)):
        runs = _runs(found, arm, corpus)
        common = [key for key in runs if key in first]
        if not common:
            continue
        cells = [arm, str(len(common))]
        for length in ("shorter", "longer"):
            scores, before = (
                [_f1_of(side[key]["scores"][length]) for key in common] for side in (runs, first)
            )
            apart = [after - other for after, other in zip(scores, before, strict=True)]
            cells += [spread(scores), "-" if arm == "plain" else spread(apart, sign="+")]
        rows.append(tuple(cells))
    return as_table(rows)


def _f1_of(counts: Mapping[str, float]) -> float:
    return float(intervals.f1(np.array([counts[name] for name in _COUNTED[0]], np.float64)))


def differences(found: Sequence[Line], arms: Sequence[str], corpus: str) -> dict[str, Difference]:
    """Return the difference of F1 of each arm and the first, in points, of common seeds."""
    first, *others = (_runs(found, arm, corpus) for arm in arms)
    apart = {}
    for arm, runs in zip(arms[1:], others, strict=True):
        one = _apart(first, runs, _of_mentions, intervals.f1)
        if one is not None:
            apart[arm] = one
    return apart


def _of_mentions(line: Line) -> Floats:
    """Return hits, gold and predicted of each group of sentences, `[G, 3]`."""
    return _counts(line["scores"]["groups"])


def _runs(found: Sequence[Line], arm: str, corpus: str) -> Runs:
    """Return an arm's runs on test text."""
    return _by_start(
        line
        for line in found
        if line["run"]["task"] == "ner"
        and (line["run"]["arm"], line["run"]["corpus"]) == (arm, corpus)
        and line["run"]["options"]["scored"] == "test"
    )


def _rates(
    task: str, corpus: str, score: str, rates: Sequence[float], note: str
) -> Callable[[Sequence[Line]], list[str]]:
    """Return what makes the table of learning rates that were tried.

    Args:
        task: Of the runs.
        corpus: On whose validation text they were scored.
        score: What they were chosen by.
        rates: Those that each arm tries.
        note: A sentence about the table.
    """

    def make(found: Sequence[Line]) -> list[str]:
        tried: dict[str, dict[float, dict[int, float]]] = {}
        for line in found:
            run = line["run"]
            if (run["task"], run["corpus"]) == (task, corpus) and run["seed"] in TRIED_SEEDS:
                by_rate = tried.setdefault(run["arm"], {})
                by_rate.setdefault(run["options"]["rate"], {})[run["seed"]] = line["scores"][score]
        if not tried:
            return []

        rows = [("arm", "seeds", *(f"{rate:g}" for rate in rates))]
        for arm, by_rate in tried.items():
            # Seeds that tried all rates choose; others are not shown yet.
            seeds = set.intersection(*(set(by_rate.get(rate, {})) for rate in rates))
            if not seeds:
                continue
            scores = {rate: [by_rate[rate][seed] for seed in seeds] for rate in rates}
            cells = {rate: spread(each) for rate, each in scores.items()}
            taken = max((statistics.fmean(each), rate) for rate, each in scores.items())[1]
            cells[taken] = f"**{cells[taken]}**"
            rows.append((arm, str(len(seeds)), *cells.values()))
        return [note, "", *as_table(rows)]

    return make


def _equal_rates(every: Sequence[Line]) -> list[str]:
    """Return the table of all arms at each learning rate, compared with plain fine-tuning there."""
    about = ("corpus", "learning rate", "arm", "runs", "F1")
    rows: list[tuple[str, ...]] = [(*about, "pairs", "against plain", "95 %", "could be seen")]
    for corpus in BLURB.corpora:
        for rate in RATES:
            at_rate = [line for line in every if line["run"]["options"].get("rate") == rate]
            apart = differences(at_rate, tuple(JOINT), corpus)
            for arm in JOINT:
                runs = [run["scores"]["f1"] for run in _runs(at_rate, arm, corpus).values()]
                if runs:
                    one = apart.get(arm)
                    pairs = str(one.seeds) if one else "-"
                    cells = (corpus, f"{rate:g}", arm, str(len(runs)), spread(runs), pairs)
                    rows.append((*cells, *difference_cells(one)))
    return as_table(rows) if len(rows) > 1 else []


def _ner_rates(corpus: str) -> Callable[[Sequence[Line]], list[str]]:
    """Return what makes the table of the rates that arms tried on a corpus of named entities."""
    note = f"F1 on validation text of {corpus}; the rate in bold is taken."
    return _rates("ner", corpus, "f1", RATES, note)


# Sensitivity -------------------------------------------------------------------------------------


def _sensitivity(found: Sequence[Line]) -> list[str]:
    """Return the table of how well hidden tokens are predicted after each adaptation."""
    by_arm = _adaptations(found)
    if not by_arm:
        return []

    rows: list[tuple[str, ...]] = [
        (
            "adapted with", "runs", "hidden",
            "terms: accuracy", "terms: perplexity",
            "other words: accuracy", "other words: perplexity",
            "terms, accuracy against token", "95 %",
            "others, accuracy against token", "95 %",
        )
    ]  # fmt: skip
    for arm, runs in by_arm.items():
        hidden = statistics.fmean(run.get("hidden", 0.0) for run in runs)
        cells = [arm or "nothing", str(len(runs)), percent(hidden) if hidden else "-"]
        for kind in ("terms", "others"):
            counts = [_of_all_corpora(run, kind).sum(axis=0) for run in runs]
            cells.append(spread([float(intervals.accuracy(one)) for one in counts]))
            cells.append(spread([float(intervals.perplexity(one)) / 100 for one in counts]))
        for kind in ("terms", "others"):
            apart = _against_token(arm, by_arm, partial(_of_all_corpora, kind=kind))
            cells += difference_cells(apart)[:2]
        rows.append(tuple(cells))
    return as_table(rows)


def _terms(found: Sequence[Line]) -> list[str]:
    """Return the table of how many tokens of terms are predicted, corpus by corpus."""
    by_arm = _adaptations(found)
    header = [cell for corpus in HELD_OUT for cell in (corpus, "against token", "95 %")]
    rows: list[tuple[str, ...]] = [("adapted with", "runs", *header)]
    for arm, runs in by_arm.items():
        cells = [arm or "nothing", str(len(runs))]
        for corpus in HELD_OUT:
            counts = [_of_corpus(run, corpus, "terms").sum(axis=0) for run in runs]
            cells.append(spread([float(intervals.accuracy(one)) for one in counts]))
            of_terms = partial(_of_corpus, corpus=corpus, kind="terms")
            cells += difference_cells(_against_token(arm, by_arm, of_terms))[:2]
        rows.append(tuple(cells))
    return as_table(rows) if by_arm else []


def _confidence(found: Sequence[Line]) -> list[str]:
    """Return the table of how probable each mention is found, hidden by itself."""
    by_arm = _adaptations(found)
    rows: list[tuple[str, ...]] = [
        ("adapted with", "runs", "confidence", "against token", "95 %", "could be seen")
    ]
    for arm, runs in by_arm.items():
        counts = [_of_all_corpora(run, "mentions").sum(axis=0) for run in runs]
        confidence = spread([float(intervals.accuracy(one)) for one in counts])
        of_mentions = partial(_of_all_corpora, kind="mentions")
        apart = difference_cells(_against_token(arm, by_arm, of_mentions))
        rows.append((arm or "nothing", str(len(runs)), confidence, *apart))
    return as_table(rows) if by_arm else []


def _adaptations(found: Sequence[Line]) -> dict[str, list[Line]]:
    """Return the lines of each adaptation, in the order of the plan; "" is none."""
    by_arm: dict[str, list[Line]] = {arm: [] for arm in ("", *ADAPTED)}
    for line in found:
        if line["run"]["task"] == "adaptation":
            by_arm[line["run"]["arm"]].append(line)
    return {arm: runs for arm, runs in by_arm.items() if runs}


def _against_token(
    arm: str, by_arm: Mapping[str, Sequence[Line]], counts_of: Callable[[Line], Floats]
) -> Difference | None:
    """Return how much better an arm predicts than `token`; None where there is no pair."""
    if arm in ("", "token"):
        return None
    token, runs = (_by_start(by_arm.get(name, [])) for name in ("token", arm))
    return _apart(token, runs, counts_of, intervals.accuracy)


def _of_all_corpora(line: Line, kind: str) -> Floats:
    """Return the counts of the groups of all corpora, `[G, K]`."""
    return np.concatenate([_of_corpus(line, corpus, kind) for corpus in HELD_OUT])


def _of_corpus(line: Line, corpus: str, kind: str) -> Floats:
    """Return the counts of the groups of a corpus, `[G, K]`."""
    return _counts(line["scores"][corpus][kind]["groups"])


# Classification of texts --------------------------------------------------------------------------


def _classified(
    corpus: str, score: str, *, repeated: bool = True
) -> Callable[[Sequence[Line]], list[str]]:
    """Return what makes the table of a task: the rows of Difference-Masking's table that are text.

    Args:
        corpus: The task.
        score: `macro_f1` or `micro_f1`, as the table has it.
        repeated: Whether test rows count whose text is that of a training row.
    """
    of = {"macro_f1": intervals.macro_f1, "micro_f1": intervals.micro_f1}[score]

    def make(found: Sequence[Line]) -> list[str]:
        by_arm: dict[str, list[Line]] = {}
        for line in found:
            run = line["run"]
            if run["corpus"] == corpus and run["options"].get("scored") == "test":
                by_arm.setdefault(run["arm"], []).append(line)
        if not by_arm:
            return []

        left_out = [] if repeated else repeats.read()[corpus]
        counts_of = partial(_of_classes, left_out=left_out)
        header = ("adapted with", "runs", "hidden", score.replace("_f1", " F1"))
        rows = [(*header, "against no adaptation", "95 %", "could be seen")]
        first = _by_start(by_arm.get("no adaptation", []))
        for arm in CLASSIFIED:
            runs = _by_start(by_arm.get(arm, []))
            if not runs:
                continue
            hidden = statistics.fmean(line["hidden"] for line in runs.values())
            scores = spread([float(of(counts_of(line).sum(axis=0))) for line in runs.values()])
            apart = None if arm == "no adaptation" else _apart(first, runs, counts_of, of)
            cells = (arm, str(len(runs)), percent(hidden) if hidden else "-", scores)
            rows.append((*cells, *difference_cells(apart)))
        return as_table(rows)

    return make


def _of_classes(line: Line, left_out: Sequence[int]) -> Floats:
    """Return hits, gold and predicted of each class in each row, `[rows, 3 * classes]`.

    Args:
        line: A run of a task.
        left_out: Places of rows that do not count.
    """
    scores = line["scores"]
    gold, predicted = ([int(digit, 36) for digit in scores[name]] for name in _SIDES)
    counts = intervals.by_class(gold, predicted, scores["classes"])
    return counts[np.setdiff1d(np.arange(len(counts)), left_out)]


_SIDES = ("gold", "predicted")

# Pairs -------------------------------------------------------------------------------------------


def _by_start(runs: Iterable[Line]) -> Runs:
    """Return lines by what makes a pair."""
    return {(line["run"]["seed"], line["start"]): line for line in runs}


def _apart(
    first: Runs, second: Runs, counts_of: Callable[[Line], Floats], score: intervals.Score
) -> Difference | None:
    """Return how much higher the second arm scores in points, over pairs; None without a pair.

    Args:
        first: Runs of an arm.
        second: Runs of the other.
        counts_of: Counts of a line by group, `[G, K]`.
        score: Makes a share of counts.
    """
    common = [key for key in second if key in first]
    if not common:
        return None
    before, after = (np.stack([counts_of(side[key]) for key in common]) for side in (first, second))
    return in_points(intervals.difference(before, after, score=score))


def _counts(groups: Mapping[str, Sequence[float]]) -> Floats:
    """Return a line's counts by group, `[G, K]`: hits first, or what stands in their place."""
    names = next(names for names in _COUNTED if set(names) == set(groups))
    return np.array([groups[name] for name in names], np.float64).T


_COUNTED = (("hits", "gold", "predicted"), ("hits", "tokens", "loss"), ("confidence", "mentions"))


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _about(found: Sequence[Line]) -> list[str]:
    """Return a list of what made the lines."""

    def every(name: str) -> str:
        return ", ".join(sorted({line["about"][name] for line in found})) or "-"

    hours = sum(line["hours"] for line in found)
    starts = ", ".join(sorted({line["start"] for line in found})) or "-"
    return [
        f"* {len(found)} runs, {hours:.1f} hours by the clock on one thread beside other work",
        f"* Weights that they began with: {starts} (SHA-256, its first 16 digits)",
        f"* torch {every('torch')}, transformers {every('transformers')}, numpy {every('numpy')}; "
        f"{every('cpu')}",
        f"* Corpora: {every('data')}",
        f"* Commits: {every('commit')}",
    ]


def _verdicts(found: Sequence[Line], questions: Sequence[Question]) -> list[str]:
    """Return a sentence for each arm that was compared with plain fine-tuning."""
    said = []
    for question in questions:
        own = question.lines(found)
        for corpus in question.corpora if question.arms[0] == "plain" else ():
            for arm, one in differences(own, question.arms, corpus).items():
                mean, interval, _ = difference_cells(one)
                by = f"{mean} points, {interval}, {one.seeds} pairs"
                told = "cannot be told from"
                if one.seeds == 1:
                    told = "cannot be judged yet against"
                    by = f"{mean} points, one pair"
                elif one.low > 0:
                    told = "scores higher than"
                elif one.high < 0:
                    told = "scores lower than"
                said.append(f"* {corpus}: *{arm}* {told} plain fine-tuning ({by}).")
    return list(dict.fromkeys(said))


def _overview(found: Sequence[Line]) -> list[str]:
    """Return the table of all arms that were compared with plain fine-tuning, corpus by corpus."""
    by_corpus: dict[str, dict[str, Difference]] = {}
    for question in _questions():
        own = question.lines(found)
        for corpus in question.corpora if question.arms[0] == "plain" else ():
            by_corpus.setdefault(corpus, {}).update(differences(own, question.arms, corpus))
    by_corpus = {corpus: apart for corpus, apart in by_corpus.items() if apart}

    arms_there = dict.fromkeys(arm for apart in by_corpus.values() for arm in apart)
    rows = [
        (arm, *(_overview_cell(apart.get(arm)) for apart in by_corpus.values()))
        for arm in arms_there
    ]
    return as_table([("arm", *by_corpus), *rows]) if by_corpus else []


def _overview_cell(one: Difference | None) -> str:
    """Return a difference with its interval, in bold where that does not hold 0."""
    if one is None:
        return "-"
    mean, interval, _ = difference_cells(one)
    if one.seeds == 1:
        return f"{mean}, 1 pair"

    text = f"{mean} ({interval})"
    if one.low > 0 or one.high < 0:
        text = f"**{text}**"
    return text if one.seeds == len(SEEDS) else f"{text}, {one.seeds} pairs"


def _question(title: str) -> Callable[[Sequence[Line]], list[str]]:
    """Return what makes the tables of a question, corpus by corpus, each with its figure."""
    question = next(one for one in _questions() if one.title == title)

    def drawn(own: Sequence[Line], corpus: str) -> list[str]:
        table = ner_table(own, question.arms, corpus)
        if len(table) < _COMPARED:
            return table
        alt = f"points of F1 against {question.arms[0]}, with intervals: {corpus}"
        file = (FIGURES / _figure(title, corpus)).relative_to(ROOT)
        return [*table, "", f"![{alt}](../{file.as_posix()})"]

    def make(found: Sequence[Line]) -> list[str]:
        return _of_corpora(question.corpora, partial(drawn, question.lines(found)))

    return make


def _of_corpora(corpora: Sequence[str], table_of: Callable[[str], list[str]]) -> list[str]:
    """Return a table of each corpus under its name, where two arms can be compared."""
    made: list[str] = []
    for corpus in corpora:
        table = table_of(corpus)
        if len(table) >= _COMPARED:
            made += [*([""] if made else []), f"{corpus}:", "", *table]
    return made


_LENGTHS = Question("Lengths", (*JOINT, *RATED), BLURB.corpora, ("joint", "rates"))

_MADE: dict[str, Callable[[Sequence[Line]], list[str]]] = {
    "joint": _question("Joint training"),
    "equal cost": _question("Two views at equal cost"),
    "masks": _question("Masks in two views"),
    "adaptation": _question("Adapt, then fine-tune"),
    "adaptation masks": _question("Adaptation with other masks"),
    "weights": _question("Weights at ELM 0.25 and BLM 0.15"),
    "rates of masking": _question("Rates of masking"),
    "elsewhere": _question("Joint training outside of medicine"),
    "few-shot": few_shot_tables.differences,
    "few-shot scores": few_shot_tables.scores,
    "few-shot yardstick": few_shot_tables.yardstick,
    "few-shot new mentions": few_shot_tables.new_mentions,
    "few-shot frozen": partial(few_shot_tables.differences, frozen=True),
    "overview": _overview,
    "rates": _ner_rates(BLURB.tried_on),
    "equal rates": _equal_rates,
    "rates, BC5CDR-chem": _ner_rates("BC5CDR-chem"),
    "rates elsewhere": _ner_rates(*TRIED_ELSEWHERE),
    "task rates": _rates(
        "classification",
        "ChemProt",
        "micro_f1",
        TASK_RATES,
        "Micro F1 on ChemProt's validation rows; the rate in bold is taken by all, in both tasks.",
    ),
    "ACL-ARC": _classified("ACL-ARC", "macro_f1"),
    "ACL-ARC, new texts": _classified("ACL-ARC", "macro_f1", repeated=False),
    "ChemProt": _classified("ChemProt", "micro_f1"),
    "sensitivity": _sensitivity,
    "terms": _terms,
    "confidence": _confidence,
    "lengths": lambda found: _of_corpora(BLURB.corpora, partial(_by_length, _LENGTHS.lines(found))),
    "about": lambda found: _about(found) if found else [],
}
"""Name of a mark in the guide -> what makes the lines between."""


if __name__ == "__main__":
    sys.exit(main())
