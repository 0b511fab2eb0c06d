"""What mixing and packing cost: a mix beside one folder, packing beside training."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import folders
from benchmarks.batches import SIZE, consume
from benchmarks.epoch import Turn, in_process
from benchmarks.harness import Contestant, Goal, Results, Row, in_turn, row_of, same
from benchmarks.inputs import Inputs
from mslm_data.api.loading import Shards
from mslm_data.api.mixing import mix
from mslm_data.batches.batch_options import pack
from mslm_data.batches.batches import Batches
from mslm_data.batches.order import WINDOW
from mslm_data.mask.table import strategy

_COPIES = 9
_ROW_TOKENS = 1024
_PACKED_ROWS = 8
"""Packed rows of a batch."""
_STEPS = 3
"""Training steps that are measured in a turn."""


def run(inputs: Inputs, scratch: Path) -> Results:
    """Time batches of a mix, and the packing of rows."""
    whole, parts = folders.thirds(inputs, scratch, copies=_COPIES)
    train = whole["train"]

    rows = [_mixing(whole, parts), _packing(whole)]
    says = f"Mixing: {len(train):,} sequences, the input {_COPIES} times, and each third alone"
    return Results(rows=rows, inputs=[says])


def _mixing(whole: Shards, parts: list[Shards]) -> Row:
    """Compare the batches of three folders with those of one that has the same rows."""
    one = whole["train"]
    several = mix(parts)
    same("rows", len(several), len(one))
    same("tokens", several.tokens, one.tokens)
    epochs = itertools.count()

    def batches(rows: Any) -> Batches:
        return Batches(rows, strategy("joint"), batch_size=SIZE, epoch=next(epochs))

    rates = in_turn(
        {
            "ours": Contestant(prepare=lambda: batches(several), call=consume, work=len(one)),
            "peer": Contestant(prepare=lambda: batches(one), call=consume, work=len(one)),
        },
        rounds=15,
    )
    return row_of(
        "batches of a mix",
        rates,
        unit="sequences",
        what=f"both ours, masked, shuffled, batches of {SIZE}: `md.mix` of three folders, and one "
        "folder of three shards that has their rows. Sequences and tokens were equal in number.",
        goal=Goal(peer=0.98),
    )


def _packing(shards: Shards) -> Row:
    """Compare how many tokens are packed in a second with how many training uses."""
    split = shards["train"]
    lengths = split.lengths(np.random.default_rng(0).permutation(len(split)))
    rows = WINDOW * _PACKED_ROWS * _ROW_TOKENS * len(split) // split.tokens
    windows = [lengths[start : start + rows] for start in range(0, len(lengths), rows)]
    shape = {"batch_size": _PACKED_ROWS // 4, "row_tokens": _ROW_TOKENS}
    turn = Turn(
        who="loop", folder=str(shards.folder), encoder="2-layer BERT", steps=_STEPS, shape=shape
    )

    def packed(_: None) -> None:
        for window in windows:
            pack(window, _ROW_TOKENS)

    of_packing = Contestant(call=packed, work=split.tokens)
    rates: dict[str, list[float]] = {"ours": [], "peer": []}
    packed(None)  # compiles
    for _ in range(2):
        rates["ours"].append(of_packing.rate())
        rates["peer"].append(in_process(turn).tokens_per_second)
    return row_of(
        "packing",
        rates,
        unit="tokens",
        what=f"rows are put side by side into rows of {_ROW_TOKENS:,} tokens, those of {WINDOW} "
        "batches at a time; the peer is training, which uses the tokens: a BERT of 2 layers, 768 "
        f"wide, on one thread, {_PACKED_ROWS // 4} packed rows a step.",
        goal=Goal(peer=100),
    )
