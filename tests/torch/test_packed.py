"""Packed rows of a collator."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import mslm_data as md
from mslm_data.torch import MaskingCollator
from tests import made
from tests.torch.shards import JOINT, lists


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp("built") / "ncbi"
    made.built(out, pipeline=made.pipeline_of(unit_bytes=1500, encode={"max_tokens": 24}))
    return md.load(out)["train"]


def rows_of(train: Any, count: int) -> list[dict[str, Any]]:
    return [train[number] for number in range(count)]


def test_collator__packs_a_batch_into_one_flat_row(train: Any) -> None:
    rows = rows_of(train, 6)
    padded = lists(MaskingCollator(JOINT, train, epoch=0)(rows))

    batch = lists(MaskingCollator(JOINT, train, flat=True, epoch=0)(rows))

    flat = [
        token
        for ids, present in zip(padded["input_ids"], padded["attention_mask"], strict=True)
        for token in itertools.compress(ids, present)
    ]
    assert batch["input_ids"] == [flat]
    assert batch["keys"] == padded["keys"]
    assert batch["cu_seq_lens_q"] == np.cumsum([0, *(len(r["input_ids"]) for r in rows)]).tolist()


def test_collator__packs_the_rows_of_a_batch(train: Any) -> None:
    rows = rows_of(train, 12)

    batch = MaskingCollator(JOINT, train, row_tokens=48, epoch=0)(rows)

    tokens = sum(len(row["input_ids"]) for row in rows)
    assert batch["input_ids"].shape == (-(-tokens // 48), 48)
    assert int(batch["attention_mask"].sum()) == tokens
    assert len(batch["keys"]) == 12


def test_collator__refuses_a_row_that_is_too_long(train: Any) -> None:
    with pytest.raises(ValueError, match="row_tokens: expected room for a row of"):
        MaskingCollator(JOINT, train, row_tokens=3, epoch=0)(rows_of(train, 4))
