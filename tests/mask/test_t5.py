from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import groupby

import numpy as np
import pytest

import mslm_data as md
from mslm_data.mask.plan import MaskKind
from mslm_data.mask.sentinels import put_sentinels
from tests.generate import IDS, examples_of, row_of, take
from tests.reference.sentinels import random_spans

NONE, BASE, _ = MaskKind


def row_of_length(tokens, *, key=0):
    """A row like T5's: no special token before, `</s>` behind."""
    row = row_of([1] * tokens, key=key)
    return replace(row, ids=row.ids[1:], word_ids=row.word_ids[1:])


def test_t5__has_the_lengths_of_the_paper():
    examples = examples_of([row_of_length(568, key=key) for key in range(20)], replace(IDS, eos=3))
    strategy = md.strategy("t5")
    plan = strategy.plan(examples)

    rows = put_sentinels(examples, plan.kinds.values)

    for kinds in plan.kinds.tolist():
        assert sum(kinds) == 85
        assert sum(kind for kind, _ in groupby(kinds)) == 28
        assert (kinds[0], kinds[567]) == (NONE, BASE)
    assert set(rows.inputs.lengths) == {512}
    assert set(rows.labels.lengths) == {114}


@pytest.mark.parametrize(
    ("tokens", "rate", "mean"), [(7, 0.4, 2), (9, 0.5, 2), (6, 0.15, 3), (8, 0.3, 1)]
)
def test_t5__has_the_distribution_of_the_script(tokens, rate, mean):
    size = 4000
    row = examples_of(row_of_length(tokens, key=key) for key in range(size))
    plan = md.strategy("t5", rate=rate, mean=mean).plan(row, seed=5)
    ours = Counter(tuple(kinds[:-1]) for kinds in plan.kinds.tolist())
    rng = np.random.default_rng(0)
    theirs = Counter(random_spans(tokens, rate, mean, rng) for _ in range(size))

    assert ours.keys() == theirs.keys()
    # All masks are equally likely. Chi-squared with k - 1 degrees of freedom; a chance of 1e-6.
    for counts in (ours, theirs):
        expected = size / len(counts)
        statistic = sum((count - expected) ** 2 / expected for count in counts.values())
        assert statistic < 2 * len(counts) + 40


def test_t5__rows_too_short_or_too_full_for_spans():
    examples = examples_of([row_of_length(tokens) for tokens in (0, 1, 2, 6)])

    assert md.strategy("t5", rate=1.0, mean=1).plan(examples).kinds.tolist() == [
        [0],
        [0, 0],
        [0, 1, 0],
        [0, 1, 1, 1, 1, 1, 0],
    ]
    assert md.strategy("t5", rate=0.0).plan(take(examples, [3])).kinds.tolist()[0].count(1) == 1
