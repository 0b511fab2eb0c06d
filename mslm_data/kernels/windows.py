"""Cut long sentences into windows, and join short sentences into rows."""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel


@kernel
def cut_windows(offsets: Array, cost: Array, limit: int, cuts: Array, counts: Array) -> None:
    """Cut each sentence into windows of at most `limit` tokens.

    A sentence is cut at the place of minimum cost within the limit; of equal costs, at the last.

    Args:
        offsets: int64 `[N + 1]` of the sentences.
        cost: uint8 `[T]`, cost of a cut before each token.
        limit: Maximum number of tokens of a window, at least 1.
        cuts: int64 `[T]`, written from the left: first token of each window.
        counts: int64 `[N]`, written: number of windows of each sentence, 0 without tokens.
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
                # From the right, so that the last of equal costs is kept.
                lowest = np.uint8(255)
                for t in range(best, begin, -1):
                    if cost[t] < lowest:
                        lowest = cost[t]
                        best = t
            begin = best
        counts[i] = w - first


@kernel
def join_windows(lengths: Array, documents: Array, whole: Array, limit: int, firsts: Array) -> int:
    """Join consecutive sentences of a document into rows, and return the number of rows.

    Windows of a sentence that was cut are not joined.

    Args:
        lengths: int64 `[W]`, number of tokens of each window, at most `limit`.
        documents: int64 `[W]`, document of each window.
        whole: bool `[W]`, whether a window is a whole sentence.
        limit: Maximum number of tokens of a row.
        firsts: int64 `[W]`, written from the left: first window of each row.
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
