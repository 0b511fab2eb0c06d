"""Hugging Face's collator beside our strategies, on sentences of the shipped sample."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import mslm_data as md
from mslm_data.data.document import Document
from mslm_data.data.examples import Examples, take
from mslm_data.mask.units import UNITS
from mslm_data.segment.given import Whole
from tests import made
from tests.kernels.fairness import critical_value

COPIES = 600
"""Number of copies of each sentence in a batch, so that nothing is padded."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Counts of a masking.

    Attributes:
        units: Number of non-special tokens, or of words.
        targets: Number of masks at each position of each sentence.
        actions: Number of masked tokens that are `[MASK]`, unchanged, and random.
        per_row: Number of rows by sentence and number of masks.
    """

    units: int
    targets: list[int]
    actions: list[int]
    per_row: dict[tuple[int, int], int]


@cache
def sentences() -> Examples:
    """Return five sentences of running text with character offsets and without `[UNK]`."""
    texts = [text for text in made.sample_lines() if 8 <= len(text.split()) <= 25][:60]
    documents = [Document(id=f"d{i}", text=text) for i, text in enumerate(texts)]
    encoder = made.encoder(made.word_piece(), [], keep_text=True)
    examples, _ = made.encoded(encoder, documents, Whole())
    known = [i for i in range(len(examples)) if examples.ids.unk not in examples.input_ids[i]]
    return take(examples, np.array(known[:5]))


def compared(name: str, *, whole_word_mask: bool) -> tuple[Seen, Seen]:
    """Return the counts of our strategy and of the collator of transformers on the same rows."""
    collator = collator_of(whole_word_mask)
    examples, ours, theirs = sentences(), [], []
    strategy = md.strategy(name)
    for i in range(len(examples)):
        rows = take(examples, np.full(COPIES, i))
        rows = replace(rows, keys=np.arange(COPIES, dtype=np.uint64) + np.uint64(10_000 * i))
        plan = strategy.plan(rows)
        shape = (COPIES, len(examples.input_ids[i]))
        masked = plan.kinds.values.reshape(shape) > 0
        ours.append((masked, strategy.corrupt(rows, plan).values.reshape(shape)))
        batch = collator([features(examples, i, whole_word_mask) for _ in range(COPIES)])
        theirs.append((batch["labels"].numpy() != -100, batch["input_ids"].numpy()))
    return counted(examples, ours, words=whole_word_mask), counted(
        examples, theirs, words=whole_word_mask
    )


def collator_of(whole_word_mask: bool) -> Any:
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.BertTokenizerFast(vocab=str(made.SAMPLE / "vocab.txt"))
    options = (
        {"whole_word_mask": True, "mask_replace_prob": 1, "random_replace_prob": 0}
        if whole_word_mask
        else {}
    )
    return transformers.DataCollatorForLanguageModeling(
        tokenizer, mlm_probability=0.15, seed=7, **options
    )


def features(examples: Examples, i: int, characters: bool) -> dict[str, Any]:
    """Return row i as input of the collator."""
    assert examples.token_starts is not None
    assert examples.token_ends is not None
    row: dict[str, Any] = {"input_ids": examples.input_ids[i].tolist()}
    if characters:
        row["offset_mapping"] = np.maximum(
            np.stack([examples.token_starts[i], examples.token_ends[i]], axis=1), 0
        ).tolist()  # specials are at (0, 0) there
    return row


def counted(examples: Examples, pairs: list[tuple[np.ndarray, np.ndarray]], *, words: bool) -> Seen:
    actions, per_row, targets, units = (
        np.zeros(3, np.int64),
        Counter[tuple[int, int]](),
        list[int](),
        0,
    )
    for i, (masked, ids) in enumerate(pairs):
        before, after = np.broadcast_to(examples.input_ids[i], ids.shape)[masked], ids[masked]
        is_mask = after == examples.ids.mask
        actions += [
            is_mask.sum(),
            (~is_mask & (after == before)).sum(),
            (~is_mask & (after != before)).sum(),
        ]
        firsts = (
            UNITS["chunks"].find(examples).starts[i]
            if words
            else np.flatnonzero(examples.word_ids[i] >= 0)
        )
        per_row.update((i, count) for count in masked[:, firsts].sum(axis=1).tolist())
        targets += masked[:, firsts].sum(axis=0).tolist()
        units += COPIES * len(firsts)
    return Seen(units=units, targets=targets, actions=actions.tolist(), per_row=dict(per_row))


def same_shares(ours: Seen, theirs: Seen) -> bool:
    """Return whether two maskings agree in the number of masks, the actions, and the masks per row."""
    hits = [sum(ours.targets), sum(theirs.targets)]
    rows = sorted(set(ours.per_row) | set(theirs.per_row))
    tables = [
        ([hits[0], ours.units - hits[0]], [hits[1], theirs.units - hits[1]]),
        (ours.actions, theirs.actions),
        (ours.targets, theirs.targets),
        ([ours.per_row.get(row, 0) for row in rows], [theirs.per_row.get(row, 0) for row in rows]),
    ]
    return all(homogeneous(*table) for table in tables)


def homogeneous(one: list[int], other: list[int]) -> bool:
    """Return Pearson's chi-square of two rows of counts, with rare columns merged."""
    pairs = sorted(zip(one, other, strict=True), key=sum)
    columns, rest = [], [0, 0]
    for a, b in pairs:
        if a + b >= 40:
            columns.append((a, b))
        else:
            rest = [rest[0] + a, rest[1] + b]
    if sum(rest) >= 40:
        columns.append((rest[0], rest[1]))
    table = np.array(columns, float)
    if len(table) < 2:
        return True
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    return bool(((table - expected) ** 2 / expected).sum() < critical_value(len(table) - 1))
