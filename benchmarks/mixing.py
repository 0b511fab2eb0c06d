"""Cost of mixing and packing: a mix against one folder, packing against training.

`python -m benchmarks mixing`
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import folders
from benchmarks.batches import SIZE, consume
from benchmarks.epoch import Turn, in_process
from benchmarks.harness import Contestant, Goal, Results, Row, in_turn, make_row, same
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
"""Number of packed rows of a batch."""
_STEPS = 3
"""Number of measured training steps."""


def run(inputs: Inputs, scratch: Path) -> Results:
    """Time batches of a mix, and packing."""
    joined, parts = folders.thirds(inputs, scratch, copies=_COPIES)
    train = joined["train"]

    rows = [_mixing(joined, parts), _packing(joined)]
    caption = f"Mixing: {len(train):,} sequences, the input {_COPIES} times, and each third alone"
    return Results(rows=rows, inputs=[caption])


def _mixing(joined: Shards, parts: list[Shards]) -> Row:
    """Compare batches of a mix of three folders with those of one folder of the same rows."""
    whole_split = joined["train"]
    mixed = mix(parts)
    same("rows", len(mixed), len(whole_split))
    same("tokens", mixed.tokens, whole_split.tokens)
    epochs = itertools.count()

    def batches(rows: Any) -> Batches:
        return Batches(rows, strategy("joint"), batch_size=SIZE, epoch=next(epochs))

    rates = in_turn(
        {
            "ours": Contestant(prepare=lambda: batches(mixed), call=consume, work=len(whole_split)),
            "peer": Contestant(
                prepare=lambda: batches(whole_split), call=consume, work=len(whole_split)
            ),
        },
        rounds=15,
    )
    return make_row(
        "batches of a mix",
        rates,
        unit="sequences",
        what=f"both ours, masked, shuffled, batches of {SIZE}: `md.mix` of three folders, and one "
        "folder of three shards that has their rows. Sequences and tokens were equal in number.",
        goal=Goal(peer=0.98),
    )


def _packing(shards: Shards) -> Row:
    """Compare tokens packed per second with tokens trained on per second."""
    split = shards["train"]
    lengths = split.lengths(np.random.default_rng(0).permutation(len(split)))
    # The loader packs the rows of WINDOW batches at once: divide an epoch into such windows.
    rows = WINDOW * _PACKED_ROWS * _ROW_TOKENS * len(split) // split.tokens
    windows = [lengths[start : start + rows] for start in range(0, len(lengths), rows)]
    shape = {"batch_size": _PACKED_ROWS // 4, "row_tokens": _ROW_TOKENS}
    turn = Turn(
        who="loop", folder=str(shards.folder), encoder="2-layer BERT", steps=_STEPS, shape=shape
    )

    def packed(_: None) -> None:
        for window in windows:
            pack(window, _ROW_TOKENS)

    packing = Contestant(call=packed, work=split.tokens)
    rates: dict[str, list[float]] = {"ours": [], "peer": []}
    packed(None)  # compiles the kernel
    for _ in range(2):
        rates["ours"].append(packing.rate())
        rates["peer"].append(in_process(turn).tokens_per_second)
    return make_row(
        "packing",
        rates,
        unit="tokens",
        what=f"rows are put side by side into rows of {_ROW_TOKENS:,} tokens, those of {WINDOW} "
        "batches at a time; the peer is training, which uses the tokens: a BERT of 2 layers, 768 "
        f"wide, on one thread, {_PACKED_ROWS // 4} packed rows a step.",
        goal=Goal(peer=100),
    )
