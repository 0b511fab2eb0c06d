"""Deal the places of an order to several splits, and change their rows where these meet."""

from __future__ import annotations

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.rng import fold_in

_REPEATED = 0x2E9EA7


@kernel
def deal_places(rows: Array, remainders: Array, out: Array) -> None:
    """Write which split each of the next places belongs to, so that all shares grow evenly.

    The first split takes its share of all places, rounded; the second takes its share of what the
    first has left, rounded; and so on. How often a split stands before a place is so known for any
    place, and here it only grows by one where the rounded share does.

    Args:
        rows: int64 `[S]`, at least 1: places of each split in the whole order.
        remainders: int64 `[S]`, written: `2 * left * rows[s] + rest` modulo `2 * rest`, where
            `left` of the places before are left to split s and those after it, which have `rest`
            places in the whole order.
        out: int64 `[places]`, written: the number of a split for each place.
    """
    whole = 0
    for split in range(len(rows)):
        whole += rows[split]

    for place in range(len(out)):
        rest = whole
        split = 0
        while True:
            remainders[split] += 2 * rows[split]
            if remainders[split] >= 2 * rest:
                remainders[split] -= 2 * rest
                break
            rest -= rows[split]
            split += 1
        out[place] = split


@kernel
def name_repeats(repeats: Array, keys: Array) -> None:
    """Give rows that come again a key of their own, so that their masks are others.

    Args:
        repeats: int64 `[N]`, how often each row's split was begun anew before; 0 keeps its key.
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
    """Give the mentions of some rows other labels, and their tokens the tags of these.

    Args:
        rows: int64 `[R]`, each in `[0, N)`, each once.
        numbers: int16 `[L]`, the new number of each label.
        span_offsets: int64 `[N + 1]`, mentions of each row.
        starts: int32 `[S]`, first token of each mention, counted within its row.
        ends: int32 `[S]`, half open.
        labels: int16 `[S]`, changed.
        offsets: int64 `[N + 1]`, tokens of each row.
        bio: int16 `[T]`, changed.
    """
    for r in range(len(rows)):
        row = rows[r]
        tags = bio[offsets[row] : offsets[row + 1]]
        for span in range(span_offsets[row], span_offsets[row + 1]):
            label = numbers[labels[span]]

            # A label has two tags, so those of a mention move by two for each number.
            more = 2 * (label - labels[span])
            for token in range(starts[span], ends[span]):
                tags[token] += more
            labels[span] = label
