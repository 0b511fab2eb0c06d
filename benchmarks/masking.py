"""Masking against transformers' MLM collator, and against copying the same bytes.

`python -m benchmarks masking`
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from transformers import BertTokenizer, DataCollatorForLanguageModeling

import mslm_data as md
from benchmarks.harness import Contestant, Goal, Results, Row, in_turn, make_row
from benchmarks.inputs import Inputs
from benchmarks.reading import documents
from mslm_data.data.examples import Examples, concatenate, take
from mslm_data.encode import tokenizer as tokenizers
from mslm_data.encode.encoder import Encoder
from mslm_data.encode.mentions import Account
from mslm_data.encode.word_table import WordTable
from mslm_data.mask.strategy import Strategy
from mslm_data.segment.given import GivenSentences

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
_CHUNK = 4096
"""Rows of a chunk, small enough for a core's cache."""
_COPIES = 10
"""Copies of the input in a corpus larger than the caches. Most of the time to copy it is spent on
the first write to new memory."""


def run(inputs: Inputs, scratch: Path) -> Results:  # noqa: ARG001 - interface of topics
    """Time plan and corruption of each strategy on a chunk and on a corpus."""
    read = documents(inputs.train)
    labels = sorted(read.mentions.used_labels())
    encoder = Encoder(
        WordTable(tokenizers.load_tokenizer(str(inputs.vocab))),
        {label: number for number, label in enumerate(labels)},
    )
    examples = encoder.encode(read, GivenSentences().sentences(read), Account())

    chunk = take(examples, np.arange(min(_CHUNK, len(examples))))
    corpus = concatenate([examples] * _COPIES)

    tokenizer = BertTokenizer(vocab=str(inputs.vocab), do_lower_case=not inputs.cased)
    batches = _batches(chunk, rows=_BATCH * 32)

    results = Results()
    for name, (strategy, options) in _STRATEGIES.items():
        masking = md.strategy(strategy, **options)
        _check(name, masking, chunk)

        results.rows.append(_against(name, "a chunk", masking, chunk, tokenizer, batches))
        if name in _GOALS:
            results.rows.append(_against(name, "a corpus", masking, corpus, tokenizer, batches))
    return results


def _against(
    name: str, size: str, strategy: Strategy, examples: Examples, tokenizer: Any, batches: list[Any]
) -> Row:
    """Time a strategy against the torch collator on `batches` and against copying."""
    tokens = len(examples.input_ids.values)
    padded = sum(len(row["input_ids"]) for batch in batches for row in batch)
    collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15, return_tensors="pt")

    repeat = max(1, 2_000_000 // tokens)

    def peer(_: None) -> None:
        for batch in batches:
            collator([dict(row) for row in batch])

    rates = in_turn(
        {
            "ours": Contestant(call=lambda _: mask(strategy, examples), work=tokens, repeat=repeat),
            "peer": Contestant(call=peer, work=padded),
            "limit": Contestant(call=lambda _: copy(examples), work=tokens, repeat=repeat),
        },
        rounds=7,
    )
    return make_row(
        f"mask {size}: {name}",
        rates,
        unit="tokens",
        what=f"plan and corruption of {len(examples):,} rows ({tokens:,} tokens) by one call on "
        f"one core; the peer is `DataCollatorForLanguageModeling` (torch) on batches of {_BATCH} "
        "of these rows, padding included; the limit is `ndarray.copy` of ids, word numbers and "
        "kinds: 9 bytes a token read and written, where masking reads 8 and writes 5. Checked: "
        "what is not planned is unchanged, specials too.",
        goal=Goal(limit=0.5, why=_WHY[size]) if name in _GOALS else None,
    )


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


def _batches(examples: Examples, *, rows: int) -> list[list[dict[str, list[int]]]]:
    lists = [
        {"input_ids": ids} for ids in examples.input_ids.slice(0, min(rows, len(examples))).tolist()
    ]
    return [lists[i : i + _BATCH] for i in range(0, len(lists), _BATCH)]


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
