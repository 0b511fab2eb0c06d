"""Corpora of the GPU benchmarks: words of the shipped sample in rows of realistic length."""

from __future__ import annotations

import itertools
import time
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import folders
from benchmarks.gpu.part import Numbers, Part
from benchmarks.gpu.scale import Scale
from benchmarks.inputs import ROOT, Inputs, Sentence, read
from mslm_data.api.loading import Shards, load

VOCAB = ROOT / "vocab" / "sample" / "vocab.txt"
_CORPUS = ROOT / "vocab" / "sample" / "bc2gm" / "train.tsv"
_SPECIAL_TOKENS = 2

_SHARES = (0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1)
_SENTENCE_TOKENS = (4, 6, 13, 18, 24, 28, 33, 37, 42, 48, 55, 66, 78, 111, 244)
"""Quantiles, at `_SHARES`, of sentence lengths in BC2GM train, in tokens of BERT cased."""
_NOTE_TOKENS, _NOTE_SPREAD = 700, 1.0
"""Median length of notes, and standard deviation of its logarithm: a tenth has 2,500 tokens or
more. These are assumptions, not measured on a corpus."""


def part(scale: Scale, folder: Path) -> Part:
    """Return the part that builds the folders of other parts."""
    sentences = sentence_lengths(scale.sentences)
    notes = note_lengths(scale.notes)
    return Part(
        title="Data",
        about=[
            "words of the shipped sample, each one token",
            "sentences as long as BC2GM's; notes of 700 tokens at the median, a tenth of 2,500 or "
            "more, cut into rows",
        ],
        runs={
            "sentences": partial(_build, "sentences", sentences, folder, max(sentences)),
            **{
                f"notes in rows of {max_tokens}": partial(
                    _build, f"notes-{max_tokens}", notes, folder, max_tokens
                )
                for max_tokens in sorted(set(scale.note_rows.values()))
            },
        },
    )


def open_built(folder: Path, name: str) -> Shards:
    """Load a built folder, "sentences" or "notes-MAX_TOKENS"."""
    return load(folder / f"{name}.built")


def sentence_lengths(count: int) -> list[int]:
    """Draw sentence lengths in tokens from the distribution of BC2GM train."""
    shares = np.random.default_rng(0).random(count)
    return [int(length) for length in np.interp(shares, _SHARES, _SENTENCE_TOKENS)]


def note_lengths(count: int) -> list[int]:
    """Draw note lengths in tokens from a log-normal distribution."""
    rng = np.random.default_rng(1)
    lengths = rng.lognormal(np.log(_NOTE_TOKENS), _NOTE_SPREAD, count)
    return [int(length) for length in lengths.clip(20, 20_000)]


def make_sentences(lengths: list[int]) -> list[Sentence]:
    """Make sentences of single-token words, whose rows have the given lengths in tokens."""
    known = set(VOCAB.read_text(encoding="utf-8").split("\n"))
    corpus = [word for sentence in read(_CORPUS) for word in sentence if word[0] in known]
    words = itertools.cycle(corpus)
    sentences = []
    for length in lengths:
        sentence = list(itertools.islice(words, max(1, length - _SPECIAL_TOKENS)))
        first, tag = sentence[0]
        sentences.append([(first, tag.replace("I-", "B-")), *sentence[1:]])
    return sentences


def _build(name: str, lengths: list[int], folder: Path, max_tokens: int) -> Numbers:
    begun = time.perf_counter()
    shards = folders.build_sentences(
        name,
        make_sentences(lengths),
        Inputs(_CORPUS, VOCAB, "sample"),
        folder,
        copies=1,
        max_tokens=max_tokens,
    )
    split = shards["train"]
    return {
        "rows": len(split),
        "tokens": split.tokens,
        "tokens a row": split.tokens / len(split),
        "seconds": time.perf_counter() - begun,
    }
