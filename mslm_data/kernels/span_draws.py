"""Draw spans of tokens: where they begin, how long they are, and what they may not touch.

Lengths come from tables of chances, summed up in whole numbers of 2**-53, so that every machine
draws the same lengths.
"""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.rng import below, bits53
from mslm_data.kernels.rows import draw_next, longest_row

END, CLOSED, OPEN, BEGIN = range(4)
"""Kinds of tokens, as spans see them.

END is a special token, where the text ends. A CLOSED token may not be masked. An OPEN token may lie
in a span. At a BEGIN token a span may begin too.
"""


@kernel
def draw_length(stream: np.uint64, k: int, sums: Array) -> int:
    """Return draw k of a stream as a length, 1 or more.

    Args:
        stream: Of the row.
        k: Which draw, 0 or more.
        sums: uint64 `[L]`: the chance, in units of 2**-53, of a length up to 1, up to 2 and so on;
            the last item is 2**53.
    """
    drawn = bits53(stream, k)
    length = 1
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
        unk: The id that may not be masked, -1 for none.
        kinds: uint8 `[T]`, not 0 where an earlier pick took the token.
        whole: Whether spans begin at the first token of a word only.
        state: uint8 `[T]`, written: END, CLOSED, OPEN or BEGIN.
    """
    for i in range(len(offsets) - 1):
        start, stop = offsets[i], offsets[i + 1]
        row = words[start:stop]
        row_ids = ids[start:stop]
        row_kinds = kinds[start:stop]
        out = state[start:stop]
        for t in range(len(row)):
            goes_on = whole and t > 0 and row[t] == row[t - 1]
            closed = row_ids[t] == unk or row_kinds[t] != 0

            # One store, chosen without a branch.
            kind = OPEN if goes_on else BEGIN
            kind = CLOSED if closed else kind
            out[t] = END if row[t] < 0 else kind


@kernel
def run_from(state: Array, t: int, max_size: int) -> int:
    """Return the number of tokens of a span that begins at t.

    It is `max_size`, less where the text ends before it, and 0 where no span may begin or lie.

    Args:
        state: uint8, of one row, as `open_spans` writes it.
        t: The first token.
        max_size: Tokens, 1 or more.
    """
    if state[t] != BEGIN:
        return 0
    size = 1
    while size < max_size and t + size < len(state) and state[t + size] != END:
        if state[t + size] == CLOSED:
            return 0
        size += 1
    return size


@kernel
def place_spans(
    offsets: Array, state: Array, quota: Array, sums: Array, streams: Array, mark: int, out: Array
) -> None:
    """Take spans that do not overlap, from tokens in random order, up to a budget of tokens.

    The order is a Fisher-Yates shuffle of the tokens of the row, made step by step.

    Args:
        offsets: int64 `[N + 1]`.
        state: uint8 `[T]`, as `open_spans` writes it; CLOSED afterwards where a span lies.
        quota: int64 `[N]`: tokens; afterwards what is left of them.
        sums: uint64 `[L]`, of lengths in tokens, as in `draw_length`.
        streams: uint64 `[2, N]`: step k takes draw k of the first for its token and of the second
            for its length.
        mark: The value to write.
        out: uint8 `[T]`: `mark` where a span lies, elsewhere as it was.
    """
    # `places` is 0, 1, 2 … at the start of every row. It is put back after each row rather than
    # written anew, so that a row costs what it draws and not its length.
    places = np.arange(longest_row(offsets)).astype(np.int32)
    for i in range(len(quota)):
        start, stop = offsets[i], offsets[i + 1]
        row = state[start:stop]
        out_row = out[start:stop]

        left = quota[i]
        k = 0
        while left > 0 and k < len(row):
            first = draw_next(places, streams[0, i], k, len(row))
            places[k] = first  # the whole swap, as the loops below look at the first k places

            if row[first] == BEGIN:
                length = min(draw_length(streams[1, i], k, sums), left)
                size = run_from(row, first, length)
                row[first : first + size] = CLOSED
                out_row[first : first + size] = mark
                left -= size
            k += 1
        quota[i] = left

        # After k steps, a place p from k on holds another number only if p was drawn, so p stands
        # among the first k places.
        for s in range(k):
            if places[s] >= k:
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
    """Take mentions, or spans of whole words that may touch, up to a budget of tokens.

    In rows with mentions a fair coin decides at each step whether to take a mention.

    Args:
        offsets: int64 `[N + 1]`.
        words: int32 `[T]`, -1 on special tokens.
        mention_offsets: int64 `[N + 1]`.
        starts: int32 `[S]`: a mention's first token, counted within its row.
        ends: int32 `[S]`, half open.
        quota: int64 `[N]`: tokens; afterwards how many of them the row did not have.
        sums: uint64 `[L]`, of lengths in words, as in `draw_length`.
        streams: uint64 `[3, N]`: step k takes draw k of the first for its token or mention, of the
            second for its length, of the third for its coin.
        out: uint8 `[T]`: 1 where a span lies, 2 where a mention does; what was not 0 stays.
    """
    for i in range(len(quota)):
        start, stop = offsets[i], offsets[i + 1]
        row = words[start:stop]
        out_row = out[start:stop]
        first_mention = mention_offsets[i]
        mentions = mention_offsets[i + 1] - first_mention

        # No more than the row has, so that the loop below ends.
        free = 0
        for t in range(len(row)):
            free += int((row[t] >= 0) & (out_row[t] == 0))
        left = min(quota[i], free)
        quota[i] -= left

        k = 0
        while left > 0:
            if mentions > 0 and below(streams[2, i], k, 2) == 0:
                s = first_mention + below(streams[0, i], k, mentions)
                left -= take(out_row, starts[s], ends[s], left, 2)
            else:
                anchor = int(below(streams[0, i], k, len(row)))
                if row[anchor] >= 0 and out_row[anchor] == 0:
                    length = draw_length(streams[1, i], k, sums)
                    left = take_words(row, out_row, anchor, length, left)
            k += 1


@kernel
def take(out: Array, start: int, stop: int, left: int, mark: int) -> int:
    """Mark the free tokens of a range, from the left, and return how many were marked.

    Args:
        out: uint8, of one row: 0 where a token is free.
        start: First token.
        stop: Half open.
        left: The most tokens to mark.
        mark: The value to write.
    """
    taken = 0
    for t in range(start, stop):
        if out[t] == 0 and taken < left:
            out[t] = mark
            taken += 1
    return taken


@kernel
def take_words(words: Array, out: Array, t: int, length: int, left: int) -> int:
    """Mark words from that of a token on, to the right, and return what is left of the budget.

    Args:
        words: int32, of one row; -1 on special tokens, where the text ends.
        out: uint8, of one row; 1 is written where it is 0.
        t: A token that is not special.
        length: Words.
        left: The most tokens to mark.
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
