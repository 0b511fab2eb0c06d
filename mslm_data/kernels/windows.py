"""Cut sentences that are too long into windows, and join short ones into rows."""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel


@kernel
def cut_windows(offsets: Array, cost: Array, limit: int, cuts: Array, counts: Array) -> None:
    """Cut each sentence into windows of at most `limit` tokens.

    A window ends with the sentence if that is within reach. Otherwise it ends at the cheapest place
    within reach; of equally cheap places at the last.

    Args:
        offsets: int64 `[N + 1]`, tokens of N sentences.
        cost: uint8 `[T]`, what it costs to begin a window at a token.
        limit: Tokens, at least 1.
        cuts: int64 `[T]`, written: first token of each window, sentence after sentence.
        counts: int64 `[N]`, written: windows of each sentence; 0 for a sentence without tokens.
    """
    w = 0
    for i in range(len(counts)):
        first = w
        begin = offsets[i]
        end = offsets[i + 1]
        while begin < end:
            cuts[w] = begin
            w += 1

            best = min(begin + limit, end)
            if best < end:
                # From the right, so that the last of equally cheap places is kept.
                lowest = np.uint8(255)
                for t in range(best, begin, -1):
                    if cost[t] < lowest:
                        lowest = cost[t]
                        best = t
            begin = best
        counts[i] = w - first


@kernel
def join_windows(lengths: Array, documents: Array, whole: Array, limit: int, firsts: Array) -> int:
    """Put consecutive sentences of a document together into rows, and return the number of rows.

    A row takes the next sentence as long as both have at most `limit` tokens together. A window of
    a sentence that was cut is a row by itself.

    Args:
        lengths: int64 `[W]`, tokens of each window, at most `limit`.
        documents: int64 `[W]`, its document.
        whole: bool `[W]`, whether it is a whole sentence.
        limit: Tokens of a row.
        firsts: int64 `[W]`, written: the first window of each row.
    """
    rows = 0
    room = 0
    for w in range(len(lengths)):
        follows = w > 0 and whole[w] and whole[w - 1] and documents[w] == documents[w - 1]
        if not follows or lengths[w] > room:
            firsts[rows] = w
            rows += 1
            room = limit
        room -= lengths[w]
    return rows
