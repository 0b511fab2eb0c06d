"""All registered strategies, against textbook loops or the MLM collator: tokens per second.

`python -m benchmarks strategies`
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers

from benchmarks import textbook
from benchmarks.folders import sentences
from benchmarks.harness import Contestant, Goal, Results, Row, in_turn, make_row
from benchmarks.inputs import Inputs
from benchmarks.masking import MLM_COLLATOR, copy, mask, mlm_collator
from benchmarks.textbook import ListRow
from mslm_data.api.loading import Shards
from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged
from mslm_data.kernels.take import SKIP, draw_keys, fill_ranked
from mslm_data.lexicon.ngrams.ranking import RECIPES, rank_ngrams
from mslm_data.lexicon.score_columns import write_scores
from mslm_data.lexicon.store import Lexicon, read_lexicon, write_lexicon
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

Grams = list[tuple[int, ...]]


@dataclass(frozen=True)
class Peer:
    """A peer of a strategy.

    Attributes:
        caption: Description in the table.
        contestant: Masks some rows; its work is their tokens.
    """

    caption: str
    contestant: Contestant


def run(inputs: Inputs, scratch: Path) -> Results:
    """Time plan and corruption of each strategy over all rows at once."""
    shards = sentences(inputs, scratch, copies=1)
    examples = shards["train"].examples()
    options = prepare_options(shards, examples)
    peers = _peers(inputs, shards, examples)

    rows = []
    for full in STRATEGIES.names():
        name = full.removesuffix(".v1")
        strategy = shards.strategy(full, **options.get(name, {}))
        rows.append(_row(name, strategy, examples, peers.get(name)))
    rows.append(_weighted_draws(examples))

    tokens = len(examples.input_ids.values)
    return Results(rows=rows, inputs=[f"Strategies: {len(examples):,} rows, {tokens:,} tokens"])


def _row(name: str, strategy: Strategy, examples: Examples, peer: Peer | None) -> Row:
    """Time one strategy."""
    tokens = len(examples.input_ids.values)
    masked = sum(strategy.plan(examples).counts())

    contestants = {
        "ours": Contestant(call=lambda _: mask(strategy, examples), work=tokens, repeat=4),
        "limit": Contestant(call=lambda _: copy(examples), work=tokens, repeat=8),
    }
    caption = ""
    if peer is not None:
        contestants["peer"] = peer.contestant
        caption = f"the peer is {peer.caption}; "

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
        return textbook.weighted(lists, 0.15, rng)

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


def _peers(inputs: Inputs, shards: Shards, examples: Examples) -> dict[str, Peer]:
    """Return strategy -> peer: transformers' MLM collator, or a loop of `textbook.py`."""
    usual = Peer(MLM_COLLATOR, mlm_collator(inputs, examples))

    rng = random.Random(0)
    draws = np.random.default_rng(0)
    rows = list_rows(examples, 2048)
    sample_rows = list_rows(examples, 4)
    size = sum(len(row.ids) for row in rows)
    small = sum(len(row.ids) for row in sample_rows)
    weights = [draws.uniform(0.5, 1, sum(row.begins)) for row in rows]

    # Textbook PMI makes a pass over all n-grams per row, so it runs on four rows only.
    grams = read_ngrams(shards)
    check_pmi(shards, examples, sample_rows, grams)

    return {
        "token": usual,
        "bert": usual,
        "blm": usual,
        "joint": usual,
        "elm": Peer(
            "a loop over lists",
            Contestant(call=lambda _: textbook.elm(rows, 1.0, rng), work=size),
        ),
        "span": Peer(
            "Algorithm 1 as a loop",
            Contestant(call=lambda _: textbook.span(rows, 0.15, rng), work=size),
        ),
        "pmi": Peer(
            "Algorithm 2 as a loop, the list tokenised beforehand",
            Contestant(call=lambda _: textbook.pmi(sample_rows, 0.15, grams), work=small),
        ),
        "difference": Peer(
            "`numpy.random.Generator.choice(p=…)` for each row, the weights given",
            Contestant(call=lambda _: textbook.weighted(weights, 0.15, draws), work=size),
        ),
    }


def read_ngrams(shards: Shards) -> Grams:
    """Return the n-grams of the lexicon written by `prepare_options`, best first."""
    lexicon = read_lexicon(Path(str(shards.folder)) / "vocab" / "pmi.arrow")
    return [tuple(gram) for gram in lexicon.tokens.tolist()]


def list_rows(examples: Examples, count: int) -> list[ListRow]:
    """Return the first rows as lists, without special tokens."""
    rows = []
    for i in range(min(count, len(examples))):
        real = np.flatnonzero(examples.word_ids[i] >= 0)
        numbers = examples.word_ids[i][real]
        begins = np.append(True, numbers[1:] != numbers[:-1])

        starts = examples.span_starts[i] - real[0]
        ends = examples.span_ends[i] - real[0]
        mentions = [(int(a), int(b)) for a, b in zip(starts, ends, strict=True)]

        rows.append(ListRow(examples.input_ids[i][real].tolist(), begins.tolist(), mentions))
    return rows


def check_pmi(shards: Shards, examples: Examples, rows: list[ListRow], grams: Grams) -> None:
    """Check that `pmi`, which is deterministic, masks the same positions as `textbook.pmi`.

    Raises:
        RuntimeError: The positions differ.
    """
    kinds = shards.strategy("pmi", rate=0.15).plan(examples).kinds
    for i, places in enumerate(textbook.pmi(rows, 0.15, grams)):
        real = np.flatnonzero(examples.word_ids[i] >= 0)
        if set(np.flatnonzero(kinds[i][real]).tolist()) != places:
            raise RuntimeError("pmi: expected the textbook's places; no times were taken")
