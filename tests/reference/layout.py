"""Slow twins of `mask/layout.py`, one row at a time; and the way back from what they make."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tests.generate import Row

Lists = tuple[list[int], list[int]]


def runs_of(kinds: Sequence[int], joined: Sequence[int] | None = None) -> list[tuple[int, int]]:
    """Hidden runs, half open."""
    runs: list[tuple[int, int]] = []
    for t, kind in enumerate(kinds):
        if not kind:
            continue
        if runs and runs[-1][1] == t and (joined is None or joined[t]):
            runs[-1] = (runs[-1][0], t + 1)
        else:
            runs.append((t, t + 1))
    return runs


def tail_of(row: Row) -> list[int]:
    """The special tokens at the row's end."""
    length = len(row.ids)
    while length > 0 and row.word_ids[length - 1] < 0:
        length -= 1
    return list(row.ids[length:])


def sentinel_per_run(
    row: Row, kinds: Sequence[int], sentinels: Sequence[int], joined: Sequence[int] | None = None
) -> Lists:
    runs = runs_of(kinds, joined)
    inputs, targets = list(row.ids), []
    for sentinel, (start, stop) in zip(sentinels, runs, strict=False):
        targets += [sentinel, *row.ids[start:stop]]
    for sentinel, (start, stop) in reversed(list(zip(sentinels, runs, strict=False))):
        inputs[start:stop] = [sentinel]
    return inputs, targets + tail_of(row)


def single_mask_per_span(
    row: Row, kinds: Sequence[int], mask: int, joined: Sequence[int] | None = None
) -> list[int]:
    inputs = list(row.ids)
    for start, stop in reversed(runs_of(kinds, joined)):
        inputs[start:stop] = [mask]
    return inputs


def filled(
    inputs: Sequence[int], targets: Sequence[int], sentinels: Sequence[int], tail: int
) -> list[int]:
    """Put what stands behind each sentinel of the targets in its place; their last `tail` ids are no span's."""
    written = targets[: len(targets) - tail]
    places = [t for t, id_ in enumerate(written) if id_ in sentinels]
    spans = {written[a]: written[a + 1 : b] for a, b in pairwise([*places, len(written)])}
    return [id_ for seen in inputs for id_ in (spans[seen] if seen in sentinels else [seen])]
