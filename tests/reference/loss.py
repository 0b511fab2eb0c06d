"""Slow twins of `torch/model/loss.py`, `torch/model/heads.py` and `torch/model/ranges.py`: float64, token by token."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def nll(logits: Floats, label: int) -> float:
    """Return -log softmax(logits)[label]."""
    top = max(logits)
    return math.log(math.fsum(math.exp(x - top) for x in logits)) + top - float(logits[label])


def mask_specific(
    logits: Floats,
    labels: Ints,
    kinds: Ints,
    w_elm: float,
    w_blm: float,
    rates: Sequence[float] | None = None,
) -> tuple[float, int]:
    """Return Eq. 6 of `[B, L, V]`, summed over all rows, and the number of masked tokens.

    With rates, each row's losses are divided by its own.
    """
    weights = {0: 0.0, 1: w_blm, 2: w_elm}
    rates = [1.0] * len(labels) if rates is None else rates
    losses = [
        weights[int(kinds[place])] * nll(logits[place], int(label)) / rates[place[0]]
        for place, label in np.ndenumerate(labels)
        if label != -100
    ]
    return math.fsum(losses), len(losses)


def cross_entropy(logits: Floats, labels: Ints) -> tuple[float, int]:
    """Return Eq. 8 or 11 of `[B, N, C]`, summed over all rows, and the number of labels from 0 on."""
    losses = [
        nll(logits[place], int(label)) for place, label in np.ndenumerate(labels) if label >= 0
    ]
    return math.fsum(losses), len(losses)


def decode(tags: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return the mentions (start, end, label) of one row; tags below 0 are on no word."""
    spans: list[tuple[int, int, int]] = []
    for t, tag in enumerate(tags):
        label = (tag - 1) // 2
        if tag > 0 and tag % 2 == 0 and spans and spans[-1][1] == t and spans[-1][2] == label:
            spans[-1] = (spans[-1][0], t + 1, label)
        elif tag > 0:
            spans.append((t, t + 1, label))
    return spans
