"""Write the tables and figures of `docs/results/evidence.md` from `experiments/results`.

Tables are written between marks in the page. The rest of the page does not change. A table without
lines is left empty. Lines of runs that are no longer in the plan are excluded, for example those at
a learning rate that was not chosen.
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
from experiments import few_shot, few_shot_tables, figure, intervals, lines, repeats
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

GUIDE = ROOT / "docs" / "results" / "evidence.md"
FIGURES = lines.RESULTS.parent / "figures"

EQUAL_COST = ("plain, twice as long", *(name for name, arm in JOINT.items() if arm.views == "two"))
"""Arms of `JOINT` that read the same number of rows. Each is compared with the first."""


class Question(NamedTuple):
    """A comparison of arms, with a table for each corpus.

    Attributes:
        title: Title. It gives the names of the figures.
        arms: Arms. Each is compared with the first.
        corpora: Corpora.
        plans: Questions of the plan that have its runs. Default: all.
    """

    title: str
    arms: tuple[str, ...]
    corpora: tuple[str, ...]
    plans: tuple[str, ...] = ()

    def lines(self, results: Sequence[Line]) -> Sequence[Line]:
        """Exclude runs of other questions only, such as the same arm at another learning rate."""
        own = set(self.plans or QUESTIONS)
        others = {name: make for name, make in QUESTIONS.items() if name not in own}
        # A run may belong to several questions, so exclude only runs that are not also ours.
        ours = {key_of(line) for line in current(results, {name: QUESTIONS[name] for name in own})}
        theirs = {key_of(line) for line in current(results, others)}
        return [line for line in results if key_of(line) not in theirs - ours]


Runs = dict[tuple[int, str], Line]
"""Lines of an arm by seed and digest of the initial weights. Runs with equal keys are a pair."""

_END = "<!-- end -->"
_COMPARED = 4
"""Number of lines of a table with two arms: head, ruler and two rows."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the figures, and the tables of the guide."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.page",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=lines.RESULTS,
        help="folder of the lines (default experiments/results)",
    )
    parser.add_argument(
        "--figures",
        type=Path,
        default=FIGURES,
        help="folder of the figures (default experiments/figures)",
    )
    parser.add_argument(
        "--guide", type=Path, default=GUIDE, help="page (default docs/results/evidence.md)"
    )
    options = parser.parse_args(arguments)

    every = lines.read(options.results)
    results = current(every)
    # Remove figures of tables that no longer exist.
    options.figures.mkdir(exist_ok=True)
    for path in options.figures.glob("*.svg"):
        path.unlink()
    for name, svg in figures(results).items():
        (options.figures / name).write_text(svg, encoding="utf-8")
    guide = options.guide.read_text(encoding="utf-8")
    options.guide.write_text(fill_tables(guide, results, every), encoding="utf-8")
    return 0


def figures(results: Sequence[Line]) -> dict[str, str]:
    """Return file name -> SVG of the figures, one for each table of arms."""
    drawn: dict[str, str] = {}
    for question in _questions():
        own, arms = question.lines(results), question.arms
        for corpus in question.corpora:
            if len(ner_table(own, arms, corpus)) < _COMPARED:
                continue
            gains = differences(own, arms, corpus)
            drawn[_figure(question.title, corpus)] = figure.intervals(
                f"{corpus}: points of F1 against {arms[0]}", gains
            )
    return drawn | few_shot_tables.curves(results)


def _figure(title: str, corpus: str) -> str:
    return f"{_slug(title)}-{_slug(corpus)}.svg"


def fill_tables(guide: str, results: Sequence[Line], every: Sequence[Line] = ()) -> str:
    """Return the guide with new tables between its marks.

    Args:
        guide: Text of the guide.
        results: Lines of the current plan.
        every: All lines, for comparisons at learning rates that were not chosen.

    Raises:
        ValueError: A mark names an unknown table.
    """
    for name in re.findall(r"<!-- made: (.+?) -->", guide):
        if name not in _MADE:
            raise ValueError(f"guide: expected marks of {', '.join(_MADE)}, got '{name}'")
        own = every if _MADE[name] is _equal_rates else results
        table = "\n".join(_MADE[name](own) or ["No line yet."])
        begin, mark, rest = guide.partition(f"<!-- made: {name} -->\n")
        _, end, after = rest.partition(_END)
        guide = f"{begin}{mark}{table}\n{end}{after}"
    return guide


def corpus_tables(results: Sequence[Line], corpus: str, names: Sequence[str]) -> list[str]:
    """Return the tables and conclusions of questions of `ARMS` for one corpus."""
    questions = [Question(name, tuple(ARMS[name]), (corpus,)) for name in names]
    parts: list[str] = []
    for question in questions:
        table = ner_table(results, question.arms, corpus)
        if len(table) >= _COMPARED:
            parts += [f"## {question.title}", "", *table, ""]
    return [*parts, *_conclusions(results, questions)]


def _questions() -> list[Question]:
    """Return all comparisons of named entities."""
    adapted = tuple(f"adapted, {masks}" for masks in ADAPTED)
    corpora = (*BLURB.corpora, *ELSEWHERE)
    views = ("two views, token", "two views, joint")
    return [
        Question("Joint training", tuple(JOINT), BLURB.corpora, ("joint",)),
        Question("Two views at equal cost", EQUAL_COST, corpora, ("joint", "elsewhere")),
        Question("Masks in two views", views, corpora, ("joint", "elsewhere")),
        Question("Adapt, then fine-tune", ("plain", *adapted), BLURB.corpora, ("adaptation",)),
        Question("Adaptation with other masks", adapted, BLURB.corpora, ("adaptation",)),
        Question("Weights at ELM 0.25 and BLM 0.15", tuple(WEIGHTS), BLURB.corpora, ("weights",)),
        Question("Rates of masking", ("plain", *RATED), BLURB.corpora, ("rates",)),
        Question(
            "Joint training outside of medicine", tuple(JOINT), tuple(ELSEWHERE), ("elsewhere",)
        ),
    ]


# Tables of named entities ------------------------------------------------------------------------


def ner_table(results: Sequence[Line], arms: Sequence[str], corpus: str) -> list[str]:
    """Return the lines of a table with a row per arm. Each arm is compared with the first.

    If an arm has different weights for terms and for other words, a column shows the weights.
    """
    by_arm = {arm: list(_runs(results, arm, corpus).values()) for arm in arms}
    weights = {arm: _mean_weights(runs) for arm, runs in by_arm.items() if runs}
    weighted = any(both and both[0] != both[1] for both in weights.values())

    about = ("arm", "runs", *(["terms / others"] if weighted else []), "hidden")
    scores = ("F1", "precision", "recall", "against the first", "95 %", "could be seen")
    rows: list[tuple[str, ...]] = [(*about, *scores)]
    gains = differences(results, arms, corpus)
    for arm, both in weights.items():
        runs = by_arm[arm]
        masked = statistics.fmean(run["hidden"] for run in runs)
        f1 = spread([run["scores"]["f1"] for run in runs])
        precision, recall = (
            percent(statistics.fmean(run["scores"][name] for run in runs))
            for name in ("precision", "recall")
        )
        row = [arm, str(len(runs))]
        if weighted:
            row.append(f"{both[0]:.2f} / {both[1]:.2f}" if both else "-")
        row += [percent(masked) if masked else "-", f1, precision, recall]
        rows.append((*row, *difference_cells(gains.get(arm))))
    return as_table(rows)


def _mean_weights(runs: Sequence[Line]) -> tuple[float, float] | None:
    """Return the loss weights of terms and of other words; None without masking."""
    if "weights" not in runs[0]["run"]["options"]:
        return None
    each = [loss_weights(run["run"]["options"]["weights"], run) for run in runs]
    w_elm, w_blm = np.mean(each, axis=0).tolist()
    return w_elm, w_blm


def _by_length(results: Sequence[Line], corpus: str) -> list[str]:
    """Return the table of F1 on sentences shorter and longer than the average."""
    first = _runs(results, "plain", corpus)
    rows: list[tuple[str, ...]] = [
        ("arm", "pairs", "shorter: F1", "against plain", "longer: F1", "against plain")
    ]
    for arm in dict.fromkeys((*JOINT, *RATED)):
        runs = _runs(results, arm, corpus)
        common = [key for key in runs if key in first]
        if not common:
            continue
        cells = [arm, str(len(common))]
        for length in ("shorter", "longer"):
            scores, before = (
                [_f1(side[key]["scores"][length]) for key in common] for side in (runs, first)
            )
            changes = [after - other for after, other in zip(scores, before, strict=True)]
            cells += [spread(scores), "-" if arm == "plain" else spread(changes, sign="+")]
        rows.append(tuple(cells))
    return as_table(rows)


def _f1(counts: Mapping[str, float]) -> float:
    return float(intervals.f1(np.array([counts[name] for name in _COUNTED[0]], np.float64)))


def differences(results: Sequence[Line], arms: Sequence[str], corpus: str) -> dict[str, Difference]:
    """Return arm -> its F1 minus that of the first arm, in points, over common seeds."""
    first, *others = (_runs(results, arm, corpus) for arm in arms)
    gains = {}
    for arm, runs in zip(arms[1:], others, strict=True):
        gain = _difference(first, runs, _mention_counts, intervals.f1)
        if gain is not None:
            gains[arm] = gain
    return gains


def _mention_counts(line: Line) -> Floats:
    """Return hits, gold and predicted mentions of each group of sentences, `[G, 3]`."""
    return _counts(line["scores"]["groups"])


def _runs(results: Sequence[Line], arm: str, corpus: str) -> Runs:
    """Return an arm's runs that were scored on test text."""
    return _by_start(
        line
        for line in results
        if line["run"]["task"] == "ner"
        and (line["run"]["arm"], line["run"]["corpus"]) == (arm, corpus)
        and line["run"]["options"]["scored"] == "test"
    )


def _rates(
    task: str, corpus: str, score: str, rates: Sequence[float], note: str
) -> Callable[[Sequence[Line]], list[str]]:
    """Return a function that makes the table of the tried learning rates.

    Args:
        task: Task of the runs.
        corpus: Corpus of the runs. They are scored on its validation text.
        score: Score that chooses the rate.
        rates: Rates that each arm tries.
        note: Sentence above the table.
    """

    def make(results: Sequence[Line]) -> list[str]:
        tried: dict[str, dict[float, dict[int, float]]] = {}
        for line in results:
            run = line["run"]
            if (run["task"], run["corpus"]) == (task, corpus) and run["seed"] in TRIED_SEEDS:
                by_rate = tried.setdefault(run["arm"], {})
                by_rate.setdefault(run["options"]["rate"], {})[run["seed"]] = line["scores"][score]
        if not tried:
            return []

        rows = [("arm", "seeds", *(f"{rate:g}" for rate in rates))]
        for arm, by_rate in tried.items():
            # Only seeds that tried all rates choose and are shown.
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
    """Return the table of all arms at each learning rate, compared with `plain` at this rate."""
    about = ("corpus", "learning rate", "arm", "runs", "F1")
    rows: list[tuple[str, ...]] = [(*about, "pairs", "against plain", "95 %", "could be seen")]
    for corpus in BLURB.corpora:
        for rate in RATES:
            at_rate = [line for line in every if line["run"]["options"].get("rate") == rate]
            gains = differences(at_rate, tuple(JOINT), corpus)
            for arm in JOINT:
                runs = [run["scores"]["f1"] for run in _runs(at_rate, arm, corpus).values()]
                if runs:
                    gain = gains.get(arm)
                    pairs = str(gain.seeds) if gain else "-"
                    cells = (corpus, f"{rate:g}", arm, str(len(runs)), spread(runs), pairs)
                    rows.append((*cells, *difference_cells(gain)))
    return as_table(rows) if len(rows) > 1 else []


def _ner_rates(corpus: str) -> Callable[[Sequence[Line]], list[str]]:
    """Return a function that makes the table of tried rates for a corpus of named entities."""
    note = f"F1 on validation text of {corpus}; the rate in bold is taken."
    return _rates("ner", corpus, "f1", RATES, note)


# Sensitivity -------------------------------------------------------------------------------------

_ON_GOLD = {"nothing": "", **{arm: arm for arm in ADAPTED}}
"""Arm of the adaptation on text with gold mentions -> its masks."""


def _sensitivity(results: Sequence[Line]) -> list[str]:
    """Return the table of accuracy and perplexity of masked tokens after each adaptation."""
    by_arm = _adaptations(results)
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
        masked = statistics.fmean(run.get("hidden", 0.0) for run in runs)
        cells = [arm, str(len(runs)), percent(masked) if masked else "-"]
        for kind in ("terms", "others"):
            counts = [_all_counts(run, kind).sum(axis=0) for run in runs]
            cells.append(spread([float(intervals.accuracy(each)) for each in counts]))
            cells.append(spread([float(intervals.perplexity(each)) / 100 for each in counts]))
        for kind in ("terms", "others"):
            gain = _against_token(arm, by_arm, partial(_all_counts, kind=kind))
            cells += difference_cells(gain)[:2]
        rows.append(tuple(cells))
    return as_table(rows)


def _terms(
    results: Sequence[Line], *, corpus: str = "domain", arms: Mapping[str, str] = _ON_GOLD
) -> list[str]:
    """Return the table of the accuracy of masked terms after each adaptation, by corpus."""
    by_arm = _adaptations(results, corpus, arms)
    header = [cell for held_out in HELD_OUT for cell in (held_out, "against token", "95 %")]
    rows: list[tuple[str, ...]] = [("adapted with", "runs", *header)]
    for arm, runs in by_arm.items():
        cells = [arm, str(len(runs))]
        for held_out in HELD_OUT:
            counts = [_corpus_counts(run, held_out, "terms").sum(axis=0) for run in runs]
            cells.append(spread([float(intervals.accuracy(each)) for each in counts]))
            terms = partial(_corpus_counts, corpus=held_out, kind="terms")
            cells += difference_cells(_against_token(arm, by_arm, terms))[:2]
        rows.append(tuple(cells))
    return as_table(rows) if by_arm else []


def _confidence(results: Sequence[Line]) -> list[str]:
    """Return the table of the confidence in mentions, each masked by itself."""
    by_arm = _adaptations(results)
    rows: list[tuple[str, ...]] = [
        ("adapted with", "runs", "confidence", "against token", "95 %", "could be seen")
    ]
    for arm, runs in by_arm.items():
        counts = [_all_counts(run, "mentions").sum(axis=0) for run in runs]
        confidence = spread([float(intervals.accuracy(each)) for each in counts])
        mentions = partial(_all_counts, kind="mentions")
        gain = difference_cells(_against_token(arm, by_arm, mentions))
        rows.append((arm, str(len(runs)), confidence, *gain))
    return as_table(rows) if by_arm else []


def _adaptations(
    results: Sequence[Line], corpus: str = "domain", arms: Mapping[str, str] = _ON_GOLD
) -> dict[str, list[Line]]:
    """Return arm -> lines of its adaptation on a text, in the order of the arms.

    Args:
        results: Lines of the plan.
        corpus: Text of the adaptation.
        arms: Arm -> its masks; "" is no adaptation.
    """
    by_masks: dict[str, list[Line]] = {}
    for line in results:
        if (line["run"]["task"], line["run"]["corpus"]) == ("adaptation", corpus):
            by_masks.setdefault(line["run"]["arm"], []).append(line)
    return {arm: by_masks[masks] for arm, masks in arms.items() if masks in by_masks}


def _against_token(
    arm: str, by_arm: Mapping[str, Sequence[Line]], read_counts: Callable[[Line], Floats]
) -> Difference | None:
    """Return an arm's accuracy minus that of `token`; None without a pair."""
    if arm in ("nothing", "token"):
        return None
    token, runs = (_by_start(by_arm.get(name, [])) for name in ("token", arm))
    return _difference(token, runs, read_counts, intervals.accuracy)


def _all_counts(line: Line, kind: str) -> Floats:
    """Return the counts of the groups in all corpora, `[G, K]`."""
    return np.concatenate([_corpus_counts(line, corpus, kind) for corpus in HELD_OUT])


def _corpus_counts(line: Line, corpus: str, kind: str) -> Floats:
    """Return the counts of the groups in a corpus, `[G, K]`."""
    return _counts(line["scores"][corpus][kind]["groups"])


# Classification of texts --------------------------------------------------------------------------


def _classified(
    corpus: str, score: str, *, repeated: bool = True
) -> Callable[[Sequence[Line]], list[str]]:
    """Return a function that makes a task's table, with the text rows of Difference-Masking's.

    Args:
        corpus: Task.
        score: `macro_f1` or `micro_f1`.
        repeated: Whether to include test rows that repeat a training text. Default: True.
    """
    compute_score = {"macro_f1": intervals.macro_f1, "micro_f1": intervals.micro_f1}[score]

    def make(results: Sequence[Line]) -> list[str]:
        by_arm: dict[str, list[Line]] = {}
        for line in results:
            run = line["run"]
            if run["corpus"] == corpus and run["options"].get("scored") == "test":
                by_arm.setdefault(run["arm"], []).append(line)
        if not by_arm:
            return []

        excluded = [] if repeated else repeats.read()[corpus]
        read_counts = partial(_class_counts, excluded=excluded)
        header = ("adapted with", "runs", "hidden", score.replace("_f1", " F1"))
        rows = [(*header, "against no adaptation", "95 %", "could be seen")]
        first = _by_start(by_arm.get("no adaptation", []))
        for arm in CLASSIFIED:
            runs = _by_start(by_arm.get(arm, []))
            if not runs:
                continue
            masked = statistics.fmean(line["hidden"] for line in runs.values())
            scores = spread(
                [float(compute_score(read_counts(line).sum(axis=0))) for line in runs.values()]
            )
            gain = (
                None
                if arm == "no adaptation"
                else _difference(first, runs, read_counts, compute_score)
            )
            cells = (arm, str(len(runs)), percent(masked) if masked else "-", scores)
            rows.append((*cells, *difference_cells(gain)))
        return as_table(rows)

    return make


def _class_counts(line: Line, excluded: Sequence[int]) -> Floats:
    """Return hits, gold and predicted of each class in each row, `[rows, 3 * classes]`.

    Args:
        line: Line of a classification run.
        excluded: Indices of test rows to exclude.
    """
    scores = line["scores"]
    gold, predicted = ([int(digit, 36) for digit in scores[name]] for name in _SIDES)
    counts = intervals.by_class(gold, predicted, scores["classes"])
    return counts[np.setdiff1d(np.arange(len(counts)), excluded)]


_SIDES = ("gold", "predicted")

# Pairs -------------------------------------------------------------------------------------------


def _by_start(runs: Iterable[Line]) -> Runs:
    return {(line["run"]["seed"], line["start"]): line for line in runs}


def _difference(
    first: Runs, second: Runs, read_counts: Callable[[Line], Floats], score: intervals.Score
) -> Difference | None:
    """Return the second arm's score minus the first's, in points, over pairs; None without a pair.

    Args:
        first: Runs of the arm to compare with.
        second: Runs of the other arm.
        read_counts: Returns the counts of a line by group, `[G, K]`.
        score: Maps counts to scores.
    """
    common = [key for key in second if key in first]
    if not common:
        return None
    before, after = (
        np.stack([read_counts(side[key]) for key in common]) for side in (first, second)
    )
    return in_points(intervals.difference(before, after, score=score))


def _counts(groups: Mapping[str, Sequence[float]]) -> Floats:
    """Return a line's counts by group, `[G, K]`. The numerator of the score comes first."""
    names = next(names for names in _COUNTED if set(names) == set(groups))
    return np.array([groups[name] for name in names], np.float64).T


_COUNTED = (("hits", "gold", "predicted"), ("hits", "tokens", "loss"), ("confidence", "mentions"))


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _about(results: Sequence[Line]) -> list[str]:
    """Return a list of the runs' weights, versions, data and commits."""

    def every(name: str) -> str:
        return ", ".join(sorted({line["about"][name] for line in results})) or "-"

    hours = sum(line["hours"] for line in results)
    starts = ", ".join(sorted({line["start"] for line in results})) or "-"
    return [
        f"* {len(results)} runs, {hours:.1f} hours by the clock on one thread beside other work",
        f"* Weights that they began with: {starts} (SHA-256, its first 16 digits)",
        f"* torch {every('torch')}, transformers {every('transformers')}, numpy {every('numpy')}; "
        f"{every('cpu')}",
        f"* Corpora: {every('data')}",
        f"* Commits: {every('commit')}",
    ]


def _conclusions(results: Sequence[Line], questions: Sequence[Question]) -> list[str]:
    """Return a sentence for each arm, on its difference from plain fine-tuning."""
    sentences = []
    for question in questions:
        own = question.lines(results)
        for corpus in question.corpora if question.arms[0] == "plain" else ():
            for arm, gain in differences(own, question.arms, corpus).items():
                mean, interval, _ = difference_cells(gain)
                by = f"{mean} points, {interval}, {gain.seeds} pairs"
                verdict = "cannot be told from"
                if gain.seeds == 1:
                    verdict = "cannot be judged yet against"
                    by = f"{mean} points, one pair"
                elif gain.low > 0:
                    verdict = "scores higher than"
                elif gain.high < 0:
                    verdict = "scores lower than"
                sentences.append(f"* {corpus}: *{arm}* {verdict} plain fine-tuning ({by}).")
    return list(dict.fromkeys(sentences))


def _overview(results: Sequence[Line]) -> list[str]:
    """Return the table of differences from plain fine-tuning, with a column per corpus."""
    by_corpus: dict[str, dict[str, Difference]] = {}
    for question in _questions():
        own = question.lines(results)
        for corpus in question.corpora if question.arms[0] == "plain" else ():
            by_corpus.setdefault(corpus, {}).update(differences(own, question.arms, corpus))
    by_corpus = {corpus: gains for corpus, gains in by_corpus.items() if gains}

    arms_there = dict.fromkeys(arm for gains in by_corpus.values() for arm in gains)
    rows = [
        (arm, *(_overview_cell(gains.get(arm)) for gains in by_corpus.values()))
        for arm in arms_there
    ]
    return as_table([("arm", *by_corpus), *rows]) if by_corpus else []


def _overview_cell(gain: Difference | None) -> str:
    """Return a difference with its interval, in bold if the interval excludes 0."""
    if gain is None:
        return "-"
    mean, interval, _ = difference_cells(gain)
    if gain.seeds == 1:
        return f"{mean}, 1 pair"

    text = f"{mean} ({interval})"
    if gain.low > 0 or gain.high < 0:
        text = f"**{text}**"
    return text if gain.seeds == len(SEEDS) else f"{text}, {gain.seeds} pairs"


def _question(title: str) -> Callable[[Sequence[Line]], list[str]]:
    """Return a function that makes the tables and figures of a question, corpus by corpus."""
    question = next(question for question in _questions() if question.title == title)

    def drawn(own: Sequence[Line], corpus: str) -> list[str]:
        table = ner_table(own, question.arms, corpus)
        if len(table) < _COMPARED:
            return table
        alt = f"points of F1 against {question.arms[0]}, with intervals: {corpus}"
        file = (FIGURES / _figure(title, corpus)).relative_to(ROOT)
        return [*table, "", f"![{alt}](../../{file.as_posix()})"]

    def make(results: Sequence[Line]) -> list[str]:
        return _corpora_tables(question.corpora, partial(drawn, question.lines(results)))

    return make


def _corpora_tables(corpora: Sequence[str], make_table: Callable[[str], list[str]]) -> list[str]:
    """Return the table of each corpus under its name, if it has at least two arms."""
    made: list[str] = []
    for corpus in corpora:
        table = make_table(corpus)
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
    "few-shot primary": few_shot_tables.primary,
    "few-shot": few_shot_tables.differences,
    "few-shot scores": few_shot_tables.scores,
    "few-shot yardstick": few_shot_tables.yardstick,
    "few-shot new mentions": few_shot_tables.new_mentions,
    "few-shot terms": partial(_terms, corpus="open text", arms=few_shot.ARMS),
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
    "lengths": lambda results: _corpora_tables(
        BLURB.corpora, partial(_by_length, _LENGTHS.lines(results))
    ),
    "about": lambda results: _about(results) if results else [],
}
"""Name of a mark in the guide -> function that makes the lines after it."""


if __name__ == "__main__":
    sys.exit(main())
