"""Masking against the paper's released code: tokens per second.

`python -m benchmarks released`

The released code has no licence, so it is not shipped. Run
`git clone https://github.com/mykelismyname/MSLM`, and set `MSLM_RELEASED_CODE` to the folder.
"""

from __future__ import annotations

import importlib
import os
import random
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from transformers import BertTokenizer

import mslm_data as md
from benchmarks.folders import sentences
from benchmarks.harness import (
    AbsentError,
    Contestant,
    Goal,
    Results,
    Row,
    in_turn,
    make_row,
    unless_absent,
)
from benchmarks.inputs import Inputs
from benchmarks.masking import mask
from mslm_data.data.examples import Examples
from mslm_data.mask.plan import MaskKind

FOLDER = "MSLM_RELEASED_CODE"
"""Environment variable with the folder of the released code."""
_ROWS = 500
"""Rows that the peer masks in a turn, which takes about a second."""
_FILE = "mslm/masking/custom_mask.py"
_ELM, _BLM, _SPAN = 1.0, 0.075, 0.15


class Comparison(NamedTuple):
    """A strategy and the equivalent functions of the released code.

    Attributes:
        strategy: Name of the strategy.
        options: Options of the strategy.
        peer: Masks the sample of rows by the released code.
        functions: Names of the released functions.
        goal: Minimum ratio of our rate to the peer's.
    """

    strategy: str
    options: dict[str, Any]
    peer: Callable[[], object]
    functions: str
    goal: int


def run(inputs: Inputs, scratch: Path) -> Results:
    """Time `joint` and `span` against the released code, if it can run."""
    rows = unless_absent("mask, peer the released code", lambda: _rows(inputs, scratch))
    return Results(rows=rows, inputs=[f"Released code: functions of {_FILE}"])


def released_code() -> Any:
    """Import the masking functions of the released code.

    Raises:
        AbsentError: The environment variable is not set.
        ImportError: A package imported by the code is not installed.
        FileNotFoundError: The folder does not contain the code.
    """
    folder = os.environ.get(FOLDER)
    if not folder:
        raise AbsentError(f"{FOLDER} names no checkout of it")
    if not (Path(folder) / _FILE).is_file():
        raise FileNotFoundError(f"{FOLDER}: expected a checkout with {_FILE}, got {folder}")

    sys.path.insert(0, folder)
    return importlib.import_module("mslm.masking.custom_mask")


def _rows(inputs: Inputs, scratch: Path) -> list[Row]:
    """Time both strategies against the released code."""
    theirs = released_code()
    tokenizer = BertTokenizer(vocab=str(inputs.vocab), do_lower_case=not inputs.cased)

    shards = sentences(inputs, scratch, copies=1)
    examples = shards["train"].examples()
    sample = shards["train"].examples(0, _ROWS)
    ids = sample.input_ids.tolist()
    tags = [[shards.tags[tag] for tag in row] for row in sample.bio.tolist()]

    def joint() -> list[tuple[list[int], list[int]]]:
        rows = zip(ids, tags, strict=True)
        return [_joint(theirs, tokenizer, list(row), row_tags) for row, row_tags in rows]

    def span() -> None:
        for row in ids:
            theirs.span_masking(list(row), tokenizer, _SPAN)

    # With elm = 1, all mentions are masked, so both must mask the same positions for any seed.
    random.seed(0)
    _check(sample, joint())

    compared = [
        Comparison(
            strategy="joint",
            options={"elm": _ELM, "blm": _BLM},
            peer=joint,
            functions="`identify_entity_using_label` and `replace_random_id_with_mask`",
            goal=1500,
        ),
        Comparison(
            strategy="span",
            options={"rate": _SPAN},
            peer=span,
            functions="`span_masking`",
            goal=800,
        ),
    ]
    return [_row(comparison, examples, sample) for comparison in compared]


def _joint(
    theirs: Any, tokenizer: Any, ids: list[int], tags: list[str]
) -> tuple[list[int], list[int]]:
    """Mask a row like the released script. Returns ids and positions of masked mentions."""
    _, masked, mentions = theirs.identify_entity_using_label(ids, tags, tokenizer, _ELM)
    places = [mention[1] for mention in mentions]
    masked, _ = theirs.replace_random_id_with_mask(masked, places, tokenizer, _BLM)
    return masked, [*chain.from_iterable(places)]


def _row(comparison: Comparison, examples: Examples, sample: Examples) -> Row:
    """Time ours on all rows and the released code on a sample of them."""
    name, options, peer, functions, goal = comparison
    masking = md.strategy(name, **options)
    tokens = len(examples.input_ids.values)

    rates = in_turn(
        {
            "ours": Contestant(call=lambda _: mask(masking, examples), work=tokens, repeat=20),
            "peer": Contestant(call=lambda _: peer(), work=len(sample.input_ids.values)),
        },
        rounds=5,
    )
    return make_row(
        f"mask: {name}, peer the released code",
        rates,
        unit="tokens",
        what=f"plan and corruption of {len(examples):,} rows by one call on one core; the peer is "
        f"{functions} of the paper's released code, on {len(sample):,} of these rows.",
        goal=Goal(peer=goal, why="see masking a corpus"),
    )


def _check(examples: Examples, theirs: list[tuple[list[int], list[int]]]) -> None:
    """Check that both mask the same mentions.

    Raises:
        RuntimeError: The released code masks other positions.
    """
    kinds = md.strategy("joint", elm=_ELM, blm=_BLM).plan(examples).kinds
    for i, (_, places) in enumerate(theirs):
        if np.flatnonzero(kinds[i] == MaskKind.ENTITY).tolist() != places:
            raise RuntimeError(
                "joint: expected the released code to mask the same mentions; no times were taken"
            )
