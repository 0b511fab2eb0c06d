"""Masked, padded batches of a folder, against `datasets` with transformers' MLM collator.

`python -m benchmarks batches`
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
from torch.utils.data import DataLoader
from transformers import BertTokenizer, DataCollatorForLanguageModeling

from benchmarks import folders
from benchmarks.harness import Contestant, Goal, Results, Row, in_turn, make_row, same
from benchmarks.inputs import Inputs
from mslm_data.api.loading import Shards
from mslm_data.batches.batches import Batches
from mslm_data.batches.collate import Masked
from mslm_data.mask.table import strategy

SIZE = 32
_COPIES = 10
_PEER_BATCHES = 100
_USUAL_ROWS = 20_000
_RETURNS = {"torch": "pt", "numpy": "np"}
_JOINT = {"elm": 1.0, "blm": 0.075}
_WHY_SINGLE = (
    "rows are read in random order, masked and written as nine columns, and made tensors, each "
    "about as long as the limit takes, which writes five arrays and reads nothing"
)


def run(inputs: Inputs, scratch: Path) -> Results:
    """Time epochs over sentences, then batches of 32 rows of about 128 tokens."""
    datasets.disable_progress_bars()
    tokenizer = BertTokenizer(vocab=str(inputs.vocab), do_lower_case=not inputs.cased)

    shards = folders.sentences(inputs, scratch, copies=_COPIES)
    usual = usual_table(shards, scratch)
    alone = datasets.load_from_disk(str(shards.folder))["train"].select_columns("input_ids")
    _check_rows(shards, alone, usual)

    rows = [
        _corpus(
            shards,
            usual,
            tokenizer,
            "torch",
            "the four columns that `run_mlm` stores",
            goal=Goal(peer=80),
        ),
        _corpus(
            shards,
            alone,
            tokenizer,
            "torch",
            "`input_ids` alone, of our own folder",
            goal=Goal(peer=80),
        ),
        _corpus(shards, usual, tokenizer, "numpy", "the four columns that `run_mlm` stores"),
        _unmasked(shards, alone),
    ]
    rows += _singles(folders.long_rows(inputs, scratch, copies=1), tokenizer)

    caption = f"Batches: {len(shards['train']):,} sequences, the input {_COPIES} times"
    return Results(rows=rows, inputs=[caption])


def usual_table(shards: Shards, scratch: Path) -> Any:
    """Store the first rows like transformers' `run_mlm` example, and load them from disk."""
    ids = shards["train"].examples(0, min(_USUAL_ROWS, len(shards["train"]))).input_ids.tolist()
    datasets.Dataset.from_list([tokenizer_columns(row) for row in ids]).save_to_disk(
        str(scratch / "usual")
    )
    return datasets.load_from_disk(str(scratch / "usual"))


def tokenizer_columns(ids: list[int]) -> dict[str, list[int]]:
    """Return the columns of a tokenizer called with `return_special_tokens_mask=True`."""
    return {
        "input_ids": ids,
        "token_type_ids": [0] * len(ids),
        "attention_mask": [1] * len(ids),
        "special_tokens_mask": [1, *[0] * (len(ids) - 2), 1],
    }


def _corpus(
    shards: Shards, table: Any, tokenizer: Any, form: str, columns: str, *, goal: Goal | None = None
) -> Row:
    """Time shuffled, masked batches of 32 rows.

    Args:
        shards: Our folder.
        table: The peer's table.
        tokenizer: Tokenizer of the peer's collator.
        form: "torch" or "numpy".
        columns: Description of the columns of `table`.
        goal: Default: no goal.
    """
    train = shards["train"]
    collator = DataCollatorForLanguageModeling(
        tokenizer, mlm_probability=0.15, return_tensors=_RETURNS[form]
    )
    loader = DataLoader(table.with_format(form), batch_size=SIZE, shuffle=True, collate_fn=collator)
    epochs = itertools.count()

    def ours(batches: Batches) -> None:
        consume(map(as_tensors, batches) if form == "torch" else batches)

    rates = in_turn(
        {
            "ours": Contestant(
                prepare=lambda: _batches(shards, epoch=next(epochs)), call=ours, work=len(train)
            ),
            "peer": Contestant(
                call=lambda _: consume(itertools.islice(loader, _PEER_BATCHES)),
                work=_PEER_BATCHES * SIZE,
            ),
            "limit": Contestant(
                prepare=lambda: _padding(shards), call=lambda pad: pad(), work=len(train)
            ),
        },
        rounds=5,
    )
    return make_row(
        f"batches ({form}; peer: {columns})",
        rates,
        unit="sequences",
        what=f"`md.Batches`, shuffled, joint masking, batches of {SIZE} with ids, labels, kinds, "
        f"tags and mentions, {'as tensors, ' if form == 'torch' else ''}over {len(train):,} "
        f"sequences; the peer is `load_from_disk` with the {form} format, {columns}, a shuffling "
        "DataLoader without workers and the MLM collator; the limit pads rows in their stored "
        "order, unmasked. Ids of the rows were equal.",
        goal=goal,
    )


def _unmasked(shards: Shards, table: Any) -> Row:
    """Compare our masked batches with a peer that only reads shuffled rows as tensors."""
    train = shards["train"]
    loader = DataLoader(table.with_format("torch"), batch_size=SIZE, shuffle=True, collate_fn=list)
    epochs = itertools.count()

    rates = in_turn(
        {
            "ours": Contestant(
                prepare=lambda: _batches(shards, epoch=next(epochs)),
                call=lambda batches: consume(map(as_tensors, batches)),
                work=len(train),
            ),
            "peer": Contestant(
                call=lambda _: consume(itertools.islice(loader, 2 * _PEER_BATCHES)),
                work=2 * _PEER_BATCHES * SIZE,
            ),
        },
        rounds=5,
    )
    return make_row(
        "batches, masked, against the peer's reading alone (torch)",
        rates,
        unit="sequences",
        what="ours as above, masked and padded; the peer only reads rows of `input_ids` as "
        "tensors, without a collator: neither padded nor masked.",
    )


def _singles(shards: Shards, tokenizer: Any) -> list[Row]:
    """Time batches of 32 rows of about 128 tokens. The peer's rows are lists in memory."""
    lists = shards["train"].examples().input_ids.tolist()
    rows = [ids for ids in lists if len(ids) > 100][: 20 * SIZE]
    usual = [tokenizer_columns(ids) for ids in rows]
    alone = [{"input_ids": ids} for ids in rows]

    single = Goal(peer=100, why=_WHY_SINGLE)
    return [
        _single(
            shards, usual, tokenizer, "torch", "the four columns that `run_mlm` stores", goal=single
        ),
        _single(shards, alone, tokenizer, "torch", "`input_ids` alone", goal=single),
        _single(shards, usual, tokenizer, "numpy", "the four columns that `run_mlm` stores"),
    ]


def _single(
    shards: Shards,
    rows: list[Any],
    tokenizer: Any,
    form: str,
    columns: str,
    *,
    goal: Goal | None = None,
) -> Row:
    """Time single batches in one form, "torch" or "numpy". `columns` describes `rows`."""
    train = shards["train"]
    batches = [rows[i : i + SIZE] for i in range(0, len(rows), SIZE)]
    collator = DataCollatorForLanguageModeling(
        tokenizer, mlm_probability=0.15, return_tensors=_RETURNS[form]
    )
    epochs = itertools.count()

    def ours(batches: Batches) -> None:
        consume(map(as_tensors, batches) if form == "torch" else batches)

    def peer(_: None) -> None:
        for batch in batches:
            collator([dict(row) for row in batch])

    rates = in_turn(
        {
            "ours": Contestant(
                prepare=lambda: _batches(shards, epoch=next(epochs)),
                call=ours,
                work=len(train) / SIZE,
                repeat=5,
            ),
            "peer": Contestant(call=peer, work=len(batches)),
            "limit": Contestant(call=lambda _: _written(), work=1, repeat=100),
        },
        rounds=7,
    )
    return make_row(
        f"a 32x128 batch ({form}; peer: {columns})",
        rates,
        unit="batches",
        what="ours from shards, shuffled, joint masking, reading, padding, tags and mentions "
        f"included; the peer is the MLM collator on rows of {columns}, lists in memory; the limit "
        "writes arrays of that shape.",
        goal=goal,
    )


def as_tensors(batch: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Convert a batch's arrays to tensors without copying."""
    return {name: torch.from_numpy(array) for name, array in batch.items()}


def consume(batches: Iterable[Any]) -> None:
    """Iterate over all batches."""
    for _ in batches:
        pass


def _batches(shards: Shards, *, epoch: int) -> Batches:
    return Batches(shards["train"], strategy("joint", **_JOINT), batch_size=SIZE, epoch=epoch)


def _padding(shards: Shards) -> Callable[[], None]:
    """Return a function that pads all rows, in stored order and unmasked."""
    whole = shards["train"].examples()
    rows = Masked.by_strategy(whole, strategy("joint", elm=0.0, blm=0.0), seed=0, epoch=0)

    def pad() -> None:
        for start in range(0, len(whole), SIZE):
            rows.batch(np.arange(start, min(start + SIZE, len(whole))))

    return pad


def _written() -> list[Any]:
    """Allocate and fill arrays of the shape of a batch: four of int64, and kinds."""
    return [np.full((32, 128), 0, np.int64) for _ in range(4)] + [np.zeros((32, 128), np.uint8)]


def _check_rows(shards: Shards, *tables: Any) -> None:
    """Check that the first 500 rows of the tables have our ids."""
    for table in tables:
        same(
            "ids",
            shards["train"].examples(0, 500).input_ids.tolist(),
            list(table[:500]["input_ids"]),
        )
