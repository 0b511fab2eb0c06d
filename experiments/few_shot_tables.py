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


def scores(found: Sequence[Line], *, frozen: bool = False) -> list[str]:
    """Return the table of mean F1, arm by arm: a column for each corpus and share."""
    lines = _lines(found, frozen=frozen)
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


def differences(found: Sequence[Line], *, frozen: bool = False) -> list[str]:
    """Return the table of differences of F1 in points; the first row is the primary number."""
    return _compared(_lines(found, frozen=frozen), _mentions, intervals.f1)


def new_mentions(found: Sequence[Line]) -> list[str]:
    """Return the table of differences in recall of mentions that no training mention equals."""
    return _compared(_lines(found, frozen=False), _new_mentions, intervals.accuracy)


def yardstick(found: Sequence[Line]) -> list[str]:
    """Return the table of additional gold documents that gain as much as joint over token masks.

    The arm without adaptation tells how F1 grows with documents, linearly in the logarithm of their
    number between the shares that were run.
    """
    lines = _lines(found, frozen=False)
    header = ("corpus", "documents", "joint less token", "95 %", "worth documents", "95 %")
    rows: list[tuple[str, ...]] = [header]
    for corpus, share in itertools.product(CORPORA, sorted(SHARES)):
        curve = curve_points(lines, "none", corpus)
        apart = difference(lines, "token", "joint", cells=((corpus, share),))
        here = [line["documents"] for line in lines if _cell(line) == (corpus, share)]
        if len(curve) < MIN_POINTS or apart is None:
            continue
        gain = apart[0]
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


def curve_points(found: Sequence[Line], arm: str, corpus: str) -> list[tuple[int, float]]:
    """Return the number of documents and the mean F1 of each share, the smallest first."""
    by_documents: dict[int, list[float]] = {}
    for line in found:
        if (line["run"]["arm"], line["run"]["corpus"]) == (arm, corpus):
            by_documents.setdefault(line["documents"], []).append(line["scores"]["f1"])
    return sorted((number, statistics.fmean(f1)) for number, f1 in by_documents.items())


def documents_for(curve: Sequence[tuple[int, float]], documents: int, gain: float) -> float:
    """Return the number of documents at which a curve is higher by a gain than at some documents.

    Beyond the curve its last segment goes on. A curve that falls has none: infinity.

    Args:
        curve: Numbers of documents and F1, see `curve_points`.
        documents: Where the gain begins; one of the curve's numbers.
        gain: Difference of F1; a negative one asks for fewer documents.
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


def curves(found: Sequence[Line]) -> dict[str, str]:
    """Return an SVG for each corpus: F1 of each arm over the number of gold documents."""
    lines = _lines(found, frozen=False)
    drawn = {}
    for corpus in CORPORA:
        by_arm = {arm: curve_points(lines, arm, corpus) for arm in PRIMARY}
        by_arm = {arm: points for arm, points in by_arm.items() if len(points) >= MIN_POINTS}
        if by_arm:
            title = f"{corpus}: F1 over gold documents"
            drawn[f"few-shot-{corpus.lower()}.svg"] = figure.curves(title, by_arm)
    return drawn


def difference(
    found: Sequence[Line],
    first: str,
    second: str,
    *,
    counts: Counts = _mentions,
    score: Score = intervals.f1,
    cells: Sequence[Cell] = tuple(itertools.product(CORPORA, SHARES)),
) -> tuple[Difference, int] | None:
    """Return how much higher the second arm scores, in points, and the number of pairs.

    Args:
        found: Lines of the question.
        first: The arm to compare with.
        second: The other arm.
        counts: Counts of a line by group, `[G, K]`.
        score: Turns counts into a share.
        cells: Corpora and shares whose pairs count.
    """
    pairs = _pairs(found, first, second, cells)
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
            apart = difference(lines, first, second, counts=counts, score=score, cells=cells)
            if apart is not None:
                made, pairs = apart
                about = (f"{second} less {first}", where, str(pairs), str(made.seeds))
                rows.append((*about, *difference_cells(made)))
    return as_table(rows) if len(rows) > 1 else []


def _lines(found: Sequence[Line], *, frozen: bool) -> list[Line]:
    """Return the lines that were scored on test text."""
    return [
        line
        for line in found
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
