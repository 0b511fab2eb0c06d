"""The laws of docs/design.md, for registered strategies and for random recipes.

A new strategy only needs a row in `contract.OPTIONS`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.errors import VocabularyError
from mslm_data.lexicon.artefacts import SCORE_COLUMN
from mslm_data.mask.artefacts import with_artefacts
from mslm_data.mask.corruption import Corruption
from mslm_data.mask.plan import MaskKind
from mslm_data.mask.table import STRATEGIES
from mslm_data.testing import check_strategy
from tests.generate import IDS, examples_of, fixed_examples, random_examples, row_of, rows_of, take
from tests.mask.contract import DRAWN, OPTIONS, SAME_FOR_ALL_SEEDS, corrupting, made, options_of
from tests.reference.twins import TWINS
from tests.support.properties import fewer

CORRUPTIONS = st.builds(
    Corruption,
    shares=st.sampled_from(["mask", "80-10-10", "30-40-30"]),
    by=st.sampled_from(["token", "word", "unit", "run"]),
)
named = pytest.mark.parametrize("name", OPTIONS)
COUNTS = st.integers(0, 2**63 - 1)
EPOCHS = st.integers(0, 8) | COUNTS
"""Any epoch, and often one of the first, in which curricula change."""
of_all = fewer(5)  # more examples than there are strategies
ARTEFACTS = {"lexicon", "lexicons", "scores"}
"""Options that name a lexicon or a score column."""
READERS = [name for name, options in OPTIONS.items() if ARTEFACTS & options.keys()]


def test_options__one_row_for_each_registered_strategy():
    assert sorted(OPTIONS) == STRATEGIES.names()


def test_twins__one_for_each_registered_strategy():
    assert sorted(TWINS) == STRATEGIES.names()


@of_all
@given(DRAWN, CORRUPTIONS, random_examples(), COUNTS, COUNTS)
def test_strategy__keeps_the_laws(drawn, corruption, examples, seed, epoch):
    strategy = corrupting(made(drawn, examples), corruption)

    check_strategy(strategy, examples, seed=seed, epoch=epoch)


@of_all
@given(drawn=DRAWN, examples=random_examples(), seed=st.integers(0, 9))
def test_plan__counts_what_it_masks_and_owes(drawn, examples, seed):
    plan = made(drawn, examples).plan(examples, seed=seed)

    kinds = plan.kinds.values
    if drawn[0] != "picks.v1":  # whose `kind` is an option
        assert (examples.bio.values[kinds == MaskKind.ENTITY] > 0).all()
    assert plan.counts() == ((kinds == MaskKind.ENTITY).sum(), (kinds == MaskKind.BASE).sum())
    assert plan.unspent.dtype == np.int64
    assert (plan.unspent >= 0).all()


@named
@fewer(2)
@given(data=st.data(), examples=random_examples(), seed=COUNTS, epoch=EPOCHS)
def test_plan__equals_twin_with_any_options(name, data, examples, seed, epoch):
    options = data.draw(options_of(name))
    strategy = made((name, options), examples)
    kinds = strategy.plan(examples, seed=seed, epoch=epoch).kinds.tolist()

    options = OPTIONS[name] | options
    assert kinds == [
        TWINS[name](row, seed=seed, epoch=epoch, **options) for row in rows_of(examples)
    ]


@named
def test_plan__follows_seed_and_epoch_and_not_the_corruption(name):
    examples = fixed_examples()
    strategy = made((name, {}), examples)
    masks = {
        (seed, epoch): strategy.plan(examples, seed=seed, epoch=epoch).kinds.values.tobytes()
        for seed, epoch in [(0, 0), (0, 1), (1, 0), (1, 1), (2**63 - 1, 2**63 - 1)]
    }
    by_unit = corrupting(strategy, Corruption("50-0-50", by="unit"))

    assert len(set(masks.values())) == (1 if name in SAME_FOR_ALL_SEEDS else len(masks))
    assert by_unit.plan(examples).kinds.values.tobytes() == masks[0, 0]


@named
@pytest.mark.parametrize(
    "examples", [examples_of([]), examples_of([row_of([])]), take(fixed_examples(), [])]
)
def test_plan__nothing_to_mask(name, examples):
    strategy = made((name, {}), examples)
    plan = strategy.plan(examples)

    assert plan.counts() == (0, 0)
    assert (
        len(plan.kinds)
        == len(plan.unspent)
        == len(strategy.corrupt(examples, plan))
        == len(examples)
    )


@pytest.mark.parametrize("wrong", [{"seed": -1}, {"epoch": 2**63}, {"seed": 1.5}])
@pytest.mark.parametrize("name", ["joint.v1", "mixture.v1", "unmasked.v1"])
def test_plan__refuses_what_names_no_stream(name, wrong):
    examples = fixed_examples(2)
    strategy = made((name, {}), examples)

    with pytest.raises(
        ValueError, match=rf"^{next(iter(wrong))}: expected an integer in \[0, 2\*\*63\), got "
    ):
        strategy.plan(examples, **wrong)
    with pytest.raises(ValueError, match="expected an integer"):
        strategy.corrupt(examples, strategy.plan(examples), **wrong)


# Columns ------------------------------------------------------------------------------------------


def without(examples, column):
    """Return the rows without mentions, or with each token as a word of its own."""
    if column == "mentions":
        return examples_of(replace(row, mentions=()) for row in rows_of(examples))
    real = [np.cumsum(np.array(row.word_ids) >= 0) - 1 for row in rows_of(examples)]
    return examples_of(
        replace(row, word_ids=np.where(np.array(row.word_ids) >= 0, numbers, -1).tolist())
        for row, numbers in zip(rows_of(examples), real, strict=True)
    )


def masks_of(strategy, examples, **when):
    """Return the kinds and the corrupted ids of each row."""
    plan = strategy.plan(examples, **when)
    return plan.kinds.tolist(), strategy.corrupt(examples, plan, **when).tolist()


@of_all
@given(drawn=DRAWN, examples=random_examples(), seed=COUNTS, epoch=st.integers(0, 9))
def test_needs__has_all_columns_that_are_read(drawn, examples, seed, epoch):
    strategy = made(drawn, examples)
    expected = masks_of(strategy, examples, seed=seed, epoch=epoch)

    for column in {"mentions", "word_ids"} - strategy.needs:
        others = without(examples, column)
        assert masks_of(strategy, others, seed=seed, epoch=epoch) == expected


@named
def test_needs__has_no_column_that_is_not_read(name):
    examples = fixed_examples()
    strategy = made((name, {}), examples)
    kinds_of_artefacts = set()
    with_artefacts(strategy, lambda name, kind: kinds_of_artefacts.add(kind.name) or name)

    for column in strategy.needs - {"scores"}:
        others = without(examples, column)  # in epoch 0, `ccm` reads no lexicon
        assert masks_of(strategy, others, epoch=1) != masks_of(strategy, examples, epoch=1)
    assert ("scores" in strategy.needs) == (SCORE_COLUMN.name in kinds_of_artefacts)


# Lexicons and score columns -----------------------------------------------------------------------


@pytest.mark.parametrize("name", READERS)
def test_plan__names_what_makes_a_missing_artefact(name, tmp_path):
    examples = fixed_examples(4)
    missing = str(tmp_path / "none")
    strategy = with_artefacts(made((name, {}), examples), lambda name, kind: missing)

    message = "expected a (lexicon|score column), found none; make it with `mslm-data vocab"
    with pytest.raises(VocabularyError, match=f"^{missing}: {message}"):
        strategy.plan(examples, epoch=1)  # in epoch 0, `ccm` reads no lexicon


@pytest.mark.parametrize("name", [name for name in READERS if "scores" not in OPTIONS[name]])
def test_plan__refuses_a_lexicon_of_another_tokenizer(name):
    examples = fixed_examples(4)
    others = replace(examples, ids=replace(IDS, size=41))

    message = "^lexicon: made with a tokenizer of 40 ids, but the rows have one of 41"
    with pytest.raises(VocabularyError, match=message):
        made((name, {}), examples).plan(others, epoch=1)
