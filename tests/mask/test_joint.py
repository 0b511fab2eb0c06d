from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mslm_data as md
from mslm_data.mask.plan import MaskKind
from tests.generate import IDS, examples_of, random_examples, row_of, rows_of
from tests.reference import joint as twins

RATES = st.sampled_from([0.0, 0.07, 0.075, 0.15, 0.25, 0.5, 0.55, 0.75, 1.0])
COUNTS = st.integers(0, 2**63 - 1)


@given(
    random_examples(),
    st.fixed_dictionaries(
        {
            "elm": RATES,
            "blm": RATES,
            "count": st.sampled_from(["fixed", "bernoulli"]),
            "pool": st.sampled_from(["all", "generic_only"]),
        }
    ),
    COUNTS,
    COUNTS,
)
def test_joint__equals_twin(examples, options, seed, epoch):
    kinds = md.strategy("joint", **options).plan(examples, seed=seed, epoch=epoch).kinds.tolist()

    assert kinds == [
        twins.joint(row, seed=seed, epoch=epoch, **options) for row in rows_of(examples)
    ]


@given(random_examples(), RATES, RATES, COUNTS, COUNTS)
def test_joint_released__equals_twin(examples, elm, blm, seed, epoch):
    kinds = (
        md.strategy("joint-released", elm=elm, blm=blm)
        .plan(examples, seed=seed, epoch=epoch)
        .kinds.tolist()
    )

    assert kinds == [
        twins.released(row, seed=seed, epoch=epoch, elm=elm, blm=blm) for row in rows_of(examples)
    ]


@given(random_examples(), RATES, COUNTS)
def test_parts__are_joint_with_the_other_rate_at_nought(examples, rate, seed):
    def kinds(name, **options):
        return md.strategy(name, **options).plan(examples, seed=seed).kinds.tolist()

    assert kinds("elm", elm=rate) == kinds("joint", elm=rate, blm=0)
    assert kinds("blm", blm=rate, pool="generic_only") == kinds(
        "joint", elm=0, blm=rate, pool="generic_only"
    )
    assert kinds("blm", blm=rate, count="bernoulli") == kinds(
        "joint", elm=0, blm=rate, count="bernoulli"
    )


@given(random_examples(), RATES, RATES, COUNTS)
def test_joint__mentions_are_those_of_elm_alone(examples, elm, blm, seed):
    alone = md.strategy("elm", elm=elm).plan(examples, seed=seed).kinds.values
    both = md.strategy("joint", elm=elm, blm=blm).plan(examples, seed=seed).kinds.values

    assert ((both == MaskKind.ENTITY) == (alone == MaskKind.ENTITY)).all()


@pytest.mark.parametrize(
    ("mentions", "rate", "masked"),
    [(4, 0.25, 1), (3, 0.25, 1), (5, 0.25, 2), (0, 0.25, 0), (3, 0, 0), (3, 1, 3)],
)
def test_elm__number_of_mentions(mentions, rate, masked):
    examples = examples_of([row_of([1] * 6, [(m, m + 1) for m in range(mentions)])])

    assert md.strategy("elm", elm=rate).plan(examples).counts() == (masked, 0)


def test_elm__masks_unk_within_a_mention_and_blm_never_does():
    examples = examples_of([row_of([1, 1, 1], [(1, 2)], fill=IDS.unk)])

    assert md.strategy("elm").plan(examples).counts() == (1, 0)
    assert md.strategy("blm", blm=1.0).plan(examples).counts() == (0, 0)


@pytest.mark.parametrize(
    ("options", "n_blm"),
    [
        ({"elm": 1, "blm": 0.15}, 2),  # ceil(1.5): of all 10 tokens, not of the 7 that are left
        ({"elm": 1, "blm": 0.75}, 7),  # 8 are due and 7 are left
        ({"elm": 0, "blm": 1.0}, 10),
        ({"elm": 0, "blm": 1.0, "pool": "generic_only"}, 7),
        ({"elm": 1, "blm": 0}, 0),
    ],
)
def test_joint__number_of_tokens(options, n_blm):
    examples = examples_of([row_of([1, 3, 6], [(1, 2)])])

    assert md.strategy("joint", **options).plan(examples).counts()[1] == n_blm


def test_joint_released__pieces_of_a_first_word_stand_alone():
    """`hem ##och ##rom ##ato ##sis` is five units. With two more words, the mention is three units and two words."""
    row = row_of([5, 2, 3, 1], [(0, 1), (1, 3)])

    assert twins.released_pieces(row) == [
        (1, 2, 0),
        (2, 3, 0),
        (3, 4, 0),
        (4, 5, 0),
        (5, 6, 0),
        (6, 7, 0),
        (7, 11, 0),
    ]


@pytest.mark.parametrize(
    ("mentions", "rate", "masked"),
    [(1, 0.25, 0), (2, 0.25, 0), (3, 0.25, 0), (3, 0.5, 1), (5, 0.75, 3)],
)
def test_joint_released__number_is_rounded_down(mentions, rate, masked):
    examples = examples_of([row_of([1] * 6, [(m, m + 1) for m in range(mentions)])])

    assert md.strategy("joint-released", elm=rate, blm=0).plan(examples).counts() == (masked, 0)
