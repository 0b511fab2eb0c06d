"""Check the words and mentions of user rows."""

from __future__ import annotations

from mslm_data.kernels._jit import Array, kernel


@kernel
def continue_words(offsets: Array, words: Array) -> None:
    """Renumber words over a whole row of two texts, whose numbers begin at 0 in each text.

    The second text begins where the numbers decrease. If the first text has only one word, they do
    not decrease, but a special token separates word 0 of the first text from word 0 of the second.

    Args:
        offsets: int64 `[N + 1]`.
        words: int32 `[T]`, word numbers, -1 on special tokens; changed.
    """
    for i in range(len(offsets) - 1):
        row = words[offsets[i] : offsets[i + 1]]
        last = -1  # original number of the last word
        past = 0  # token after the last word
        shift = 0  # number to add
        for t in range(len(row)):
            if row[t] < 0:
                continue
            word = row[t]

            # After a special token, that is if `t > past`, an equal number is a new word too.
            if last >= 0 and word < last + int(t > past):
                shift += last + 1
            row[t] += shift
            last = word
            past = t + 1


@kernel
def find_misplaced(offsets: Array, starts: Array, ends: Array, sizes: Array) -> int:
    """Return the first row with an invalid mention, or -1.

    Mentions must be sorted, must not overlap or be empty, and must be within the row.

    Args:
        offsets: int64 `[N + 1]` of the mentions.
        starts: int32 `[S]`, first token of each mention, within its row.
        ends: int32 `[S]`, half open.
        sizes: int64 `[N]`, number of tokens of each row.
    """
    for i in range(len(sizes)):
        before = 0
        for s in range(offsets[i], offsets[i + 1]):
            if not before <= starts[s] < ends[s] <= sizes[i]:
                return i
            before = ends[s]
    return -1
