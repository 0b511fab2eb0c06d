"""Finding entities on the card: `annotate` beside `pipeline("token-classification")`.

Both have the same model, whose weights are random, with a bias by which about a tenth of the words
is in entities (benchmarks/entities.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks import entities
from benchmarks.gpu.data import VOCAB, note_lengths, sentence_lengths, sentences_of
from benchmarks.gpu.part import Numbers, Part
from benchmarks.gpu.scale import Scale

OURS, BATCHES = "annotate", "pipeline, batches of 32"
_PIPELINES: Mapping[str, Mapping[str, int]] = {
    BATCHES: {"batch_size": 32},
    "pipeline, one by one": {},
}
_STRIDE = 128

Found = list[list[entities.Place]]
"""The entities of each text."""


def part(scale: Scale, folder: Path) -> Part:
    """Annotate sentences, and notes of several windows."""
    sentences, notes = scale.texts
    texts = {
        "sentences": _texts(sentence_lengths(sentences)),
        "notes": _texts(note_lengths(notes)),
    }
    shape = {
        name: size
        for name, size in scale.encoders["BERT-base"].items()
        if name.startswith(("hidden", "num", "intermediate"))
    }
    tagger, pipeline = entities.contestants(
        VOCAB, folder / "tagger", texts["sentences"], device=scale.device, **shape
    )
    runs: dict[str, Callable[[], Numbers]] = {}
    for corpus, of_corpus in texts.items():
        # The first way of a corpus is what the others are compared with.
        found: dict[str, Any] = {}
        ways: dict[str, Callable[[], Found]] = {OURS: partial(entities.ours, tagger, of_corpus)}
        windows = {"stride": _STRIDE} if corpus == "notes" else {}
        for name, options in _PIPELINES.items():
            ways[name] = partial(entities.theirs, pipeline, of_corpus, **options, **windows)
        for name, way in ways.items():
            runs[f"{corpus}: {name}"] = partial(_measured, pipeline, of_corpus, found, way)
    return Part(
        title="Entities",
        about=[
            f"{sentences:,} sentences and {notes:,} notes; BERT-base's shape, float32",
            f"notes are read in windows, by the pipeline with a stride of {_STRIDE}: near their "
            "seams each sees other words",
            "entities that are also found by the first row of the corpus, place by place",
        ],
        runs=runs,
        goals={"equal entities of sentences, and more tokens a second": _better},
    )


def _better(rows: Mapping[str, Numbers]) -> tuple[str, bool]:
    ours = rows[f"sentences: {OURS}"]
    theirs = rows[f"sentences: {BATCHES}"]
    times = ours["tokens/s"] / theirs["tokens/s"]
    equal = theirs["entities"] == theirs["the same"] == ours["entities"]
    return f"{times:.2f}x, {'equal' if equal else 'not equal'}", equal and times > 1


def _texts(lengths: Sequence[int]) -> list[str]:
    return [" ".join(word for word, _ in sentence) for sentence in sentences_of(list(lengths))]


def _measured(
    pipeline: Any,
    texts: Sequence[str],
    found: dict[str, Any],
    find: Callable[[], Found],
) -> Numbers:
    """Time a call after one that is not timed, and compare with the first way of these texts."""
    find()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    begun = time.perf_counter()
    places = find()
    seconds = time.perf_counter() - begun

    first = found.setdefault("places", places)
    shared = sum(len(set(a) & set(b)) for a, b in zip(first, places, strict=True))
    tokens = sum(len(ids) for ids in pipeline.tokenizer(list(texts))["input_ids"])
    return {
        "tokens/s": tokens / seconds,
        "entities": sum(map(len, places)),
        "the same": shared,
    }
