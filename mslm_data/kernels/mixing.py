"""Adapt rows of several splits to a mix: keys of repeated rows, and label numbers."""

from __future__ import annotations

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.rng import fold_in

_REPEATED = 0x2E9EA7


@kernel
def name_repeats(repeats: Array, keys: Array) -> None:
    """Change the keys of repeated rows, so that they get other masks.

    Args:
        repeats: uint32 `[N]`, round of each row within the epoch. In round 0 a row keeps its key.
        keys: uint64 `[N]`, changed.
    """
    for i in range(len(keys)):
        if repeats[i] > 0:
            keys[i] = fold_in(fold_in(keys[i], _REPEATED), repeats[i])


@kernel
def renumber_labels(
    rows: Array,
    numbers: Array,
    span_offsets: Array,
    starts: Array,
    ends: Array,
    labels: Array,
    offsets: Array,
    bio: Array,
) -> None:
    """Renumber the labels of mentions, and the BIO tags of their tokens.

    Args:
        rows: int64 `[R]`, distinct row numbers in `[0, N)`.
        numbers: int16 `[L]`, new number of each label.
        span_offsets: int64 `[N + 1]` of the mentions.
        starts: int32 `[S]`, first token of each mention, within its row.
        ends: int32 `[S]`, half open.
        labels: int16 `[S]`, label numbers, changed.
        offsets: int64 `[N + 1]` of the tokens.
        bio: int16 `[T]`, BIO tags, changed.
    """
    for r in range(len(rows)):
        row = rows[r]
        tags = bio[offsets[row] : offsets[row + 1]]
        for span in range(span_offsets[row], span_offsets[row + 1]):
            label = numbers[labels[span]]

            # Label l has the tags 1 + 2 l (B) and 2 + 2 l (I).
            shift = 2 * (label - labels[span])
            for token in range(starts[span], ends[span]):
                tags[token] += shift
            labels[span] = label
