"""Samplers of spans: where runs of tokens begin, how long they are, and how a row is cut into segments.

Lengths come from tables of chances summed up in whole numbers of 2**-53, so that every machine draws the same.
"""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.draws import below, bits53

END, CLOSED, OPEN, BEGIN = range(4)
"""What a token is to spans: special, so that the text ends there; not to be hidden; may lie in one; may begin one."""


@kernel
def draw_length(stream: np.uint64, k: int, sums: Array) -> int:
    """Return draw k of a stream as a length, 1 or more.

    Args:
        stream: Of the row.
        k: Which draw, 0 or more.
        sums: uint64 `[L]`: the chance, in units of 2**-53, of a length up to 1, up to 2 and so on; the last is 2**53.
    """
    drawn, length = bits53(stream, k), 1
    while drawn >= sums[length - 1]:
        length += 1
    return length


@kernel
def open_spans(
    offsets: Array, words: Array, ids: Array, unk: int, kinds: Array, whole: bool, state: Array
) -> None:
    """Find where spans may begin and lie.

    Args:
        offsets: int64 `[N + 1]`.
        words: int32 `[T]`, -1 on special tokens.
        ids: int32 `[T]`.
        unk: The id that may not be hidden, -1 for none.
        kinds: uint8 `[T]`, not 0 where an earlier stage took the token.
        whole: Whether spans begin at the first token of a word only.
        state: uint8 `[T]`, written: END, CLOSED, OPEN or BEGIN.
    """
    for i in range(len(offsets) - 1):
        row, row_ids = words[offsets[i] : offsets[i + 1]], ids[offsets[i] : offsets[i + 1]]
        row_kinds, out = kinds[offsets[i] : offsets[i + 1]], state[offsets[i] : offsets[i + 1]]
        for t in range(len(row)):
            begins = OPEN if whole and t > 0 and row[t] == row[t - 1] else BEGIN
            out[t] = (
                END if row[t] < 0 else CLOSED if row_ids[t] == unk or row_kinds[t] != 0 else begins
            )


@kernel
def run_from(state: Array, t: int, most: int) -> int:
    """Return how many tokens a span has that begins at t: 0 where it may not, `most`, or fewer at the text's end.

    Args:
        state: uint8, of one row; see `open_spans`.
        t: The first token.
        most: Tokens, 1 or more.
    """
    if state[t] != BEGIN:
        return 0
    size = 1
    while size < most and t + size < len(state) and state[t + size] != END:
        if state[t + size] == CLOSED:
            return 0
        size += 1
    return size


@kernel
def place_spans(
    offsets: Array, state: Array, quota: Array, sums: Array, streams: Array, mark: int, out: Array
) -> None:
    """Take spans that do not overlap, beginning at the tokens of each row in random order, up to a budget of tokens.

    One pass over a Fisher-Yates shuffle of the row, step by step. The places are put back after each row, so that a
    row costs what it takes and not its length.

    Args:
        offsets: int64 `[N + 1]`.
        state: uint8 `[T]`, see `open_spans`; CLOSED afterwards where a span lies.
        quota: int64 `[N]`: tokens; what is left of them afterwards.
        sums: uint64 `[L]`, of lengths in tokens; see `draw_length`.
        streams: uint64 `[2, N]`: step k takes draw k of the first for its place and of the second for its length.
        mark: What to write.
        out: uint8 `[T]`: `mark` where a span lies, elsewhere as it was.
    """
    longest = 1
    for i in range(len(quota)):
        longest = max(longest, offsets[i + 1] - offsets[i])
    places = np.arange(longest).astype(np.int32)
    for i in range(len(quota)):
        row, out_row = state[offsets[i] : offsets[i + 1]], out[offsets[i] : offsets[i + 1]]
        left, k = quota[i], 0
        while left > 0 and k < len(row):
            j = k + below(streams[0, i], k, len(row) - k)
            first, places[j] = places[j], places[k]
            places[k] = first
            if row[first] == BEGIN:
                size = run_from(row, first, min(draw_length(streams[1, i], k, sums), left))
                row[first : first + size] = CLOSED
                out_row[first : first + size] = mark
                left -= size
            k += 1
        quota[i] = left
        for s in range(k):
            if (
                places[s] >= k
            ):  # where a place beyond was swapped away, its own number is among the first k
                places[places[s]] = places[s]
        for s in range(k):
            places[s] = s


@kernel
def grow_spans(
    offsets: Array,
    words: Array,
    mention_offsets: Array,
    starts: Array,
    ends: Array,
    quota: Array,
    sums: Array,
    streams: Array,
    out: Array,
) -> None:
    """Take spans of whole words, which may grow into one another, or mentions, up to a budget of tokens.

    Args:
        offsets: int64 `[N + 1]`.
        words: int32 `[T]`, -1 on special tokens.
        mention_offsets: int64 `[N + 1]`; in rows with mentions a fair coin says at each step whether to take one.
        starts: int32 `[S]`: a mention's first token, counted within its row.
        ends: int32 `[S]`, half open.
        quota: int64 `[N]`: tokens; what the row had not afterwards.
        sums: uint64 `[L]`, of lengths in words; see `draw_length`.
        streams: uint64 `[3, N]`: step k takes draw k of the first for its token or mention, of the second for its
            length, of the third for its coin.
        out: uint8 `[T]`: 1 where a span lies and 2 where a mention does; what was not 0 stays.
    """
    for i in range(len(quota)):
        row, out_row = words[offsets[i] : offsets[i + 1]], out[offsets[i] : offsets[i + 1]]
        first, mentions = mention_offsets[i], mention_offsets[i + 1] - mention_offsets[i]
        free = 0
        for t in range(len(row)):
            free += int((row[t] >= 0) & (out_row[t] == 0))
        left, k = min(quota[i], free), 0
        quota[i] -= left
        while left > 0:
            if mentions > 0 and below(streams[2, i], k, 2) == 0:
                s = first + below(streams[0, i], k, mentions)
                left -= take(out_row, starts[s], ends[s], left, 2)
            else:
                anchor = int(below(streams[0, i], k, len(row)))
                if row[anchor] >= 0 and out_row[anchor] == 0:
                    left = take_words(
                        row, out_row, anchor, draw_length(streams[1, i], k, sums), left
                    )
            k += 1


@kernel
def take(out: Array, start: int, stop: int, left: int, mark: int) -> int:
    """Mark what is free of a range of tokens, from the left and `left` of them at most; return how many.

    Args:
        out: uint8, of one row: 0 where a token is free.
        start: First token.
        stop: Half open.
        left: Of the budget.
        mark: What to write.
    """
    taken = 0
    for t in range(start, stop):
        if out[t] == 0 and taken < left:
            out[t] = mark
            taken += 1
    return taken


@kernel
def take_words(words: Array, out: Array, t: int, length: int, left: int) -> int:
    """Mark words from the one that a token is of, to the right; return what is left of the budget.

    Args:
        words: int32, of one row; -1 on special tokens, where the text ends.
        out: uint8, of one row: 1 is written where it is 0.
        t: A token that is not special.
        length: Words.
        left: Tokens that may be marked.
    """
    while t > 0 and words[t - 1] == words[t]:
        t -= 1
    for _ in range(length):
        start = t
        while t < len(words) and words[t] == words[start]:
            t += 1
        left -= take(out, start, t, left, 1)
        if left == 0 or t == len(words) or words[t] < 0:
            break
    return left


@kernel
def cut_segments(
    offsets: Array, words: Array, noise: Array, spans: Array, streams: Array, mark: int, out: Array
) -> None:
    """Hide every other segment of each row, the lengths of both sorts being uniform compositions of their sums.

    The first segment stays. After each token the segment ends with the chance of as many ends as are due among as many
    places as are left, which makes every composition as likely as any other.

    Args:
        offsets: int64 `[N + 1]`.
        words: int32 `[T]`, -1 on special tokens; those are passed over.
        noise: int64 `[N]`: tokens to hide; 0, or fewer than the row has.
        spans: int64 `[N]`: segments of each sort; no more than tokens to hide, or to keep.
        streams: uint64 `[N]`; token t of a row takes draw t.
        mark: What to write.
        out: uint8 `[T]`: `mark` where it was 0 and is to be hidden, elsewhere as it was.
    """
    tokens, ends = np.empty(2, np.int64), np.empty(2, np.int64)
    for i in range(len(streams)):
        row, out_row = words[offsets[i] : offsets[i + 1]], out[offsets[i] : offsets[i + 1]]
        tokens[0], tokens[1], side = -noise[i], noise[i], 0
        for t in range(len(row)):
            tokens[0] += int(row[t] >= 0)
        ends[:] = spans[i] - 1
        for t in range(len(row) if noise[i] > 0 else 0):
            if row[t] < 0:
                continue
            if side == 1 and out_row[t] == 0:
                out_row[t] = mark
            tokens[side] -= 1
            if tokens[side] == 0 or below(streams[i], t, tokens[side]) < ends[side]:
                ends[side] -= 1
                side = 1 - side


@kernel
def infill_words(
    offsets: Array,
    words: Array,
    quota: Array,
    sums: Array,
    streams: Array,
    mark: int,
    out: Array,
    joined: Array,
) -> None:
    """Hide spans of words that begin at different words and may run into one another; lengths sum to the budget.

    Args:
        offsets: int64 `[N + 1]`.
        words: int32 `[T]`, -1 on special tokens.
        quota: int64 `[N]`: words, as many as the row has at most; afterwards how many fewer are hidden.
        sums: uint64 `[L]`, of lengths in words; see `draw_length`.
        streams: uint64 `[2, N]`: span k takes draw k of the first for its word and of the second for its length.
        mark: What to write.
        out: uint8 `[T]`: `mark` where it was 0 and a span lies, elsewhere as it was.
        joined: uint8 `[T]`: 1 at all but the first tokens of spans, elsewhere as it was.
    """
    longest = 1
    for i in range(len(quota)):
        longest = max(longest, offsets[i + 1] - offsets[i])
    places = np.empty(longest, np.int32)
    for i in range(len(quota)):
        row, joined_row = words[offsets[i] : offsets[i + 1]], joined[offsets[i] : offsets[i + 1]]
        out_row = out[offsets[i] : offsets[i + 1]]
        size, left, k = 0, quota[i], 0
        for t in range(len(row) if left > 0 else 0):
            places[size] = t
            size += int(row[t] >= 0 and (t == 0 or row[t] != row[t - 1]))
        while left > 0:
            j = k + below(streams[0, i], k, size - k)
            first, length = places[j], min(draw_length(streams[1, i], k, sums), left)
            places[j] = places[k]
            left -= length
            k += 1
            t = first
            while t < len(row) and row[t] >= 0:
                begins = t == 0 or row[t] != row[t - 1]
                length -= int(begins)
                if length < 0:
                    break
                quota[i] -= int(begins and out_row[t] == 0)
                out_row[t] = mark if out_row[t] == 0 else out_row[t]
                joined_row[t] |= np.uint8(t > first)
                t += 1
