from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

import mslm_data as md
from mslm_data.data.ragged import Ragged, make_offsets
from mslm_data.errors import VocabularyError
from mslm_data.lexicon.store import Lexicon, write_lexicon
from mslm_data.mask.corruption import Corruption, corrupt
from mslm_data.mask.plan import MaskPlan
from tests.generate import (
    IDS,
    Row,
    examples_of,
    fixed_examples,
    random_examples,
    row_of,
    rows_of,
    take,
)
from tests.kernels.fairness import critical_value, is_fair
from tests.mask import contract
from tests.reference import joint as twins


@given(random_examples(), st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_corrupt__80_10_10_equals_twin(examples, seed, epoch):
    made = md.strategy("joint", blm=0.5, corruption="80-10-10")
    plan = made.plan(examples, seed=seed, epoch=epoch)
    ids = made.corrupt(examples, plan, seed=seed, epoch=epoch).tolist()

    pairs = zip(rows_of(examples), plan.kinds.tolist(), strict=True)
    assert ids == [twins.corrupt(row, kinds, seed=seed, epoch=epoch) for row, kinds in pairs]


@given(random_examples())
def test_corrupt__mask_is_all_mask(examples):
    made = md.strategy("joint", blm=0.5)
    plan = made.plan(examples)
    ids = made.corrupt(examples, plan)

    assert (
        ids.values.tolist()
        == np.where(plan.kinds.values > 0, IDS.mask, examples.input_ids.values).tolist()
    )
    assert ids.values.dtype == np.int32


def test_corrupt__80_10_10_keeps_its_shares():
    ids = replace(IDS, size=15)  # ten ids that are not special
    examples = examples_of(
        [Row(key=k, ids=[20] * 10, word_ids=range(10)) for k in range(1000)], ids
    )
    made = md.strategy("blm", blm=1.0, corruption="80-10-10")
    out = made.corrupt(examples, made.plan(examples)).values

    masked, kept = (out == IDS.mask).sum(), (out == 20).sum()
    assert abs(masked - 8000) < 4 * np.sqrt(10_000 * 0.8 * 0.2)
    assert abs(kept - 1000) < 4 * np.sqrt(10_000 * 0.1 * 0.9)
    assert is_fair(out[(out != IDS.mask) & (out != 20)].tolist(), range(5, 15))


def test_corrupt__no_mask_token():
    examples = replace(fixed_examples(4), ids=replace(IDS, mask=-1))
    made = md.strategy("joint")
    plan = made.plan(examples)

    with pytest.raises(ValueError, match=r"^corrupt: the tokenizer has no mask token"):
        made.corrupt(examples, plan)


def test_corrupt__special_ids_only():
    examples = replace(fixed_examples(4), ids=replace(IDS, size=5))
    made = md.strategy("joint", corruption="80-10-10")

    with pytest.raises(
        ValueError,
        match=r"^corrupt: all 5 ids of the tokenizer are special, so none can be random$",
    ):
        made.corrupt(examples, made.plan(examples))


@pytest.mark.parametrize("rows", [[0], [0, 0, 1, 1]])
def test_corrupt__plan_of_other_rows(rows):
    examples = fixed_examples(4)
    made = md.strategy("joint")
    plan = made.plan(take(examples, rows))

    with pytest.raises(
        ValueError, match=r"^plan: expected a plan of 4 rows, got \d; pass the rows"
    ):
        made.corrupt(examples, plan)


def test_corrupt__plan_of_ones_own_making():
    examples = fixed_examples(4)
    kinds = np.ones(len(examples.input_ids.values), np.uint8)
    ids = md.strategy("joint").corrupt(
        examples, MaskPlan(Ragged(kinds, examples.input_ids.offsets))
    )

    assert set(ids.values.tolist()) == {IDS.mask}


# Names


@pytest.mark.parametrize(
    ("name", "mask", "random"),
    [
        ("mask", 1, 0),
        ("100-0-0", 1, 0),
        ("80-10-10", 0.8, 0.1),
        ("85-0-15", 0.85, 0),
        ("0-100-0", 0, 1),
        ("0-0-100", 0, 0),
    ],
)
def test_corruption__shares(name, mask, random):
    made = Corruption(name)

    assert (made.mask, made.random) == (mask, random)
    assert (made.by, made.random_ids) == ("token", "ordinary")


def test_corruption__its_options():
    made = Corruption("80-10-10", by="run", random_ids="vocabulary")

    assert (made.mask, made.random, made.by, made.random_ids) == (0.8, 0.1, "run", "vocabulary")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "masks",
        "80",
        "80-20",
        "80-10-20",
        "80-10-10-0",
        "-80-10-10",
        "80-10-10 ",
        "80.0-10-10",
        "0.8-0.1-0.1",
    ],
)
def test_corruption__refuses(name):
    with pytest.raises(ValueError) as error:
        Corruption(name)

    expected = "expected 'mask', 'sentinels' or the percentages of [MASK], random and unchanged tokens, such as '80-10-10', got"
    assert str(error.value) == f"corruption: {expected} '{name}'"


# Defaults of the strategies. The golden digests hold the shares of each.


@pytest.mark.parametrize("name", sorted(contract.OPTIONS.keys() - {*contract.WITHOUT_CORRUPTION}))
def test_corruption__keeps_all_but_its_shares(name):
    examples = fixed_examples()
    usual = contract.made((name, {}), examples)
    chosen = contract.made((name, {}), examples, corruption="30-50-20")

    for recipe, other in zip(recipes_of(usual), recipes_of(chosen), strict=True):
        assert other.corruption == structs.replace(recipe.corruption, shares="30-50-20")


def recipes_of(strategy):
    return getattr(strategy, "parts", (strategy,))


def test_whole_word_roberta__chunks_have_one_action_each():
    strategy = md.strategy("whole-word-roberta", unit="chunks")

    assert strategy.corruption == Corruption("80-10-10", by="unit")


# Tokens with the same action

HALF = Corruption("50-0-50")


def actions(replacement, words, masked, *, continues_unit=None, rows=2000):
    """Return which masked tokens of rows of these words become `[MASK]`, a tuple per row."""
    examples = examples_of(row_of(words, key=key) for key in range(rows))
    offsets = examples.input_ids.offsets
    kinds = np.tile(np.array([0, *masked, 0], np.uint8), rows)
    joins = (
        None
        if continues_unit is None
        else Ragged(np.tile(np.array([0, *continues_unit, 0], np.uint8), rows), offsets)
    )
    out = corrupt(
        examples,
        MaskPlan(Ragged(kinds, offsets), continues_unit=joins),
        replacement,
        seed=0,
        epoch=0,
    )
    is_mask = (out.values == IDS.mask).reshape(rows, -1)[:, 1:-1]
    assert not is_mask[:, np.array(masked) == 0].any()
    return [tuple(row.tolist()) for row in is_mask[:, np.array(masked) > 0].astype(int)]


def test_corrupt__by_token():
    assert is_fair(
        actions(HALF, [2, 1], [1, 1, 1]),
        [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)],
    )


def test_corrupt__by_word():
    """All tokens of a word get the same action."""
    assert is_fair(
        actions(structs.replace(HALF, by="word"), [2, 2], [1, 1, 1, 1]),
        [(a, a, b, b) for a in (0, 1) for b in (0, 1)],
    )


def test_corrupt__by_word_of_which_some_is_masked():
    """Masked tokens on both sides of an unmasked token get actions of their own."""
    assert is_fair(
        actions(structs.replace(HALF, by="word"), [3], [1, 0, 1]),
        [(a, b) for a in (0, 1) for b in (0, 1)],
    )


def test_corrupt__by_run():
    """All tokens of a run get the same action, across words and units."""
    assert is_fair(
        actions(
            structs.replace(HALF, by="run"),
            [1, 2, 1, 1],
            [1, 2, 1, 0, 1],
            continues_unit=[0, 0, 1, 0, 0],
        ),
        [(a, a, a, b) for a in (0, 1) for b in (0, 1)],
    )


def test_corrupt__by_unit():
    """Two adjacent units get actions of their own."""
    assert is_fair(
        actions(
            structs.replace(HALF, by="unit"),
            [1, 1, 1, 1],
            [1, 1, 1, 1],
            continues_unit=[0, 1, 0, 1],
        ),
        [(a, a, b, b) for a in (0, 1) for b in (0, 1)],
    )


@pytest.mark.parametrize("by", ["word", "unit", "run"])
def test_corrupt__rows_have_each_their_own_action(by):
    """The last token of a row and the first of the next are not adjacent, even without special tokens."""
    rows = [Row(key=key, ids=[10], word_ids=[0]) for key in range(2000)]
    examples = examples_of(rows)
    ones = Ragged(np.ones(2000, np.uint8), examples.input_ids.offsets)
    out = corrupt(
        examples, MaskPlan(ones, continues_unit=ones), structs.replace(HALF, by=by), seed=0, epoch=0
    )

    assert is_fair((out.values == IDS.mask).tolist(), [True, False])


@pytest.mark.parametrize("by", ["word", "unit", "run"])
def test_corrupt__random_ids_of_each_token_its_own(by):
    examples = examples_of(row_of([2], key=key) for key in range(200))
    masked = examples.word_ids.values >= 0
    kinds = Ragged(masked.astype(np.uint8), examples.input_ids.offsets)
    out = corrupt(
        examples,
        MaskPlan(kinds, continues_unit=kinds),
        Corruption("0-100-0", by=by),
        seed=0,
        epoch=0,
    )

    first, second = out.values[masked].reshape(200, 2).T
    assert 0 < (first == second).sum() < 20  # one in 35 by chance


def test_corrupt__by_unit_needs_a_plan_that_knows_them():
    examples = fixed_examples(4)
    plan = md.strategy("joint").plan(examples)

    with pytest.raises(ValueError) as error:
        corrupt(examples, plan, structs.replace(HALF, by="unit"), seed=0, epoch=0)

    assert str(error.value) == (
        "plan: it has no `continues_unit`; make the plan with the strategy that corrupts it"
    )


# Where random ids come from


def random_ids(size=IDS.size, rows=600, **options):
    """Return the ids that replace the tokens of many rows."""
    examples = examples_of(
        (row_of([1] * 10, key=key) for key in range(rows)), replace(IDS, size=size)
    )
    kinds = (examples.word_ids.values >= 0).astype(np.uint8)
    plan = MaskPlan(Ragged(kinds, examples.input_ids.offsets))
    return (
        corrupt(examples, plan, Corruption("0-100-0", **options), seed=0, epoch=0)
        .values[kinds > 0]
        .tolist()
    )


def counts_lexicon(path, entries, scores, *, size=IDS.size):
    lexicon = Lexicon(
        tokens=Ragged.from_rows(entries, np.int32),
        word_starts=Ragged(
            np.zeros(len(entries), np.int32), make_offsets(np.ones(len(entries), np.int64))
        ),
        scores=np.array(scores, np.float64),
        about={"size": size, "tokenizer": "0" * 64},
    )
    write_lexicon(path, lexicon)
    return str(path)


def test_corrupt__ids_that_are_not_special_or_all():
    assert is_fair(random_ids(), range(5, 40))
    assert is_fair(random_ids(random_ids="vocabulary"), range(40))


def test_corrupt__ids_of_a_vocabulary_of_special_ones():
    assert is_fair(random_ids(random_ids="vocabulary", size=5), range(5))


@pytest.mark.long
def test_corrupt__ids_as_frequent_as_in_a_lexicon(tmp_path):
    path = counts_lexicon(tmp_path / "counts.arrow", [[7], [9], [30], [31]], [1, 3, 0, 2])
    seen = Counter(random_ids(unigrams=path))

    assert set(seen) == {7, 9, 31}
    assert sum(
        (seen[id_] - 1000 * n) ** 2 / (1000 * n) for id_, n in {7: 1, 9: 3, 31: 2}.items()
    ) < critical_value(2)


def test_corrupt__ids_of_a_lexicon_that_was_written_anew(tmp_path):
    first = random_ids(unigrams=counts_lexicon(tmp_path / "counts.arrow", [[7]], [1]))
    second = random_ids(unigrams=counts_lexicon(tmp_path / "counts.arrow", [[8], [9]], [1, 1]))

    assert (set(first), set(second)) == ({7}, {8, 9})


@pytest.mark.parametrize(
    ("entries", "scores"),
    [([[7], [8, 9]], [1, 1]), ([[7], [8]], [1, -1]), ([[7], [8]], [0, 0]), ([[7], [8]], [0.5, 0.9]),
     ([[7]], [2.0**53])],
)  # fmt: skip
def test_corrupt__lexicon_that_does_not_count_tokens(tmp_path, entries, scores):
    path = counts_lexicon(tmp_path / "counts.arrow", entries, scores)

    with pytest.raises(VocabularyError) as error:
        random_ids(unigrams=path)

    assert str(error.value) == f"{path}: expected single tokens with their counts as scores"


def test_corrupt__lexicon_of_another_tokenizer(tmp_path):
    path = counts_lexicon(tmp_path / "counts.arrow", [[7]], [1], size=41)

    with pytest.raises(VocabularyError) as error:
        random_ids(unigrams=path)

    assert (
        str(error.value)
        == f"{path}: expected a lexicon made with a tokenizer of 40 ids, got 41 ids"
    )


def test_corrupt__lexicon_that_is_not_there(tmp_path: Path):
    with pytest.raises(VocabularyError, match=r"none\.arrow: expected a lexicon, found none"):
        random_ids(unigrams=str(tmp_path / "none.arrow"))
