"""Slow twins of `torch/loss.py`, `torch/heads.py` and `torch/spans.py`: float64, one token after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def nll(logits: Floats, label: int) -> float:
    """-log softmax(logits)[label]."""
    top = max(logits)
    return math.log(math.fsum(math.exp(x - top) for x in logits)) + top - float(logits[label])


def mask_specific(
    logits: Floats, labels: Ints, kinds: Ints, w_elm: float, w_blm: float, reduction: str
) -> float:
    """Eq. 6 of `[B, L, V]`."""
    weights = {0: 0.0, 1: w_blm, 2: w_elm}
    rows = [
        [
            (weights[int(k)], nll(logits[b, t], int(y)))
            for t, (y, k) in enumerate(zip(*pair, strict=True))
            if y != -100
        ]
        for b, pair in enumerate(zip(labels, kinds, strict=True))
    ]
    sums = [math.fsum(w * loss for w, loss in row) for row in rows]
    if reduction == "sum":
        return math.fsum(sums) / len(sums)
    return math.fsum(sums) / max(sum(map(len, rows)), 1)


def released(
    logits: Floats, original: Ints, kinds: Ints, w_elm: float, w_blm: float, reduction: str
) -> float:
    """What the released code computes; `mslm.md`, section 2, rows 9 to 12."""
    rows, width, _ = logits.shape
    losses = [[nll(logits[b, t], int(original[b, t])) for t in range(width)] for b in range(rows)]
    if reduction != "mean":
        total = math.fsum(map(math.fsum, losses))
        return total if reduction == "sum" else total / (rows * width)
    value = {0: 1.0, 1: w_blm, 2: w_elm}
    out = 0.0
    for b in range(rows):
        weights = [value[int(k)] for k in kinds[b]]
        ones = [sum(w == x for x in (w_elm, w_blm)) for w in weights]
        mean = (
            math.fsum(loss * (w + n) for loss, w, n in zip(losses[b], weights, ones, strict=True))
            / width
        )
        out += (1 + sum(ones)) * mean
    return out / rows


def cross_entropy(logits: Floats, labels: Ints, reduction: str) -> float:
    """Eq. 8 and Eq. 11 of `[B, N, C]`; below 0 is no label."""
    losses = [
        [nll(x, int(y)) for x, y in zip(*row, strict=True) if y >= 0]
        for row in zip(logits, labels, strict=True)
    ]
    total = math.fsum(map(math.fsum, losses))
    return total / (len(losses) if reduction == "sum" else max(sum(map(len, losses)), 1))


def decode(tags: Sequence[int]) -> list[tuple[int, int, int]]:
    """Mentions (start, end, label) of one row; below 0 is no word."""
    spans: list[tuple[int, int, int]] = []
    for t, tag in enumerate(tags):
        label = (tag - 1) // 2
        if tag > 0 and tag % 2 == 0 and spans and spans[-1][1] == t and spans[-1][2] == label:
            spans[-1] = (spans[-1][0], t + 1, label)
        elif tag > 0:
            spans.append((t, t + 1, label))
    return spans
