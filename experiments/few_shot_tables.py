"""Tables of the few-shot question, from its lines."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from experiments import intervals
from experiments.few_shot import ARMS, CORPORA, MORE_CORPORA, OTHER_SHARES, SHARES
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
