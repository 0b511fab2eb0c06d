from __future__ import annotations

import numpy as np

import mslm_data as md
from mslm_data.mask.plan import MaskKind
from tests.generate import examples_of, row_of
from tests.kernels.fairness import is_fair
from tests.mask import artifacts


def patterns(examples, **options):
    plan = md.strategy("ernie", **options).plan(examples)
    return [tuple(row) for row in plan.kinds.tolist()]


def test_ernie__units_have_a_coin_each():
    """A mention of two words, and two other words: at a rate of 0.5, all eight outcomes are equally likely."""
    examples = examples_of([row_of([2, 1, 1, 3], [(1, 3)], key=key) for key in range(1600)])
    outcomes = patterns(examples, rate=0.5, tokens=0.0)

    possible = [(0, a, a, m, m, b, b, b, 0) for a in (0, 1) for m in (0, 2) for b in (0, 1)]
    assert is_fair(outcomes, possible)


def test_ernie__phrases_do_not_reach_into_mentions():
    gram = next(gram for gram in artifacts.grams() if len(gram) == 2)
    rows = []
    for key in range(400):
        row = row_of([1, 1, 1, 1, 1], [(3, 4)], key=key)
        row.ids[1:6] = [*gram, 5, *gram]
        rows.append(row)
    kinds = np.array(
        patterns(examples_of(rows), rate=0.5, tokens=0.0, lexicon=str(artifacts.grams_lexicon()))
    )
    other = [pair for pair in ((gram[1], 5), (5, gram[0])) if pair in artifacts.grams()]

    assert other == []
    assert (kinds[:, 1] == kinds[:, 2]).all()
    assert (kinds[:, 4] == MaskKind.ENTITY).sum() + (kinds[:, 4] == 0).sum() == 400
    assert (kinds[:, 4] > 0).tolist() != (kinds[:, 5] > 0).tolist()
