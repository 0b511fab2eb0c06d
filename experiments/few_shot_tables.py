"""Tables of the few-shot question, from its lines."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Sequence

import numpy as np

from experiments import figure, intervals
from experiments.few_shot import ARMS, CORPORA, MORE_CORPORA, OTHER_SHARES, PRIMARY, SHARES
from experiments.intervals import Difference, Floats, Score
from experiments.lines import Line
from experiments.tables import as_table, difference_cells, in_points, spread

COMPARED = (
    ("token", "joint"),
    ("random spans", "joint"),
    ("none", "joint"),
    ("none", "token"),
    ("none", "random spans"),
    ("token", "whole-word"),
)
"""Pairs of arms, the one to compare with first. The first pair is the primary comparison."""

STOP_BELOW = 1.0
"""Gain in points of F1. If the whole primary interval lies below it, the stop rule applies."""

MIN_POINTS = 3
"""Minimum number of shares for a curve."""

Counts = Callable[[Line], Floats]
Cell = tuple[str, float]
"""A corpus and a share of its documents."""


def _mentions(line: Line) -> Floats:
    """Return hits, gold and predicted mentions of each group, `[G, 3]`."""
    groups = line["scores"]["groups"]
    return np.array([groups[name] for name in ("hits", "gold", "predicted")], np.float64).T


def _new_mentions(line: Line) -> Floats:
    """Return hits and gold mentions of each group whose text is new, `[G, 2]`."""
    new = line["scores"]["new"]
    return np.array([new["hits"], new["gold"]], np.float64).T


def scores(results: Sequence[Line], *, frozen: bool = False) -> list[str]:
    """Return the table of mean F1, arm by arm: a column for each corpus and share."""
    lines = _lines(results, frozen=frozen)
    cells = [
        cell
        for cell in itertools.product((*CORPORA, *MORE_CORPORA), sorted((*SHARES, *OTHER_SHARES)))
        if any(_cell(line) == cell for line in lines)
    ]
    if not cells:
        return []

    header = ("adapted with", *(f"{corpus}, {100 * share:g} %" for corpus, share in cells))
    rows: list[tuple[str, ...]] = [header]
    for arm in ARMS:
        own = [line for line in lines if line["run"]["arm"] == arm]
        by_cell = [[x["scores"]["f1"] for x in own if _cell(x) == cell] for cell in cells]
        if own:
            rows.append((arm, *(spread(each) if each else "-" for each in by_cell)))
    return as_table(rows)


def primary(results: Sequence[Line]) -> list[str]:
    """Return the primary number in words, what the stop rule makes of it, and the control."""
    first, second = COMPARED[0]
    control, _ = COMPARED[1]
    lines = _lines(results, frozen=False)
    compared = difference(lines, first, second)
    controlled = difference(lines, control, second)
    if compared is None or controlled is None:
        return []

    gain, pairs = compared
    mean, interval, seen = difference_cells(gain)
    text = (
        f"Primary number: *{second}* less *{first}* is **{mean} points of F1**, 95 % interval "
        f"{interval}, from {pairs} pairs in {gain.seeds} replicates. The study would have detected "
        f"{seen} points in four of five cases."
    )
    if gain.high < STOP_BELOW:
        verdict = (
            "The stop rule applies: for named entities with encoders of this size the choice of "
            "masks does not matter, also with few documents. Choose by speed."
        )
    elif gain.low > 0:
        verdict = f"The interval lies above 0: *{second}* masks gain more than *{first}* masks."
    else:
        verdict = (
            f"The interval includes 0, so this is no gain yet. It does not end below "
            f"{STOP_BELOW:+g}, so a gain of this size is not excluded either, and the stop rule "
            "does not apply."
        )
    mean, interval, _ = difference_cells(controlled[0])
    said = (text, verdict, f"Control: *{second}* less *{control}* is {mean}, {interval}.")
    return [f"* {sentence}" for sentence in said]


def differences(results: Sequence[Line], *, frozen: bool = False) -> list[str]:
    """Return the table of differences of F1 in points; the first row is the primary number."""
    return _compared(_lines(results, frozen=frozen), _mentions, intervals.f1)


def new_mentions(results: Sequence[Line]) -> list[str]:
    """Return the table of differences in recall, for mentions absent from the training rows."""
    return _compared(_lines(results, frozen=False), _new_mentions, intervals.accuracy)


def yardstick(results: Sequence[Line]) -> list[str]:
    """Return the table that converts the gain of joint over token masks into gold documents.

    The curve of the arm without adaptation gives F1 by the number of documents. Between the shares
    that were run, F1 is linear in the logarithm of this number.
    """
    lines = _lines(results, frozen=False)
    header = ("corpus", "documents", "joint less token", "95 %", "worth documents", "95 %")
    rows: list[tuple[str, ...]] = [header]
    for corpus, share in itertools.product(CORPORA, sorted(SHARES)):
        curve = curve_points(lines, "none", corpus)
        compared = difference(lines, "token", "joint", cells=((corpus, share),))
        here = [line["documents"] for line in lines if _cell(line) == (corpus, share)]
        if len(curve) < MIN_POINTS or compared is None:
            continue

        gain, _ = compared
        mean, low, high = (
            documents_for(curve, here[0], points / 100) - here[0]
            for points in (gain.mean, gain.low, gain.high)
        )
        worth = f"{_additional(low)} to {_additional(high)}"
        cells = difference_cells(gain)
        rows.append((corpus, str(here[0]), *cells[:2], _additional(mean), worth))
    return as_table(rows) if len(rows) > 1 else []


def _additional(documents: float) -> str:
    """Return a number of documents with its sign; a flat curve has no number."""
    return f"{round(documents):+d}" if np.isfinite(documents) else "no number"


def curve_points(results: Sequence[Line], arm: str, corpus: str) -> list[tuple[int, float]]:
    """Return the number of documents and the mean F1 of each share, the smallest first.

    Shares that fewer replicates have run are left out, because replicates differ.
    """
    by_documents: dict[int, list[Line]] = {}
    for line in results:
        if (line["run"]["arm"], line["run"]["corpus"]) == (arm, corpus):
            by_documents.setdefault(line["documents"], []).append(line)
    replicates = {
        number: len({line["run"]["options"]["replicate"] for line in lines})
        for number, lines in by_documents.items()
    }
    return sorted(
        (number, statistics.fmean(line["scores"]["f1"] for line in lines))
        for number, lines in by_documents.items()
        if replicates[number] == max(replicates.values())
    )


def documents_for(curve: Sequence[tuple[int, float]], documents: int, gain: float) -> float:
    """Return the number of documents that raises F1 by a gain.

    The last segment of the curve is extended beyond its end. A flat curve gives infinity.

    Args:
        curve: Numbers of documents and F1, see `curve_points`.
        documents: Number of documents before the gain, a point of the curve.
        gain: Difference of F1. A negative gain needs fewer documents.
    """
    places = np.log([number for number, _ in curve])
    heights = np.maximum.accumulate([f1 for _, f1 in curve])
    wanted = np.interp(np.log(documents), places, heights) + gain
    # The segment that reaches the wanted height, or the first or last one.
    last = min(max(int(np.searchsorted(heights, wanted)), 1), len(curve) - 1)
    rise = heights[last] - heights[last - 1]
    if rise == 0:
        return float("inf") if gain > 0 else float(documents)
    slope = (places[last] - places[last - 1]) / rise
    return float(np.exp(places[last - 1] + (wanted - heights[last - 1]) * slope))


def curves(results: Sequence[Line]) -> dict[str, str]:
    """Return an SVG for each corpus: F1 of each arm over the number of gold documents."""
    lines = _lines(results, frozen=False)
    drawn = {}
    for corpus in CORPORA:
        by_arm = {arm: curve_points(lines, arm, corpus) for arm in PRIMARY}
        by_arm = {arm: points for arm, points in by_arm.items() if len(points) >= MIN_POINTS}
        if by_arm:
            title = f"{corpus}: F1 over gold documents"
            drawn[f"few-shot-{corpus.lower()}.svg"] = figure.curves(title, by_arm)
    return drawn


def difference(
    results: Sequence[Line],
    first: str,
    second: str,
    *,
    counts: Counts = _mentions,
    score: Score = intervals.f1,
    cells: Sequence[Cell] = tuple(itertools.product(CORPORA, SHARES)),
) -> tuple[Difference, int] | None:
    """Return the second arm's score minus the first's, in points, and the number of pairs.

    Args:
        results: Lines of the question.
        first: Arm to compare with.
        second: The other arm.
        counts: Returns the counts of a line by group, `[G, K]`.
        score: Maps counts to scores.
        cells: Corpora and shares of the pairs.
    """
    pairs = _pairs(results, first, second, cells)
    if not pairs:
        return None

    replicates = []
    for _, group in itertools.groupby(sorted(pairs, key=_replicate), key=_replicate):
        by_corpus: dict[str, list[tuple[Floats, Floats]]] = {}
        for before, after in group:
            both = (counts(before), counts(after))
            by_corpus.setdefault(before["run"]["corpus"], []).append(both)
        stacked = {
            corpus: (np.stack([x for x, _ in both]), np.stack([y for _, y in both]))
            for corpus, both in by_corpus.items()
        }
        replicates.append(stacked)
    return in_points(intervals.replicated_difference(replicates, score=score)), len(pairs)


def _compared(lines: Sequence[Line], counts: Counts, score: Score) -> list[str]:
    every = tuple(itertools.product(CORPORA, SHARES))
    groups = {"both corpora and shares": every}
    groups |= {f"{corpus}, {100 * share:g} %": ((corpus, share),) for corpus, share in every}

    rows: list[tuple[str, ...]] = [
        ("arms", "where", "pairs", "replicates", "difference", "95 %", "could be seen")
    ]
    for first, second in COMPARED:
        for where, cells in groups.items():
            compared = difference(lines, first, second, counts=counts, score=score, cells=cells)
            if compared is not None:
                gain, pairs = compared
                about = (f"{second} less {first}", where, str(pairs), str(gain.seeds))
                rows.append((*about, *difference_cells(gain)))
    return as_table(rows) if len(rows) > 1 else []


def _lines(results: Sequence[Line], *, frozen: bool) -> list[Line]:
    """Return the lines that were scored on test text."""
    return [
        line
        for line in results
        if line["run"]["task"] == "few-shot"
        and line["run"]["options"]["scored"] == "test"
        and line["run"]["options"]["frozen"] == frozen
    ]


def _pairs(
    lines: Sequence[Line], first: str, second: str, cells: Sequence[Cell]
) -> list[tuple[Line, Line]]:
    """Return pairs of lines of equal corpus, share, seed and starting weights."""
    sides = [
        {
            (_cell(line), line["run"]["seed"], line["start"]): line
            for line in lines
            if line["run"]["arm"] == arm and _cell(line) in cells
        }
        for arm in (first, second)
    ]
    return [(sides[0][key], sides[1][key]) for key in sides[0] if key in sides[1]]


def _cell(line: Line) -> Cell:
    return line["run"]["corpus"], line["run"]["options"]["share"]


def _replicate(pair: tuple[Line, Line]) -> int:
    number: int = pair[0]["run"]["options"]["replicate"]
    return number
