"""Makes sentences from their starts. All segmenters use this, so that none cuts a mention."""

from __future__ import annotations

import numpy as np

from mslm_data.data.documents import Documents, Ranges
from mslm_data.data.ragged import Ragged, make_offsets
from mslm_data.kernels.cover import cover_documents


def cover(documents: Documents, begins: Ragged) -> Ranges:
    """Return sentences that cover all characters except white space, and cut no mention or word.

    A sentence extends to the next start, the first one back to the start of the document. A start
    inside a mention or a word of the source is ignored.

    Args:
        documents: D documents with sorted, non-overlapping mentions.
        begins: int64, D rows, sorted first characters of sentences on the line. A document without
            starts is one sentence.
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
        starts: Sorted first characters of the sentences of each document, in characters of the
            document.
    """
    by_document = Ragged.from_rows(starts, np.int64)
    shifts = np.repeat(documents.starts, by_document.lengths)
    return Ragged(by_document.values + shifts, by_document.offsets)
