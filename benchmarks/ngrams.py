"""N-gram counts of shards against NLTK's finders and a `Counter` of tuples: words per second.

`python -m benchmarks ngrams`
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.folders import sentences
from benchmarks.harness import (
    Contestant,
    Goal,
    Results,
    Row,
    in_turn,
    make_row,
    same,
    unless_absent,
)
from benchmarks.inputs import Inputs
from benchmarks.masking import copy
from mslm_data.data.examples import Examples
from mslm_data.lexicon.ngrams.counting import count_ngrams
from mslm_data.lexicon.ngrams.stream import read_words
from mslm_data.shard.split import Split

_MINIMUM = 5
_WHY = "sorting the pairs of each length takes most of the time"
_WHAT = (
    "2- to 4-grams that occur at least {minimum} times in {words:,} words of shards, reading "
    "them included"
)
_CHECKED = "Checked: as many frequent n-grams of each length as the Counter finds."

Word = tuple[int, ...]
"""Ids of a word's sub-words."""


def run(inputs: Inputs, scratch: Path) -> Results:
    """Time 2- to 4-grams that occur at least five times."""
    train = sentences(inputs, scratch, copies=1)["train"]
    rows = [words for chunk in train.chunks() for words in _words(chunk)]
    same("frequent n-grams", _count_ours(train.chunks()), _count_plainly(rows))

    return Results(
        rows=[
            *unless_absent("count n-grams", lambda: [_beside_finders(train, rows)]),
            _beside_counter(train, rows),
        ]
    )


def _beside_finders(train: Split, rows: list[list[Word]]) -> Row:
    """Compare with NLTK's collocation finders.

    Raises:
        ImportError: NLTK is not installed.
    """
    from nltk.collocations import (
        BigramCollocationFinder,
        QuadgramCollocationFinder,
        TrigramCollocationFinder,
    )

    flat = [word for row in rows for word in row]

    def finders(_: None) -> list[object]:
        return [
            BigramCollocationFinder.from_words(flat),
            TrigramCollocationFinder.from_words(flat),
            QuadgramCollocationFinder.from_words(flat),
        ]

    def reading(_: None) -> list[object]:
        return [copy(chunk) for chunk in train.chunks()]

    count = len(flat)
    rates = _rates(
        train,
        count,
        {
            "peer": Contestant(call=finders, work=count),
            "limit": Contestant(call=reading, work=count, repeat=20),
        },
    )
    return make_row(
        "count n-grams",
        rates,
        unit="words",
        what=f"{_WHAT.format(minimum=_MINIMUM, words=count)}; the peer is NLTK's three finders on "
        "the words in one list (`from_words`); the limit is reading: `ndarray.copy` of each "
        f"chunk's ids, word numbers and tags. {_CHECKED}",
        goal=Goal(peer=80, why=_WHY),
    )


def _beside_counter(train: Split, rows: list[list[Word]]) -> Row:
    """Compare with a plain loop over a `Counter`."""
    count = sum(map(len, rows))
    peer = Contestant(call=lambda _: _count_plainly(rows), work=count)
    rates = _rates(train, count, {"peer": peer})

    return make_row(
        "count n-grams, plain loop",
        rates,
        unit="words",
        what=f"{_WHAT.format(minimum=_MINIMUM, words=count)}; the peer is a `collections.Counter` "
        f"of tuples for each length. {_CHECKED}",
    )


def _rates(train: Split, words: int, peers: Mapping[str, Contestant]) -> dict[str, list[float]]:
    ours = Contestant(call=lambda _: _count_ours(train.chunks()), work=words, repeat=3)
    return in_turn({"ours": ours, **peers}, rounds=3)


def _count_ours(chunks: Iterable[Examples]) -> list[int]:
    """Return the number of frequent n-grams for n = 2, 3 and 4."""
    ngrams = count_ngrams(read_words(chunks), [_MINIMUM] * 3)
    return [int((ngrams_n.counts >= _MINIMUM).sum()) for ngrams_n in ngrams[1:]]


def _count_plainly(rows: Sequence[Sequence[Word]]) -> list[int]:
    """Return the number of frequent n-grams for n = 2, 3 and 4, by a `Counter` of tuples."""
    frequent = []
    for n in (2, 3, 4):
        counts: Counter[tuple[Word, ...]] = Counter()
        for row in rows:
            counts.update(zip(*(row[i:] for i in range(n)), strict=False))
        frequent.append(sum(count >= _MINIMUM for count in counts.values()))
    return frequent


def _words(examples: Examples) -> list[list[Word]]:
    """Return the words of each row, as tuples of sub-words."""
    rows: list[list[Word]] = []
    for i in range(len(examples)):
        real = np.flatnonzero(examples.word_ids[i] >= 0)
        if not len(real):
            rows.append([])
            continue

        ids = examples.input_ids[i][real]
        words = examples.word_ids[i][real]
        cuts = np.flatnonzero(words[1:] != words[:-1]) + 1
        rows.append([tuple(word.tolist()) for word in np.split(ids, cuts)])
    return rows
