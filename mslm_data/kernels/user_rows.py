"""Complete and check rows that users bring: number their words, look at their mentions."""

from __future__ import annotations

from mslm_data.kernels._jit import Array, kernel


@kernel
def number_tokens(offsets: Array, special: Array, out: Array) -> None:
    """Make each token a word of its own.

    Args:
        offsets: int64 `[N + 1]`.
        special: bool `[T]`.
        out: int32 `[T]`, written: the word within the row, -1 on special tokens.
    """
    for i in range(len(offsets) - 1):
        start, stop = offsets[i], offsets[i + 1]
        row = special[start:stop]
        numbers = out[start:stop]
        word = 0
        for t in range(len(row)):
            numbers[t] = -1 if row[t] else word
            word += int(not row[t])


@kernel
def continue_words(offsets: Array, words: Array) -> None:
    """Number words over the whole row, where the numbers begin anew at the second of two texts.

    The second text begins where the numbers fall. Where the first text has one word only, they do
    not fall, but a special token stands between its word 0 and word 0 of the second text.

    Args:
        offsets: int64 `[N + 1]`.
        words: int32 `[T]`, -1 on special tokens; changed.
    """
    for i in range(len(offsets) - 1):
        row = words[offsets[i] : offsets[i + 1]]
        last = -1  # number of the last word, as it was
        past = 0  # the token after it
        more = 0  # what to add
        for t in range(len(row)):
            if row[t] < 0:
                continue
            word = row[t]

            # Behind a special token, `t > past`, an equal number is another word too.
            if last >= 0 and word < last + int(t > past):
                more += last + 1
            row[t] += more
            last = word
            past = t + 1


@kernel
def find_misplaced(offsets: Array, starts: Array, ends: Array, sizes: Array) -> int:
    """Return the first row whose mentions are not sorted, overlap, are empty, or leave the row.

    The result is -1 where all mentions are in place.

    Args:
        offsets: int64 `[N + 1]` of the mentions.
        starts: int32 `[S]`, tokens of the row.
        ends: int32 `[S]`, half open.
        sizes: int64 `[N]`, tokens of the rows.
    """
    for i in range(len(sizes)):
        before = 0
        for s in range(offsets[i], offsets[i + 1]):
            if not before <= starts[s] < ends[s] <= sizes[i]:
                return i
            before = ends[s]
    return -1
