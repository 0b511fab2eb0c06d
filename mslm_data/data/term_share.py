"""Term share: the share of a document's tokens that are in mentions, without special tokens.

Training text can be chosen by it, as by the density of medical terms in arXiv 2606.22079, where it
is estimated from the characters of known strings.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from mslm_data.data.examples import Examples
from mslm_data.kernels.tokens import count_numbered


def term_shares(
    chunks: Iterable[Examples], documents: npt.NDArray[np.int64], *, label: int | None = None
) -> npt.NDArray[np.float64]:
    """Return the term share of each document, float64 `[D]` in `[0, 1]`; 0 without tokens.

    Args:
        chunks: N rows, in one or more chunks.
        documents: int64 `[N]`, the document of each row, in `[0, D)`, each with a row.
        label: Index of the label whose mentions count. Default: all mentions count.
    """
    size = int(documents.max(initial=-1)) + 1
    in_mentions = np.zeros(size, np.float64)
    in_all = np.zeros(size, np.float64)
    start = 0
    for rows in chunks:
        tokens = np.empty(len(rows), np.int64)
        count_numbered(rows.word_ids.offsets, rows.word_ids.values, tokens)
        lengths = rows.span_ends.values - rows.span_starts.values
        if label is not None:
            lengths = lengths * (rows.span_labels.values == label)

        chunk = documents[start : start + len(rows)]
        in_all += np.bincount(chunk, tokens, minlength=size)
        of_mentions = np.repeat(chunk, rows.span_starts.lengths)
        in_mentions += np.bincount(of_mentions, lengths, minlength=size)
        start += len(rows)
    return in_mentions / np.maximum(in_all, 1)
