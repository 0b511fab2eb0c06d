"""What rows that users bring lack: words numbered over the row, and a look at the mentions."""

from __future__ import annotations

from mslm_data.kernels._jit import Array, kernel


@kernel
def number_words(offsets: Array, special: Array, out: Array) -> None:
    """Make each token a word of its own.

    Args:
        offsets: int64 `[N + 1]`.
        special: bool `[T]`.
        out: int32 `[T]`, written: the word within the row, -1 on special tokens.
    """
    for i in range(len(offsets) - 1):
        row, numbers = special[offsets[i] : offsets[i + 1]], out[offsets[i] : offsets[i + 1]]
        word = 0
        for t in range(len(row)):
            numbers[t] = -1 if row[t] else word
            word += int(not row[t])


@kernel
def count_on(offsets: Array, words: Array) -> None:
    """Count words on where a row's numbers fall, as those of a pair of texts do at the second.

    They fall too where the first text has one word: a special token stands between it and the second's word 0.

    Args:
        offsets: int64 `[N + 1]`.
        words: int32 `[T]`, -1 on special tokens; changed.
    """
    for i in range(len(offsets) - 1):
        row = words[offsets[i] : offsets[i + 1]]
        last, after, more = -1, 0, 0
        for t in range(len(row)):
            if row[t] >= 0:
                word = row[t]
                if last >= 0 and word < last + int(t > after):
                    more += last + 1
                row[t] += more
                last, after = word, t + 1


@kernel
def find_misplaced(offsets: Array, starts: Array, ends: Array, sizes: Array, out: Array) -> None:
    """Find the first row whose mentions are not within it, rising and apart.

    Args:
        offsets: int64 `[N + 1]` of the mentions.
        starts: int32 `[S]`, tokens of the row.
        ends: int32 `[S]`, half open.
        sizes: int64 `[N]`, tokens of the rows.
        out: int64 `[1]`, written: its number, -1 where there is none.
    """
    out[0] = -1
    for i in range(len(sizes)):
        before = 0
        for s in range(offsets[i], offsets[i + 1]):
            if not before <= starts[s] < ends[s] <= sizes[i]:
                out[0] = i
                return
            before = ends[s]
