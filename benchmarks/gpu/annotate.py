"""`Tagger.annotate` against `pipeline("token-classification")` on a GPU: tokens per second.

Both run the same model with random weights; see benchmarks/entities.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks import entities
from benchmarks.gpu.data import VOCAB, make_sentences, note_lengths, sentence_lengths
from benchmarks.gpu.part import Numbers, Part
from benchmarks.gpu.scale import Scale

OURS, BATCHES = "annotate", "pipeline, batches of 32"
_PIPELINES: Mapping[str, Mapping[str, int]] = {
    BATCHES: {"batch_size": 32},
    "pipeline, one by one": {},
}
_STRIDE = 128

Found = list[list[entities.Place]]
"""Entities of each text."""


def part(scale: Scale, folder: Path) -> Part:
    """Return the part that annotates sentences, and notes of several windows."""
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
    for corpus, corpus_texts in texts.items():
        # Holds the entities of the corpus' first method, to which the others are compared.
        shared_state: dict[str, Any] = {}
        methods: dict[str, Callable[[], Found]] = {
            OURS: partial(entities.ours, tagger, corpus_texts)
        }
        windows = {"stride": _STRIDE} if corpus == "notes" else {}
        for name, options in _PIPELINES.items():
            methods[name] = partial(entities.theirs, pipeline, corpus_texts, **options, **windows)
        for name, method in methods.items():
            runs[f"{corpus}: {name}"] = partial(
                _measured, pipeline, corpus_texts, shared_state, method
            )
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
    return [" ".join(word for word, _ in sentence) for sentence in make_sentences(list(lengths))]


def _measured(
    pipeline: Any,
    texts: Sequence[str],
    shared_state: dict[str, Any],
    find: Callable[[], Found],
) -> Numbers:
    """Time the second call of `find`, and compare entities with the first method's.

    Args:
        pipeline: Provides the tokenizer that counts tokens.
        texts: The texts.
        shared_state: Entities of the first method; set by its call.
        find: Method to time.
    """
    find()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    begun = time.perf_counter()
    places = find()
    seconds = time.perf_counter() - begun

    first = shared_state.setdefault("places", places)
    shared = sum(len(set(a) & set(b)) for a, b in zip(first, places, strict=True))
    tokens = sum(len(ids) for ids in pipeline.tokenizer(list(texts))["input_ids"])
    return {
        "tokens/s": tokens / seconds,
        "entities": sum(map(len, places)),
        "the same": shared,
    }
