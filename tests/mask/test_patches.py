"""Difference-Masking on images: rows of patches, with few of the masked ones on persons."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

import mslm_data as md
from mslm_data.mask.plan import MaskKind
from tests.generate import examples_of, row_of
from tests.kernels.fairness import is_fair


def grid(patches, flagged, *, rows=1):
    """Return rows of single patches between special tokens, the first of which are flagged."""
    spans = [(0, flagged)] if flagged else []
    return examples_of(row_of([1] * patches, spans, key=key) for key in range(rows))


def masked(strategy, examples):
    """Return the masked flagged patches and the masked other patches of each row."""
    kinds = strategy.plan(examples).kinds
    return [
        (np.flatnonzero(row == MaskKind.ENTITY) - 1, np.flatnonzero(row == MaskKind.BASE) - 1)
        for row in (kinds[i] for i in range(len(examples)))
    ]


@pytest.mark.parametrize(
    ("patches", "flagged", "few", "others"),
    [
        (3780, 400, 94, 851),  # seven frames of 18 x 30, a quarter masked, a tenth of that flagged
        (3780, 50, 50, 895),  # fewer are flagged than may be masked: the others fill up
        (3780, 0, 0, 945),
        (40, 10, 1, 9),
        (4, 2, 0, 1),
        (3, 3, 0, 0),
    ],
)
def test_difference_patches__counts(patches, flagged, few, others):
    for of_mentions, rest in masked(md.strategy("difference-patches"), grid(patches, flagged)):
        assert (len(of_mentions), len(rest)) == (few, others)


def test_difference_patches__all_outcomes_of_a_small_grid_are_as_likely():
    """1 of 3 flagged patches and 3 of 5 others are masked: thirty outcomes."""
    strategy = md.strategy("difference-patches", rate=0.5, alpha=0.25)
    seen = Counter(
        (tuple(few.tolist()), tuple(rest.tolist()))
        for few, rest in masked(strategy, grid(8, 3, rows=6000))
    )

    outcomes = [
        ((first,), rest) for first in range(3) for rest in itertools.combinations(range(3, 8), 3)
    ]
    assert len(outcomes) == 30
    assert is_fair([outcomes.index(outcome) for outcome in seen.elements()], range(30))


def test_difference_patches__each_patch_of_a_large_grid_is_as_likely():
    strategy = md.strategy("difference-patches")
    rows = masked(strategy, grid(400, 100, rows=300))

    assert is_fair(np.concatenate([few for few, _ in rows]).tolist(), range(100))
    assert is_fair(np.concatenate([rest for _, rest in rows]).tolist(), range(100, 400))


def test_difference_patches__of_arrays_alone():
    examples = md.examples([8, 6], spans=[[(1, 3)], []], keys=[1, 2])
    plan = md.strategy("difference-patches", rate=0.5, alpha=0.5).plan(examples)

    assert [np.count_nonzero(plan.kinds[row]) for row in range(2)] == [4, 3]
    assert plan.counts() == (2, 5)
