"""Mix several splits: deal the positions of an epoch to them, and adapt their rows."""

from __future__ import annotations

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.rng import fold_in

_REPEATED = 0x2E9EA7


@kernel
def deal_places(rows: Array, remainders: Array, out: Array) -> None:
    """Deal consecutive positions to splits, so that all shares grow evenly.

    The first split takes its share of all positions, rounded. The second takes its share of the
    remaining positions, rounded, and so on. Of the first `places_left` positions that earlier
    splits left, split s takes

        count[s] = floor((2 * places_left * rows[s] + rows_left) / (2 * rows_left))

    with `rows_left` the rows of split s and all later splits. So counts can be computed for any
    position. This kernel only updates the remainders of these divisions.

    Args:
        rows: int64 `[S]`, number of rows of each split in an epoch, at least 1.
        remainders: int64 `[S]`, changed: the remainder of each split's division for the first
            position.
        out: int64 `[positions]`, written: the split of each position.
    """
    total = 0
    for split in range(len(rows)):
        total += rows[split]

    for place in range(len(out)):
        rows_left = total
        split = 0
        while True:
            # One more position is left to this split. It takes the position if its count grows,
            # that is, if the remainder overflows. Otherwise the position is left to the next split.
            # The last split always takes it, since its `rows[s]` equals `rows_left`.
            remainders[split] += 2 * rows[split]
            if remainders[split] >= 2 * rows_left:
                remainders[split] -= 2 * rows_left
                break
            rows_left -= rows[split]
            split += 1
        out[place] = split


@kernel
def name_repeats(repeats: Array, keys: Array) -> None:
    """Change the keys of repeated rows, so that they get other masks.

    Args:
        repeats: int64 `[N]`, round of each row within the epoch. In round 0 a row keeps its key.
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
