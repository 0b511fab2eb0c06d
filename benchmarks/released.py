"""Masking beside the functions of the paper's released code, where a checkout of it is at hand.

`git clone https://github.com/mykelismyname/MSLM`, and name the folder in `MSLM_RELEASED_CODE`; it is not ours to ship.
"""

from __future__ import annotations

import importlib
import os
import random
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from transformers import BertTokenizerFast

import mslm_data as md
from benchmarks.folders import sentences
from benchmarks.harness import Contestant, Goal, Results, Row, in_turn, row_of
from benchmarks.inputs import Inputs
from benchmarks.masking import mask
from mslm_data.data.examples import Examples
from mslm_data.mask.plan import MaskKind

_ROWS = 500
"""That the peer masks in a turn: a second or so."""
_FILE = "mslm/masking/custom_mask.py"
_ELM, _BLM, _SPAN = 1.0, 0.075, 0.15


def run(inputs: Inputs, scratch: Path) -> Results:
    """Time joint masking and SPAN over all rows at once; nothing without the released code."""
    folder = os.environ.get("MSLM_RELEASED_CODE")
    if not folder:
        print("released code is left out: name a checkout in MSLM_RELEASED_CODE", file=sys.stderr)
        return Results(inputs=["Left out, as it is not here: the released code"])
    if not (Path(folder) / _FILE).is_file():
        raise SystemExit(f"MSLM_RELEASED_CODE: expected a checkout with {_FILE}, got {folder}")
    sys.path.insert(0, folder)
    theirs = importlib.import_module("mslm.masking.custom_mask")
    tokenizer = BertTokenizerFast(vocab=str(inputs.vocab), do_lower_case=not inputs.cased)
    shards = sentences(inputs, scratch, copies=1)
    examples = shards["train"].examples()
    few = shards["train"].examples(0, _ROWS)
    ids, tags = (
        few.input_ids.tolist(),
        [[shards.tags[tag] for tag in row] for row in few.bio.tolist()],
    )

    def joint() -> list[tuple[list[int], list[int]]]:
        return [
            _joint(theirs, tokenizer, list(row), tags_of)
            for row, tags_of in zip(ids, tags, strict=True)
        ]

    def span() -> None:
        for row in ids:
            theirs.span_masking(list(row), tokenizer, _SPAN)

    random.seed(0)
    _check(few, joint())
    functions = "`identify_entity_using_label` and `replace_random_id_with_mask`"
    return Results(
        rows=[
            _against("joint", {"elm": _ELM, "blm": _BLM}, joint, functions, 1500, examples, few),
            _against("span", {"rate": _SPAN}, span, "`span_masking`", 800, examples, few),
        ],
        inputs=[f"Released code: functions of {_FILE}"],
    )


def _joint(
    theirs: Any, tokenizer: Any, ids: list[int], tags: list[str]
) -> tuple[list[int], list[int]]:
    """Mask a row as the released script does; return it with the places of hidden mentions."""
    _, hidden, mentions = theirs.identify_entity_using_label(ids, tags, tokenizer, _ELM)
    places = [mention[1] for mention in mentions]
    hidden, _ = theirs.replace_random_id_with_mask(hidden, places, tokenizer, _BLM)
    return hidden, [*chain.from_iterable(places)]


def _against(
    name: str,
    options: dict[str, Any],
    peer: Callable[[], object],
    says: str,
    goal: int,
    examples: Examples,
    few: Examples,
) -> Row:
    made = md.strategy(name, **options)
    tokens = len(examples.input_ids.values)
    rates = in_turn(
        {
            "ours": Contestant(call=lambda _: mask(made, examples), work=tokens, repeat=20),
            "peer": Contestant(call=lambda _: peer(), work=len(few.input_ids.values)),
        },
        rounds=5,
    )
    return row_of(
        f"mask: {name}, peer the released code",
        rates,
        unit="tokens",
        what=f"plan and corruption of {len(examples):,} rows by one call on one core; the peer is {says} of the "
        f"paper's released code, on {len(few):,} of these rows.",
        goal=Goal(peer=goal, why="see masking a corpus"),
    )


def _check(examples: Examples, theirs: list[tuple[list[int], list[int]]]) -> None:
    """See that both hide all mentions, and the same places for it."""
    kinds = md.strategy("joint", elm=_ELM, blm=_BLM).plan(examples).kinds
    for i, (_, places) in enumerate(theirs):
        if np.flatnonzero(kinds[i] == MaskKind.ENTITY).tolist() != places:
            raise RuntimeError(
                "joint: expected the released code to hide the same mentions; no times were taken"
            )
