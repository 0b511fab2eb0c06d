from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.batches.batch_options import BatchOptions
from mslm_data.batches.collate import Batch, Masked
from mslm_data.data.examples import Examples, TokenIds
from mslm_data.mask.table import strategy
from tests.generate import IDS, examples_of, fixed_examples, random_examples, rows_of
from tests.reference import batch as reference

SOME = [
    strategy("joint", elm=0.5, blm=0.2),
    strategy("joint", elm=0.5, blm=0.3, corruption="80-10-10"),
    strategy("elm"),
    strategy("diffusion", units="mentions"),
]


def masked_batch(
    examples: Examples, number: int = 0, *, rows: list[int] | None = None, multiple_of: int = 1
) -> Batch:
    masked = Masked.by_strategy(examples, SOME[number], seed=3, epoch=1)
    places = None if rows is None else np.array(rows, np.int64)
    return masked.batch(places, options=BatchOptions(multiple_of=multiple_of))


def dicts_of(examples: Examples) -> list[dict[str, object]]:
    return [
        {"key": row.key, "input_ids": list(row.ids), "word_ids": list(row.word_ids), "bio": row.bio}
        | {"span_starts": [m[0] for m in row.mentions], "span_ends": [m[1] for m in row.mentions]}
        | {"span_labels": [m[2] for m in row.mentions]}
        for row in rows_of(examples)
    ]


@given(random_examples(), st.integers(0, len(SOME) - 1), st.integers(1, 9), st.data())
def test_collate__equals_its_twin(
    examples: Examples, number: int, multiple_of: int, data: st.DataObject
) -> None:
    every = st.integers(0, max(len(examples) - 1, 0))
    picked = data.draw(st.none() | st.lists(every, max_size=6 if len(examples) else 0))

    batch = masked_batch(examples, number, rows=picked, multiple_of=multiple_of)

    dicts = dicts_of(examples)
    chosen = dicts if picked is None else [dicts[p] for p in picked]
    expected = reference.batch(chosen, IDS, SOME[number], 3, 1, multiple_of)
    assert {name: array.tolist() for name, array in batch.items()} == expected


def test_collate__has_the_types_of_the_contract() -> None:
    batch = masked_batch(fixed_examples(8))

    assert {name: array.dtype.name for name, array in batch.items()} == {
        "input_ids": "int64",
        "attention_mask": "int64",
        "labels": "int64",
        "mask_kinds": "uint8",
        "bio": "int64",
        "span_starts": "int64",
        "span_ends": "int64",
        "span_labels": "int64",
        "keys": "uint64",
    }
    assert batch["input_ids"].shape == batch["bio"].shape == batch["mask_kinds"].shape
    assert all(array.flags.c_contiguous and array.flags.writeable for array in batch.values())


@pytest.mark.parametrize(("multiple_of", "width"), [(1, 54), (8, 56), (54, 54), (64, 64)])
def test_collate__rounds_its_width_up(multiple_of: int, width: int) -> None:
    examples = fixed_examples(64)
    assert examples.input_ids.lengths.max() == 54

    assert masked_batch(examples, multiple_of=multiple_of)["input_ids"].shape == (64, width)


def test_collate__pads_with_zero_where_there_is_no_pad() -> None:
    ids = TokenIds(size=40, mask=4, pad=-1, unk=1, special=(1, 2, 3, 4))
    examples = examples_of(rows_of(fixed_examples(8)), ids)

    batch = masked_batch(examples)

    assert (batch["input_ids"][batch["attention_mask"] == 0] == 0).all()


def test_collate__pads_with_the_id_of_pad() -> None:
    ids = TokenIds(size=40, mask=4, pad=3, unk=1, special=(1, 2, 3, 4))
    examples = examples_of(rows_of(fixed_examples(8)), ids)

    batch = masked_batch(examples)

    assert (batch["input_ids"][batch["attention_mask"] == 0] == 3).all()
    assert (batch["attention_mask"] == 0).any()


def test_collate__makes_a_batch_of_nothing() -> None:
    batch = masked_batch(fixed_examples(3), rows=[])

    assert batch["input_ids"].shape == (0, 0)
    assert batch["span_starts"].shape == (0, 0)
    assert batch["keys"].shape == (0,)
