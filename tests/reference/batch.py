"""Slow twin of `batches/`: dicts of rows, masked one by one, padded with lists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mslm_data.data.examples import TokenIds
from mslm_data.mask.strategy import Strategy
from tests.generate import Row, examples_of
from tests.reference import order

Lists = dict[str, Any]
WINDOW = 64


def masked(
    row: dict[str, Any], ids: TokenIds, strategy: Strategy, seed: int, epoch: int
) -> tuple[list[int], list[int], float | None]:
    """Return the kinds, the corrupted ids and the rate of one row, masked alone."""
    mentions = list(zip(row["span_starts"], row["span_ends"], row["span_labels"], strict=True))
    one = examples_of(
        [Row(key=row["key"], ids=row["input_ids"], word_ids=row["word_ids"], mentions=mentions)],
        ids,
    )
    plan = strategy.plan(one, seed=seed, epoch=epoch)
    corrupted = strategy.corrupt(one, plan, seed=seed, epoch=epoch)
    rate = None if plan.rates is None else float(plan.rates[0])
    return plan.kinds.values.tolist(), corrupted.values.tolist(), rate


def batch(
    rows: Sequence[dict[str, Any]],
    ids: TokenIds,
    strategy: Strategy,
    seed: int,
    epoch: int,
    multiple_of: int = 1,
) -> Lists:
    """Mask and pad rows."""
    width = max((len(row["input_ids"]) for row in rows), default=0)
    while width % multiple_of:
        width += 1
    most = max((len(row["span_starts"]) for row in rows), default=0)
    out: Lists = {
        name: [] for name in ("input_ids", "attention_mask", "labels", "mask_kinds", "bio")
    }
    out |= {name: [] for name in ("span_starts", "span_ends", "span_labels")}
    out["keys"] = [row["key"] for row in rows]
    if strategy.plan(examples_of([], ids)).rates is not None:
        out["mask_rates"] = []
    for row in rows:
        kinds, corrupted, rate = masked(row, ids, strategy, seed, epoch)
        if rate is not None:
            out["mask_rates"].append(rate)
        size = len(kinds)
        rest = width - size
        out["input_ids"].append(corrupted + [max(ids.pad, 0)] * rest)
        out["attention_mask"].append([1] * size + [0] * rest)
        out["labels"].append(
            [i if kind else -100 for i, kind in zip(row["input_ids"], kinds, strict=True)]
            + [-100] * rest
        )
        out["mask_kinds"].append(kinds + [0] * rest)
        out["bio"].append(
            [t if w >= 0 else -100 for t, w in zip(row["bio"], row["word_ids"], strict=True)]
            + [-100] * rest
        )
        for name in ("span_starts", "span_ends", "span_labels"):
            out[name].append(row[name] + [-1] * (most - len(row[name])))
    return out


def batches(
    rows: Sequence[dict[str, Any]],
    ids: TokenIds,
    strategy: Strategy,
    *,
    batch_size: int = 32,
    seed: int = 0,
    epoch: int = 0,
    shuffle: bool | str = True,
    shard_rows: Sequence[int] = (),
    open_shards: int = 16,
    bucketed: bool = False,
    drop_last: bool = False,
    multiple_of: int = 1,
) -> Iterator[Lists]:
    """Give the batches of an epoch."""
    window = WINDOW * batch_size
    planned = order.blocks(
        len(rows),
        shuffle=shuffle,
        window=window,
        seed=seed,
        epoch=epoch,
        shard_rows=shard_rows,
        open_shards=open_shards,
    )
    for number, block in enumerate(planned):
        for numbers in order.block_batches(
            block,
            lambda row: len(rows[row]["input_ids"]),
            window=window,
            seed=seed,
            epoch=epoch,
            block=number,
            batch_size=batch_size,
            shuffle=shuffle,
            bucketed=bucketed,
            drop_last=drop_last,
        ):
            yield batch([rows[row] for row in numbers], ids, strategy, seed, epoch, multiple_of)
