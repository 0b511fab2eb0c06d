"""Every registered strategy over the same rows, beside what a user would write or use instead."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from transformers import BertTokenizerFast, DataCollatorForLanguageModeling

from benchmarks import textbook
from benchmarks.folders import sentences
from benchmarks.harness import Contestant, Goal, Results, Row, in_turn, row_of
from benchmarks.inputs import Inputs
from benchmarks.masking import copy
from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged
from mslm_data.kernels.fill import SKIP, fill_weighted
from mslm_data.lexicon.ngrams.ranking import RECIPES, rank_ngrams
from mslm_data.lexicon.score_columns import write_scores
from mslm_data.lexicon.store import Lexicon, read_lexicon, write_lexicon
from mslm_data.lexicon.word_types import count_words
from mslm_data.loading import Shards
from mslm_data.mask import STRATEGIES
from mslm_data.mask.strategy import Strategy
from mslm_data.mask.units import words

_BATCH = 32
_PICKS = {
    "picks": [
        {"units": "mentions", "budget": {"rate": 0.4}, "kind": "entity"},
        {"units": "words", "budget": {"rate": 0.12}},
    ]
}
_MIXTURE = {"chances": [0.5, 0.5], "parts": [{"use": "elm"}, {"use": "blm"}]}
_CURRICULUM = {"epochs": [3], "parts": [{"use": "token"}, {"use": "whole-word"}]}


@dataclass(frozen=True)
class Peer:
    """What is compared with a strategy.

    Attributes:
        says: What it is.
        call: Masks some rows.
        tokens: Tokens of these rows, as the peer counts them.
    """

    says: str
    call: Callable[[], object]
    tokens: int


def run(inputs: Inputs, scratch: Path) -> Results:
    """Time plan and corruption of each strategy over all rows at once."""
    shards = sentences(inputs, scratch, copies=1)
    train = shards["train"]
    examples = train.examples()
    options = _options(shards, examples)
    peers = _peers(inputs, shards, examples)
    tokens = len(examples.input_ids.values)
    results = Results(inputs=[f"Strategies: {len(examples):,} rows, {tokens:,} tokens"])
    for full in STRATEGIES.names():
        name = full.removesuffix(".v1")
        made = shards.strategy(full, **options.get(name, {}))
        hidden = sum(made.plan(examples).counts())
        peer = peers.get(name)
        contestants = {
            "ours": Contestant(
                call=lambda _, made=made: _masked(made, examples), work=tokens, repeat=4
            ),
            "limit": Contestant(call=lambda _: copy(examples), work=tokens, repeat=8),
        }
        if peer is not None:
            contestants["peer"] = Contestant(
                call=lambda _, peer=peer: peer.call(), work=peer.tokens
            )
        rates = in_turn(contestants, rounds=5)
        says = f"the peer is {peer.says}; " if peer is not None else ""
        results.rows.append(
            row_of(
                f"strategy {name}",
                rates,
                unit="tokens",
                what=f"plan and corruption by one call on one core, {hidden / tokens:.1%} of tokens hidden; {says}"
                "the limit is `ndarray.copy` of ids, word numbers and kinds.",
            )
        )
    results.rows.append(_weighted_draws(examples))
    return results


def _weighted_draws(examples: Examples) -> Row:
    """Compare the sampler alone with numpy's, weights ready for both: what all score-driven strategies rest on."""
    units, rng = words(examples), np.random.default_rng(0)
    weights = rng.uniform(0.5, 1, len(units))
    offsets, ones, pool = (
        units.starts.offsets,
        np.ones(len(units), np.int64),
        np.ones(len(units), np.uint8),
    )
    due = np.ceil(units.starts.lengths * 0.15).astype(np.int64)
    count = min(4096, len(examples))
    lists = [weights[offsets[i] : offsets[i + 1]] for i in range(count)]

    def ours(_: None) -> object:
        quota, taken = due.copy(), np.zeros(len(units), np.int64)
        fill_weighted(offsets, pool, weights, ones, quota, SKIP, examples.keys, taken)
        return taken

    rates = in_turn(
        {
            "ours": Contestant(call=ours, work=len(units), repeat=4),
            "peer": Contestant(
                call=lambda _: textbook.weighted(lists, 0.15, rng), work=int(offsets[count])
            ),
        },
        rounds=5,
    )
    return row_of(
        "weighted draws without replacement",
        rates,
        unit="words",
        what="15 % of each row's words by their weights, which are ready in both: the kernel alone, and "
        "`numpy.random.Generator.choice(replace=False, p=…)` for each row.",
        goal=Goal(peer=30),
    )


def _masked(strategy: Strategy, examples: Examples) -> Any:
    plan = strategy.plan(examples)
    return strategy.corrupt(examples, plan)


def _options(shards: Shards, examples: Examples) -> dict[str, dict[str, Any]]:
    """Write the lexicons and score columns that strategies need, and return each strategy's options.

    Scores are random: what they are makes no difference to the time.
    """
    rng, folder = np.random.default_rng(0), shards.folder / "vocab"
    ids, core = (
        shards.manifest.token_ids,
        tokenizers.Tokenizer.from_file(str(shards.folder / "tokenizer.json")),
    )
    about = {
        "tokenizer": shards.manifest.tokenizer["sha256"],
        "size": ids.size,
        "kind": "benchmark",
    }
    write_lexicon(
        folder / "pmi.arrow",
        rank_ngrams([examples], core, ids, RECIPES["released"], about={**about, "made": {}}),
    )
    types = count_words([examples]).tokens
    single = Ragged.of(np.unique(examples.input_ids.values)[:, None].tolist(), np.int32)
    for name, tokens in (("difference", types), ("informask", single)):
        starts = Ragged(np.zeros(len(tokens), np.int32), np.arange(len(tokens) + 1))
        scores = rng.uniform(0.5, 1.0, len(tokens)) * (1.0 if name == "difference" else 0.3)
        write_lexicon(
            folder / f"{name}.arrow",
            Lexicon(tokens=tokens, word_starts=starts, scores=scores, about=about),
        )
    column = rng.normal(size=len(examples.input_ids.values)).astype(np.float32)
    path = folder / "column" / "train" / "data-00000-of-00001.arrow"
    write_scores(path, examples.keys, Ragged(column, examples.input_ids.offsets), about)
    scored = (
        "selective",
        "selective-task",
        "attention-high",
        "attention-low",
        "attention-hints",
        "mst",
    )
    return {
        **{name: {"scores": "column"} for name in scored},
        **{
            name: {"lexicon": "difference.arrow"}
            for name in ("difference", "difference-released", "keywords")
        },
        "informask": {"lexicon": "informask.arrow"},
        "ccm": {"lexicons": ("pmi.arrow",)},
        "ernie": {},
        "picks": _PICKS,
        "mixture": _MIXTURE,
        "curriculum": _CURRICULUM,
    }


def _peers(inputs: Inputs, shards: Shards, examples: Examples) -> dict[str, Peer]:
    """Return what is compared with which strategy: the usual collators, and the loops of `textbook.py`."""
    tokenizer = BertTokenizerFast(vocab=str(inputs.vocab), do_lower_case=not inputs.cased)
    lists = [
        {"input_ids": ids} for ids in examples.input_ids.slice(0, min(1024, len(examples))).tolist()
    ]
    batches = [lists[i : i + _BATCH] for i in range(0, len(lists), _BATCH)]
    padded = sum(max(len(row["input_ids"]) for row in batch) * len(batch) for batch in batches)

    def collator(says: str, **options: Any) -> Peer:
        made = DataCollatorForLanguageModeling(
            tokenizer, mlm_probability=0.15, return_tensors="pt", **options
        )
        return Peer(says, lambda: [made([dict(row) for row in batch]) for batch in batches], padded)

    token = collator("`DataCollatorForLanguageModeling` (torch) on batches of 32, padding counted")
    rows, few = _rows(examples, 2048), _rows(examples, 4)
    size, small = sum(len(row.ids) for row in rows), sum(len(row.ids) for row in few)
    rng, draws = random.Random(0), np.random.default_rng(0)
    grams = [
        tuple(gram) for gram in read_lexicon(shards.folder / "vocab" / "pmi.arrow").tokens.tolist()
    ]
    weights = [draws.uniform(0.5, 1, sum(row.begins)) for row in rows]
    _same(shards, examples, few, grams)
    return {
        "token": token,
        "bert": token,
        "blm": token,
        "joint": token,
        "elm": Peer("a loop over lists", lambda: textbook.elm(rows, 1.0, rng), size),
        "span": Peer("Algorithm 1 as a loop", lambda: textbook.span(rows, 0.15, rng), size),
        "pmi": Peer(
            "Algorithm 2 as a loop, the list tokenised beforehand",
            lambda: textbook.pmi(few, 0.15, grams),
            small,
        ),
        "difference": Peer(
            "`numpy.random.Generator.choice(p=…)` for each row, the weights given",
            lambda: textbook.weighted(weights, 0.15, draws),
            size,
        ),
    }


def _rows(examples: Examples, count: int) -> list[textbook.ListRow]:
    """Return rows as lists, without special tokens."""
    made = []
    for i in range(min(count, len(examples))):
        real = np.flatnonzero(examples.word_ids[i] >= 0)
        words = examples.word_ids[i][real]
        spans = zip(examples.span_starts[i] - real[0], examples.span_ends[i] - real[0], strict=True)
        begins = np.append(True, words[1:] != words[:-1])
        made.append(
            textbook.ListRow(
                examples.input_ids[i][real].tolist(),
                begins.tolist(),
                [(int(a), int(b)) for a, b in spans],
            )
        )
    return made


def _same(
    shards: Shards, examples: Examples, rows: list[textbook.ListRow], grams: list[tuple[int, ...]]
) -> None:
    """See that `pmi`, which draws nothing, hides just what its textbook form does."""
    kinds = shards.strategy("pmi", rate=0.15).plan(examples).kinds
    for i, places in enumerate(textbook.pmi(rows, 0.15, grams)):
        real = np.flatnonzero(examples.word_ids[i] >= 0)
        if set(np.flatnonzero(kinds[i][real]).tolist()) != places:
            raise RuntimeError("pmi: expected the textbook's places; no times were taken")
