"""Lexicons and score columns for the rows of `tests/generate.py`, and their contents for slow
twins.

Numbers are drawn by `tests/reference/rng.py`, so a twin computes them without reading a file.
"""

from __future__ import annotations

import atexit
import itertools
import shutil
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Ragged
from mslm_data.lexicon.score_columns import write_scores
from mslm_data.lexicon.store import Lexicon, write_lexicon
from tests.generate import IDS
from tests.reference import rng

USUAL = range(len(IDS.special), IDS.size)
ABOUT = {"kind": "made for tests", "tokenizer": "0" * 64, "size": IDS.size}


def chance(*names: int) -> float:
    """Return a number in [0, 1) with six decimals, drawn from these numbers."""
    stream = 0
    for name in names:
        stream = rng.fold_in(stream, name)
    return rng.below(stream, 0, 10**6) / 10**6


def word_score(tokens: Sequence[int]) -> float | None:
    """Return the score of a word in `words_lexicon`, sometimes 0; None without an entry."""
    drawn = chance(1, *tokens)
    if len(tokens) > 2 or drawn < 0.1:
        return None
    return 0.0 if drawn < 0.2 else drawn


def token_rate(token: int) -> float | None:
    """Return the rate of a token in `rates_lexicon`; None for `[UNK]` and special tokens."""
    return chance(2, token) if token in USUAL else None


def token_score(key: int, t: int) -> float:
    """Return the score of token t of a row in `column_for`, exact in float32; about a quarter are 0 or less."""
    return float(np.float32(chance(3, key, t) - 0.25))


@cache
def grams() -> list[tuple[int, ...]]:
    """Return the n-grams of `grams_lexicon` in order: a third of all pairs, and a few triples."""
    pairs = [gram for gram in itertools.product(USUAL, repeat=2) if chance(4, *gram) < 0.3]
    triples = [
        (*pair, third) for pair in pairs[::3] for third in USUAL if chance(5, *pair, third) < 0.3
    ]
    return sorted(pairs + triples, key=lambda gram: chance(6, *gram))


@cache
def words_lexicon() -> Path:
    words = [*itertools.product(USUAL), *itertools.product(USUAL, repeat=2)]
    known = [(word, score) for word in words if (score := word_score(word)) is not None]
    return _lexicon("words", [word for word, _ in known], [score for _, score in known])


@cache
def rates_lexicon() -> Path:
    return _lexicon("rates", [(token,) for token in USUAL], [chance(2, token) for token in USUAL])


@cache
def grams_lexicon() -> Path:
    return _lexicon("grams", grams(), [float(-rank) for rank in range(len(grams()))])


@cache
def concepts(stage: int) -> list[tuple[int, ...]]:
    """Return the entries of `concepts_lexicon`: some single tokens, and some n-grams, or all from stage 2 on."""
    alone = [(token,) for token in USUAL if chance(8, token) < 0.2]
    return alone + (grams() if stage > 1 else grams()[:1000])


@cache
def concepts_lexicon(stage: int) -> Path:
    return _lexicon(f"concepts-{stage}", concepts(stage), [0.0] * len(concepts(stage)))


def write_list(path: Path, *entries: Sequence[int | tuple[int, ...]], size: int = IDS.size) -> str:
    """Write a list of n-grams of words, each a single id or a tuple of ids."""
    words = [[(word,) if isinstance(word, int) else word for word in entry] for entry in entries]
    starts = [list(itertools.accumulate(map(len, entry[:-1]), initial=0)) for entry in words]
    lexicon = Lexicon(
        tokens=Ragged.from_rows([list(itertools.chain(*entry)) for entry in words], np.int32),
        word_starts=Ragged.from_rows(starts, np.int32),
        scores=np.zeros(len(words)),
        about={"size": size},
    )
    write_lexicon(path, lexicon)
    return str(path)


def column_for(examples: Examples) -> Path:
    """Write a score column of these rows."""
    folder = _folder() / f"column-{next(_NUMBERS)}"
    scores = [
        [token_score(key, t) for t in range(length)]
        for key, length in zip(
            examples.keys.tolist(), examples.input_ids.lengths.tolist(), strict=True
        )
    ]
    write_scores(
        folder / "train" / "data-00000-of-00001.arrow",
        examples.keys,
        Ragged.from_rows(scores, np.float32),
        ABOUT,
    )
    return folder


_NUMBERS = itertools.count()


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="mslm-artifacts-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _lexicon(
    name: str,
    entries: Sequence[Sequence[int]],
    scores: Sequence[float],
    starts: Sequence[Sequence[int]] = (),
) -> Path:
    path = _folder() / f"{name}.arrow"
    lexicon = Lexicon(
        tokens=Ragged.from_rows(entries, np.int32),
        word_starts=Ragged.from_rows(
            starts or [[0]] * len(entries), np.int32
        ),  # one word an entry: a trie does not look
        scores=np.array(scores, np.float64),
        about=ABOUT,
    )
    write_lexicon(path, lexicon)
    return path
