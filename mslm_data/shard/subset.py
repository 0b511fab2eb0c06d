"""Draws random documents of a split, for few-shot experiments.

Documents are drawn and not rows, which would leave the rest of a document as unseen text. Their
order is that of the seed, so that smaller subsets are within larger ones.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mslm_data.data.documents import hash_ids
from mslm_data.kernels.rng import name_streams
from mslm_data.shard.row_numbers import RowNumbers, is_integer, is_number

if TYPE_CHECKING:
    from mslm_data.shard.split import Split

_ORDER = 0x5B5E7
"""Name of the random stream for the order of documents."""


def draw_subset(
    split: Split,
    *,
    documents: int | None = None,
    share: float | None = None,
    shots: int | None = None,
    seed: int = 0,
) -> RowNumbers:
    """Choose documents of a split at random, and return the numbers of their rows.

    See `Split.subset`.
    """
    sizes = {"documents": documents, "share": share, "shots": shots}
    options = [name for name, size in sizes.items() if size is not None]
    if len(options) != 1:
        raise TypeError(
            "subset: expected one of documents, share and shots, got "
            f"{' and '.join(options) or 'none'}"
        )
    if not is_integer(seed) or not 0 <= seed < 1 << 63:
        raise ValueError(f"seed: expected an integer in [0, 2**63), got {seed!r}")
    if shots is not None and (not is_integer(shots) or shots < 1):
        raise ValueError(f"shots: expected an integer of at least 1, got {shots!r}")
    if share is not None and not (is_number(share) and 0 < share <= 1):
        raise ValueError(f"share: expected a number in (0, 1], got {share!r}")

    if shots is not None and not split.mentions:
        raise ValueError(
            f"shots: expected mentions in split '{split.name}', got none; choose documents or a "
            "share"
        )

    ids, document_of_row = hash_documents(split)
    if not len(ids):
        raise ValueError(f"subset: expected documents in split '{split.name}', got none")
    if documents is not None and (not is_integer(documents) or not 1 <= documents <= len(ids)):
        raise ValueError(
            f"documents: expected an integer from 1 to {len(ids)}, the number of documents in "
            f"split '{split.name}', got {documents!r}"
        )

    # Choose documents by their rank in the random order, then take all of their rows.
    ranks = _drawn_ranks(ids, seed)
    mentions = _count_mentions(split, document_of_row, len(ids))
    if shots is not None:
        chosen = _take_shots(ranks, mentions, shots)
    else:
        # 0.07 of 100 documents are 7, and 2 / 3 of 3 are 2, where floats may give a little more.
        exact = round((share or 0) * len(ids), 6)
        size = documents if documents is not None else max(1, math.ceil(exact))
        chosen = _take_first(ranks, mentions, size)
    is_chosen = np.zeros(len(ids), np.bool_)
    is_chosen[chosen] = True
    return np.flatnonzero(is_chosen[document_of_row])


def begins_document(batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Return whether each row begins a document, bool `[N]`. Its rows are contiguous.

    Args:
        batch: N rows of a shard.
    """
    ids = batch.column("doc_id")
    begins = np.ones(len(ids), np.bool_)
    begins[1:] = pc.not_equal(ids[1:], ids[:-1]).to_numpy(zero_copy_only=False)
    return begins


def hash_documents(split: Split) -> tuple[npt.NDArray[np.uint64], RowNumbers]:
    """Return hashes of the document ids, uint64 `[D]`, and the document of each row, `[N]`."""
    hashes = [np.empty(0, np.uint64)]
    for batch in split.batches(["doc_id"]):
        # Hash the id of the first row of a document only.
        begins = begins_document(batch)
        firsts = np.flatnonzero(begins)
        run_hashes = hash_ids(batch.column("doc_id").take(pa.array(firsts)).to_pylist())
        hashes.append(run_hashes[np.cumsum(begins) - 1])

    document_hashes, document_of_row = np.unique(np.concatenate(hashes), return_inverse=True)
    return document_hashes, document_of_row.astype(np.int64, copy=False)


def _drawn_ranks(ids: npt.NDArray[np.uint64], seed: int) -> RowNumbers:
    """Return the rank of each document in the random order, int64 `[D]`."""
    # A random number depends on the document id and the seed only, so adding documents to a corpus
    # does not change the relative order of the others.
    draws = np.empty(len(ids), np.uint64)
    name_streams(ids, seed, 0, _ORDER, draws)
    ranks = np.empty(len(ids), np.int64)
    ranks[np.argsort(draws, kind="stable")] = np.arange(len(ids))
    return ranks


def _count_mentions(split: Split, document_of_row: RowNumbers, documents: int) -> RowNumbers:
    """Return the number of mentions of each label in each document, int64 `[D, L]`."""
    counts = np.zeros((documents, len(split.labels)), np.int64)
    start = 0
    for examples in split.chunks():
        labels = examples.span_labels
        rows = document_of_row[start : start + len(examples)]
        np.add.at(counts, (np.repeat(rows, labels.lengths), labels.values), 1)
        start += len(examples)
    return counts


def _take_first(ranks: RowNumbers, mentions: RowNumbers, size: int) -> RowNumbers:
    """Return the first documents in the random order, int64 `[size]`.

    The first document with each label moves to the front, so that a subset with at least as many
    documents as labels has every label. The order does not depend on the size, so subsets are
    nested.

    Args:
        ranks: int64 `[D]`, rank of each document.
        mentions: int64 `[D, L]`, number of mentions of each label.
        size: Number of documents.
    """
    order = np.argsort(ranks)
    has_label = (mentions > 0)[order]
    first = np.unique(has_label.argmax(axis=0)[has_label.any(axis=0)])
    return np.concatenate([order[first], np.delete(order, first)])[:size]


def _take_shots(ranks: RowNumbers, mentions: RowNumbers, shots: int) -> RowNumbers:
    """Return documents with at least `shots` mentions of each label, int64 `[K]`.

    For each label, documents with this label are chosen in the random order until they have enough
    mentions. The result is the union over labels, so fewer shots are nested in more.

    Args:
        ranks: int64 `[D]`, rank of each document.
        mentions: int64 `[D, L]`, number of mentions of each label.
        shots: Minimum number of mentions per label.
    """
    order = np.argsort(ranks)
    ordered = mentions[order]
    before = np.cumsum(ordered, axis=0) - ordered
    return order[((ordered > 0) & (before < shots)).any(axis=1)]
