"""Batches of decoders and encoder-decoders against the collators that people use.

`MSLM_DATA_T5_SCRIPT=run_t5_mlm_flax.py python -m benchmarks objectives`

The peer of T5 is a class of an example script of transformers, which no package installs. Without
the path of the script, its row is left out.
"""

from __future__ import annotations

import ast
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import numpy as np
from torch.utils.data import DataLoader
from transformers import BatchEncoding, BertTokenizer, DataCollatorForLanguageModeling

import mslm_data as md
from benchmarks import folders
from benchmarks.batching import SIZE, Endless
from benchmarks.harness import (
    AbsentError,
    Contestant,
    Results,
    Row,
    in_turn,
    make_row,
    unless_absent,
)
from benchmarks.inputs import Inputs
from mslm_data.api.loading import Shards
from mslm_data.batches.collate import Masked
from mslm_data.data.examples import Examples, TokenIds
from mslm_data.data.ragged import Ragged
from mslm_data.torch import MaskedDataset
from mslm_data.torch.data.tensors import to_tensors

SCRIPT = "MSLM_DATA_T5_SCRIPT"
"""Environment variable with the path of `run_t5_mlm_flax.py`."""
_COPIES = 8
_ROW, _INPUTS, _LABELS = 568, 512, 114
"""Tokens of a row, of the encoder's input and of the labels, the end of the text in both."""
_SENTINELS = 100
_BATCHES = 16


def run(inputs: Inputs, scratch: Path) -> Results:
    """Time batches of `causal` from a folder, and of `t5` from rows in memory."""
    datasets.disable_progress_bars()
    shards = folders.sentences(inputs, scratch, copies=_COPIES)
    rows = [_causal(inputs, shards, folders.usual_table(shards, scratch))]
    rows += unless_absent("T5's spans with sentinels", lambda: [_sentinels(shards)])
    return Results(rows=rows, inputs=[f"Objectives: {len(shards['train']):,} sequences"])


def _causal(inputs: Inputs, shards: Shards, table: Any) -> Row:
    tokenizer = BertTokenizer(vocab=str(inputs.vocab), do_lower_case=not inputs.cased)
    collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
    loader = MaskedDataset(shards["train"], md.strategy("causal")).loader(SIZE, weights=(2, 1))
    peer = DataLoader(
        table.with_format("torch"), batch_size=SIZE, shuffle=True, collate_fn=collator
    )

    def epoch(number: int) -> Any:
        loader.set_epoch(number)
        return loader

    ours, theirs = Endless(epoch), Endless(lambda _: peer)
    rates = in_turn(
        {
            "ours": Contestant(call=lambda _: ours.take(len(loader)), work=len(loader)),
            "peer": Contestant(call=lambda _: theirs.take(100), work=100),
        },
        rounds=5,
    )
    return make_row(
        "into a training loop: `causal` with loss weights",
        rates,
        unit="batches",
        what=f"`MaskedLoader`: shuffled, batches of {SIZE} with all columns and `loss_weights` as "
        "tensors; the peer is `load_from_disk` with the torch format, a shuffling DataLoader "
        "without workers, and `DataCollatorForLanguageModeling(mlm=False)`: it has no weights, and "
        "counts padding and special tokens as its tokenizer says.",
    )


def _sentinels(shards: Shards) -> Row:
    """Compare with the collator of the script, over rows of the length that it wants.

    Raises:
        AbsentError: The path of the script is not set.
    """
    examples = _long_rows(shards["train"].examples())
    strategy = md.strategy("t5")
    lists = examples.input_ids.values.reshape(len(examples), -1)[:, :-1]
    peer = _collator(Path(os.environ.get(SCRIPT, "")), examples.ids)
    batches = np.arange(len(examples)).reshape(-1, SIZE)

    def ours(_: None) -> None:
        masked = Masked.by_strategy(examples, strategy, seed=0, epoch=0)
        for rows in batches:
            _check(to_tensors(masked.batch(rows), None))

    def theirs(_: None) -> None:
        for rows in batches:
            _check(peer([{"input_ids": lists[row]} for row in rows]))

    contestants = {
        "ours": Contestant(call=ours, work=len(batches)),
        "peer": Contestant(call=theirs, work=len(batches)),
    }
    return make_row(
        "T5's spans with sentinels",
        in_turn(contestants, rounds=7),
        unit="batches",
        what=f"strategy `t5` over {len(examples):,} rows of {_ROW} tokens in memory, batches of "
        f"{SIZE} with all columns as tensors; the peer is `FlaxDataCollatorForT5MLM` of "
        "transformers' run_t5_mlm_flax.py, with NumPy. Inputs and labels of both had "
        f"{_INPUTS} and {_LABELS} tokens.",
    )


def _long_rows(examples: Examples) -> Examples:
    """Cut all tokens of a corpus into rows of `_ROW`, each with an end, for some batches."""
    size = examples.ids.size
    rows = SIZE * _BATCHES
    tokens = np.resize(examples.input_ids.values[examples.word_ids.values >= 0], rows * _ROW)
    ids = np.concatenate([tokens.reshape(rows, _ROW), np.full((rows, 1), size)], axis=1)
    words = np.concatenate([np.tile(np.arange(_ROW), (rows, 1)), np.full((rows, 1), -1)], axis=1)
    sentinels = tuple(range(size + _SENTINELS, size, -1))
    units = md.examples(np.full(rows, _ROW + 1), keys=np.arange(rows))
    return replace(
        units,
        input_ids=Ragged.from_rows(ids.tolist(), np.int32),
        word_ids=Ragged.from_rows(words.tolist(), np.int32),
        ids=TokenIds(size=size + _SENTINELS + 1, pad=0, eos=size, sentinels=sentinels),
    )


def _collator(script: Path, ids: TokenIds) -> Any:
    """Make the collator of the script, without the script's other imports.

    Raises:
        AbsentError: There is no script.
    """
    if not script.is_file():
        raise AbsentError(f"no path of run_t5_mlm_flax.py in {SCRIPT}")
    (collates,) = (
        node
        for node in ast.parse(script.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name == "FlaxDataCollatorForT5MLM"
    )
    collates.decorator_list = []
    known: dict[str, Any] = {
        "np": np,
        "BatchEncoding": BatchEncoding,
        "PreTrainedTokenizerBase": object,
        "List": list,
        "Dict": dict,
        "shift_tokens_right": _shift_right,
    }
    exec(compile(ast.Module([collates], []), str(script), "exec"), known)  # noqa: S102 - the user's file
    collator = known["FlaxDataCollatorForT5MLM"]()
    collator.tokenizer = _Ids(ids)
    collator.noise_density, collator.mean_noise_span_length = 0.15, 3.0
    collator.input_length, collator.target_length = _INPUTS, _LABELS
    collator.pad_token_id = collator.decoder_start_token_id = ids.pad
    return collator


class _Ids:
    """The attributes of a tokenizer that the script reads."""

    def __init__(self, ids: TokenIds) -> None:
        self.vocab_size = ids.size - _SENTINELS
        self.eos_token_id = ids.eos


def _shift_right(labels: Any, pad: int, start: int) -> Any:  # noqa: ARG001 - the script's call
    shifted = np.roll(labels, 1, axis=-1)
    shifted[:, 0] = start
    return shifted


def _check(batch: Any) -> None:
    """Check the lengths of both sides.

    Raises:
        RuntimeError: They are others.
    """
    found = (batch["input_ids"].shape[-1], batch["labels"].shape[-1])
    if found != (_INPUTS, _LABELS):
        raise RuntimeError(f"expected {_INPUTS} and {_LABELS} tokens, got {found}")
