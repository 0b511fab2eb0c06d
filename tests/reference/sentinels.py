"""Slow twins of `mask/sentinels.py`, and of the mask of `run_t5_mlm_flax.py` in transformers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from mslm_data.data.examples import TokenIds

NONE, BASE = 0, 1


def rendered(
    row: Sequence[int], kinds: Sequence[int], ids: TokenIds
) -> tuple[list[int], list[int], list[int]]:
    """Inputs, labels and kinds of a row, a run at a time."""
    inputs: list[int] = []
    labels: list[int] = []
    label_kinds: list[int] = []
    sentinels = iter(ids.sentinels)
    for is_masked, group in groupby(zip(row, kinds, strict=True), key=lambda pair: pair[1] > 0):
        run = [*group]
        if is_masked:
            run = [(next(sentinels), run[0][1]), *run]
            inputs.append(run[0][0])
            labels += [token for token, _ in run]
            label_kinds += [kind for _, kind in run]
        else:
            inputs += [token for token, _ in run]
    if ids.eos >= 0:
        labels.append(ids.eos)
        label_kinds.append(BASE if any(kinds) else NONE)
    return inputs, labels, label_kinds


def random_spans(length: int, rate: float, mean: int, rng: np.random.Generator) -> tuple[int, ...]:
    """A mask drawn as in the script: two shuffled partitions, interleaved from the unmasked one."""
    masked = min(max(int(np.round(length * rate)), 1), length - 1)
    spans = max(int(np.round(masked / mean)), 1)

    def partition(total: int) -> list[int]:
        begins = np.arange(total - 1) < spans - 1
        rng.shuffle(begins)
        numbers = np.cumsum([0, *begins])
        return np.bincount(numbers).tolist()

    mask: list[int] = []
    for shown, hidden in zip(partition(length - masked), partition(masked), strict=True):
        mask += [0] * shown + [1] * hidden
    return tuple(mask)
