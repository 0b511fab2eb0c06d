"""Masking against transformers' MLM collator, and against copying the same bytes.

`python -m benchmarks masking`
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from transformers import BertTokenizer, DataCollatorForLanguageModeling

import mslm_data as md
from benchmarks.folders import sentences
from benchmarks.harness import Contestant, Goal, Results, Row, in_turn, make_row
from benchmarks.inputs import Inputs
from mslm_data.data.examples import Examples, concatenate, take
from mslm_data.mask.strategy import Strategy

_STRATEGIES: dict[str, tuple[str, dict[str, Any]]] = {
    "joint": ("joint", {"elm": 1.0, "blm": 0.075}),
    "joint, elm 0.5": ("joint", {"elm": 0.5, "blm": 0.075}),
    "blm": ("blm", {"blm": 0.15}),
    "blm, 80-10-10": ("blm", {"blm": 0.15, "corruption": "80-10-10"}),
    "blm by coins": ("blm", {"blm": 0.15, "count": "bernoulli"}),
}
_GOALS = ("joint", "blm")
_WHY = {
    "a chunk": "its rows stay in a core's cache, where copying is some times as fast; masking "
    "looks at every word and draws for it, which takes as long in either",
    "a corpus": "mentions are masked and words are drawn in two passes over the rows, and copying "
    "draws nothing",
}
"""Reasons for missing the goal, half the speed of copying."""
_BATCH = 32
MLM_COLLATOR = (
    f"`DataCollatorForLanguageModeling` (torch) on batches of {_BATCH} of these rows, padding them "
    "too, which is not counted"
)
"""Description of `mlm_collator` in a table."""
_CHUNK = 4096
"""Rows of a chunk, small enough for a core's cache."""
_COPIES = 10
"""Copies of the input in a corpus larger than the caches. Most of the time to copy it is spent on
the first write to new memory."""


def run(inputs: Inputs, scratch: Path) -> Results:
    """Time plan and corruption of each strategy on a chunk and on a corpus."""
    examples = sentences(inputs, scratch, copies=1)["train"].examples()
    chunk = take(examples, np.arange(min(_CHUNK, len(examples))))
    corpus = concatenate([examples] * _COPIES)

    peer = mlm_collator(inputs, chunk)

    results = Results()
    for name, (strategy, options) in _STRATEGIES.items():
        masking = md.strategy(strategy, **options)
        _check(name, masking, chunk)

        results.rows.append(_against(name, "a chunk", masking, chunk, peer))
        if name in _GOALS:
            results.rows.append(_against(name, "a corpus", masking, corpus, peer))
    return results


def _against(name: str, size: str, strategy: Strategy, examples: Examples, peer: Contestant) -> Row:
    """Time a strategy against the torch collator and against copying."""
    tokens = len(examples.input_ids.values)
    repeat = max(1, 2_000_000 // tokens)
    rates = in_turn(
        {
            "ours": Contestant(call=lambda _: mask(strategy, examples), work=tokens, repeat=repeat),
            "peer": peer,
            "limit": Contestant(call=lambda _: copy(examples), work=tokens, repeat=repeat),
        },
        rounds=7,
    )
    return make_row(
        f"mask {size}: {name}",
        rates,
        unit="tokens",
        what=f"plan and corruption of {len(examples):,} rows ({tokens:,} tokens) by one call on "
        f"one core; the peer is {MLM_COLLATOR}; the limit is `ndarray.copy` of ids, word numbers "
        "and kinds: 9 bytes a token read and written, where masking reads 8 and writes 5. Checked: "
        "what is not planned is unchanged, specials too.",
        goal=Goal(limit=0.5, why=_WHY[size]) if name in _GOALS else None,
    )


def mlm_collator(inputs: Inputs, examples: Examples) -> Contestant:
    """Make the peer that masks and pads the first rows by transformers' MLM collator.

    Its work is the tokens of the rows, without the padding that it adds.
    """
    lists = examples.input_ids.slice(0, min(_BATCH * 32, len(examples))).tolist()
    rows = [{"input_ids": ids} for ids in lists]
    batches = [rows[i : i + _BATCH] for i in range(0, len(rows), _BATCH)]

    tokenizer = BertTokenizer(vocab=str(inputs.vocab), do_lower_case=not inputs.cased)
    collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15, return_tensors="pt")

    def collate(_: None) -> None:
        for batch in batches:
            collator([dict(row) for row in batch])

    return Contestant(call=collate, work=sum(map(len, lists)))


def mask(strategy: Strategy, examples: Examples) -> Any:
    """Plan and corrupt rows."""
    return strategy.corrupt(examples, strategy.plan(examples))


def copy(examples: Examples) -> Any:
    """Copy ids, word numbers and a byte per token, about what masking reads and writes."""
    return (
        examples.input_ids.values.copy(),
        examples.word_ids.values.copy(),
        examples.bio.values.copy(),
    )


def _check(name: str, strategy: Strategy, examples: Examples) -> None:
    """Check that some words and no special tokens are masked, and other tokens unchanged.

    Raises:
        RuntimeError: The mask is wrong.
    """
    plan = strategy.plan(examples)
    masked = strategy.corrupt(examples, plan)

    is_masked = plan.kinds.values != 0
    wrong = np.any(is_masked & (examples.word_ids.values < 0)) or np.any(
        ~is_masked & (masked.values != examples.input_ids.values)
    )
    if wrong or not is_masked.any():
        raise RuntimeError(
            f"{name}: expected a mask of words, and the rest unchanged; no times were taken"
        )
