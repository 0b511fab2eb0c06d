"""Counting the n-grams of shards, beside a Counter of tuples and NLTK's finders."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from nltk.collocations import (
    BigramCollocationFinder,
    QuadgramCollocationFinder,
    TrigramCollocationFinder,
)

from benchmarks.folders import sentences
from benchmarks.harness import Contestant, Goal, Results, in_turn, row_of, same
from benchmarks.inputs import Inputs
from benchmarks.masking import copy
from mslm_data.data.examples import Examples
from mslm_data.lexicon.ngrams.counting import count_ngrams
from mslm_data.lexicon.ngrams.stream import read_words

_COPIES = 1
_LEAST = 5
_WHY = "numbering words by their pieces is a third of the time, and the rest is some passes over all words"
_FINDERS = (BigramCollocationFinder, TrigramCollocationFinder, QuadgramCollocationFinder)


def run(inputs: Inputs, scratch: Path) -> Results:
    """Time 2- to 4-grams that occur five times at least."""
    train = sentences(inputs, scratch, copies=_COPIES)["train"]
    rows = [words for chunk in train.chunks() for words in _words(chunk)]
    flat = [word for row in rows for word in row]
    same("frequent n-grams", _ours(train.chunks()), _counter(rows))

    def finders(_: None) -> list[object]:
        return [finder.from_words(flat) for finder in _FINDERS]

    rates = in_turn(
        {
            "ours": Contestant(call=lambda _: _ours(train.chunks()), work=len(flat), repeat=3),
            "counter": Contestant(call=lambda _: _counter(rows), work=len(flat)),
            "peer": Contestant(call=finders, work=len(flat)),
            "limit": Contestant(
                call=lambda _: [copy(chunk) for chunk in train.chunks()], work=len(flat), repeat=20
            ),
        },
        rounds=3,
    )
    what = f"2- to 4-grams that occur {_LEAST} times at least in {len(flat):,} words of shards, reading them included"
    checked = "Checked: as many frequent n-grams of each length as the Counter finds."
    return Results(
        rows=[
            row_of(
                "count n-grams",
                {name: rates[name] for name in ("ours", "peer", "limit")},
                unit="words",
                what=f"{what}; the peer is NLTK's three finders on the words in one list (`from_words`); the limit is "
                f"reading: `ndarray.copy` of each chunk's ids, word numbers and tags. {checked}",
                goal=Goal(peer=300, why=_WHY),
            ),
            row_of(
                "count n-grams, plain loop",
                {"ours": rates["ours"], "peer": rates["counter"]},
                unit="words",
                what=f"{what}; the peer is a `collections.Counter` of tuples for each length. {checked}",
            ),
        ]
    )


def _ours(chunks: object) -> list[int]:
    grams = count_ngrams(read_words(chunks), [_LEAST] * 3)  # type: ignore[arg-type]
    return [int((of_length.counts >= _LEAST).sum()) for of_length in grams[1:]]


def _counter(rows: list[list[tuple[int, ...]]]) -> list[int]:
    found = []
    for n in (2, 3, 4):
        counts: Counter[tuple[tuple[int, ...], ...]] = Counter()
        for row in rows:
            counts.update(zip(*(row[i:] for i in range(n)), strict=False))
        found.append(sum(count >= _LEAST for count in counts.values()))
    return found


def _words(examples: Examples) -> list[list[tuple[int, ...]]]:
    """Return the words of each row, as tuples of sub-words."""
    rows = []
    for i in range(len(examples)):
        real = np.flatnonzero(examples.word_ids[i] >= 0)
        ids, words = examples.input_ids[i][real], examples.word_ids[i][real]
        cuts = np.flatnonzero(words[1:] != words[:-1]) + 1
        rows.append([tuple(word.tolist()) for word in np.split(ids, cuts)] if len(ids) else [])
    return rows
