"""All registered strategies, four of them against the MLM collator: tokens per second.

`python -m benchmarks strategies`
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers

from benchmarks.folders import sentences
from benchmarks.harness import Contestant, Goal, Results, Row, in_turn, make_row
from benchmarks.inputs import Inputs
from benchmarks.masking import MLM_COLLATOR, copy, mask, mlm_collator
from mslm_data.api.loading import Shards
from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged
from mslm_data.kernels.take import SKIP, draw_keys, fill_ranked
from mslm_data.lexicon.ngrams.choice import RECIPES
from mslm_data.lexicon.ngrams.ranking import rank_ngrams
from mslm_data.lexicon.score_columns import write_scores
from mslm_data.lexicon.store import Lexicon, write_lexicon
from mslm_data.lexicon.word_types import count_words
from mslm_data.mask.strategy import Strategy
from mslm_data.mask.table import STRATEGIES
from mslm_data.mask.units import words

_OWN: dict[str, dict[str, Any]] = {
    "picks": {
        "picks": [
            {"units": "mentions", "budget": {"rate": 0.4}, "kind": "entity"},
            {"units": "words", "budget": {"rate": 0.12}},
        ]
    },
    "mixture": {"chances": [0.5, 0.5], "parts": [{"use": "elm"}, {"use": "blm"}]},
    "curriculum": {"epochs": [3], "parts": [{"use": "token"}, {"use": "whole-word"}]},
}
"""Options of strategies without defaults."""
_OF_A_COLUMN = (
    "selective",
    "selective-task",
    "attention-high",
    "attention-low",
    "attention-hints",
    "mst",
)
_OF_WORDS = ("difference", "keywords")

_WITH_PEER = ("token", "bert", "blm", "joint")
"""Strategies beside the MLM collator."""


def run(inputs: Inputs, scratch: Path) -> Results:
    """Time plan and corruption of each strategy over all rows at once."""
    shards = sentences(inputs, scratch, copies=1)
    examples = with_sentinels(shards["train"].examples())
    options = prepare_options(shards, examples)
    peer = mlm_collator(inputs, examples)

    rows = []
    for full in STRATEGIES.names():
        name = full.removesuffix(".v1")
        strategy = shards.strategy(full, **options.get(name, {}))
        rows.append(_row(name, strategy, examples, peer if name in _WITH_PEER else None))
    rows.append(_weighted_draws(examples))

    tokens = len(examples.input_ids.values)
    return Results(rows=rows, inputs=[f"Strategies: {len(examples):,} rows, {tokens:,} tokens"])


def with_sentinels(examples: Examples) -> Examples:
    """Add 100 sentinels as T5 has them, with ids behind those of the tokenizer."""
    first = examples.ids.size
    ids = replace(examples.ids, sentinels=tuple(range(first + 99, first - 1, -1)))
    return replace(examples, ids=ids)


def _row(name: str, strategy: Strategy, examples: Examples, peer: Contestant | None) -> Row:
    """Time one strategy."""
    tokens = len(examples.input_ids.values)
    masked = sum(strategy.plan(examples).counts())

    contestants = {
        "ours": Contestant(call=lambda _: mask(strategy, examples), work=tokens, repeat=4),
        "limit": Contestant(call=lambda _: copy(examples), work=tokens, repeat=8),
    }
    caption = ""
    if peer is not None:
        contestants["peer"] = peer
        caption = f"the peer is {MLM_COLLATOR}; "

    return make_row(
        f"strategy {name}",
        in_turn(contestants, rounds=5),
        unit="tokens",
        what=f"plan and corruption by one call on one core, {masked / tokens:.1%} of tokens "
        f"masked; {caption}the limit is `ndarray.copy` of ids, word numbers and kinds.",
    )


def _weighted_draws(examples: Examples) -> Row:
    """Compare the weighted sampler of score-based strategies with NumPy's, given the weights."""
    units = words(examples)
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.5, 1, len(units))

    offsets = units.starts.offsets
    ones = np.ones(len(units), np.int32)
    pool = np.ones(len(units), np.uint8)
    due = np.ceil(units.starts.lengths * 0.15).astype(np.int64)

    count = min(4096, len(examples))
    lists = [weights[offsets[i] : offsets[i + 1]] for i in range(count)]

    # The kernel counts the quota down in place.
    def ours(_: None) -> object:
        quota = due.copy()
        keys = np.empty(len(units))
        taken = np.zeros(len(units), np.int32)
        draw_keys(offsets, weights, examples.keys, keys)
        fill_ranked(offsets, pool, keys, ones, quota, SKIP, taken)
        return taken

    def peer(_: None) -> object:
        return [
            rng.choice(len(p), size=math.ceil(0.15 * len(p)), replace=False, p=p / p.sum())
            for p in lists
            if len(p)
        ]

    rates = in_turn(
        {
            "ours": Contestant(call=ours, work=len(units), repeat=4),
            "peer": Contestant(call=peer, work=int(offsets[count])),
        },
        rounds=5,
    )
    return make_row(
        "weighted draws without replacement",
        rates,
        unit="words",
        what="15 % of each row's words by their weights, which are ready in both: the kernel "
        "alone, and `numpy.random.Generator.choice(replace=False, p=…)` for each row.",
        goal=Goal(peer=30),
    )


def prepare_options(shards: Shards, examples: Examples) -> dict[str, dict[str, Any]]:
    """Write lexicons and a score column to a folder, for the strategies that need them.

    Scores are random, as speed does not depend on their values.

    Args:
        shards: The folder.
        examples: Its rows.

    Returns:
        Strategy -> options. Strategies not listed run with their defaults.
    """
    built = Path(str(shards.folder))
    folder = built / "vocab"
    rng = np.random.default_rng(0)
    token_ids = shards.manifest.token_ids
    about = {
        "tokenizer": shards.manifest.tokenizer.sha256,
        "size": token_ids.size,
        "kind": "benchmark",
    }

    core = tokenizers.Tokenizer.from_file(str(built / "tokenizer.json"))
    about_ngrams = {**about, "made": {}}
    grams = rank_ngrams([examples], core, token_ids, RECIPES["released"], about=about_ngrams)
    write_lexicon(folder / "pmi.arrow", grams)

    def write_scored(name: str, tokens: Ragged, scores: Any) -> None:
        starts = Ragged(np.zeros(len(tokens), np.int32), np.arange(len(tokens) + 1))
        lexicon = Lexicon(tokens=tokens, word_starts=starts, scores=scores, about=about)
        write_lexicon(folder / f"{name}.arrow", lexicon)

    types = count_words([examples]).tokens
    write_scored("difference", types, rng.uniform(0.5, 1.0, len(types)))

    single = Ragged.from_rows(np.unique(examples.input_ids.values)[:, None].tolist(), np.int32)
    write_scored("informask", single, rng.uniform(0.15, 0.3, len(single)))

    column = rng.normal(size=len(examples.input_ids.values)).astype(np.float32)
    path = folder / "column" / "train" / "data-00000-of-00001.arrow"
    write_scores(path, examples.keys, Ragged(column, examples.input_ids.offsets), about)

    return {
        **{name: {"scores": "column"} for name in _OF_A_COLUMN},
        **{name: {"lexicon": "difference.arrow"} for name in _OF_WORDS},
        "informask": {"lexicon": "informask.arrow"},
        "ccm": {"lexicons": ("pmi.arrow",)},
        **_OWN,
    }
