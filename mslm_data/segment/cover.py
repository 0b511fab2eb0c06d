"""Builds sentences from their starts: the law that all segmenters keep."""

from __future__ import annotations

import numpy as np

from mslm_data.data.documents import Documents, Ranges
from mslm_data.data.ragged import Ragged, make_offsets
from mslm_data.kernels.cover import cover_documents


def cover(documents: Documents, begins: Ragged) -> Ranges:
    """Return sentences that cover all characters but white space, and cut no mention or word.

    Text between two sentences joins the first of them; text before all sentences joins the very
    first. Where a mention or a given word crosses the beginning of a sentence, that sentence and
    the one before become one.

    Args:
        documents: D documents; their mentions are rising and do not overlap.
        begins: int64, D rows: places on the line at which the sentences of each document begin,
            rising. A document without any is one sentence.
    """
    all_have_words = bool(documents.has_words.all())
    chars = np.empty(0, np.uint32) if all_have_words else documents.codes()
    sentences = np.empty((len(begins.values) + len(documents), 2), np.int64)
    counts = np.empty(len(documents), np.int64)

    cover_documents(
        chars,
        np.stack([documents.starts, documents.ends], axis=1),
        begins.offsets,
        begins.values,
        np.stack([documents.mentions.starts, documents.mentions.ends], axis=1),
        documents.has_words,
        np.stack([documents.words.starts, documents.words.ends], axis=1),
        sentences,
        counts,
    )
    offsets = make_offsets(counts)
    return Ranges(offsets, sentences[: offsets[-1], 0], sentences[: offsets[-1], 1])


def on_line(documents: Documents, starts: list[list[int]]) -> Ragged:
    """Convert sentence starts to positions on the line.

    Args:
        documents: D documents.
        starts: Characters of each document at which its sentences begin, rising.
    """
    by_document = Ragged.from_rows(starts, np.int64)
    shifts = np.repeat(documents.starts, by_document.lengths)
    return Ragged(by_document.values + shifts, by_document.offsets)
