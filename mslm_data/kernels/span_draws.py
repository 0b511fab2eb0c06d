"""Draw spans of tokens: their starts, their lengths, and their overlaps.

Lengths are drawn from tables of cumulative probabilities in units of 2**-53. These are integers, so
all machines draw the same lengths.
"""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.rng import below, bits53
from mslm_data.kernels.rows import draw_next, longest_row

CLOSED, OPEN, END = range(3)
"""States of a token.

A span with a CLOSED token is not placed. OPEN may be in a span. END is a special token, at which a
span is cut.
"""


@kernel
def draw_length(stream: np.uint64, k: int, sums: Array) -> int:
    """Return draw k of a stream as a length of at least 1.

    Args:
        stream: Random stream of the row.
        k: Number of the draw, from 0.
        sums: uint64 `[L]`, cumulative probabilities of the lengths from 1 to L, in units of 2**-53.
            The last item is 2**53.
    """
    drawn = bits53(stream, k)
    length = 1
    while drawn >= sums[length - 1]:
        length += 1
    return length


@kernel
def run_from(state: Array, t: int, max_size: int) -> int:
    """Return the length of a span that begins at token t, or 0 if none may.

    The length is `max_size`, or less if a special token comes before.

    Args:
        state: uint8, states of one row.
        t: First token.
        max_size: Maximum number of tokens, at least 1.
    """
    if state[t] != OPEN:
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
    """Mask spans that do not overlap, up to a budget of tokens.

    Tries the tokens of a row as starts of spans, in the order of a Fisher-Yates shuffle.

    Args:
        offsets: int64 `[N + 1]`.
        state: uint8 `[T]`, states; CLOSED is written on masked tokens.
        quota: int64 `[N]`, number of tokens to mask; reduced by the number of masked tokens.
        sums: uint64 `[L]`, cumulative probabilities of lengths in tokens, see `draw_length`.
        streams: uint64 `[2, N]`. Step k of a row uses draw k of the first for the start, and of the
            second for the length.
        mark: Value to write.
        out: uint8 `[T]`, `mark` is written on masked tokens.
    """
    # `places` is 0, 1, 2 ... at the start of each row. It is restored after each row, not written
    # anew, so the cost of a row depends on its draws and not on its length.
    places = np.arange(longest_row(offsets)).astype(np.int32)
    for i in range(len(quota)):
        start, stop = offsets[i], offsets[i + 1]
        row = state[start:stop]
        out_row = out[start:stop]

        left = quota[i]
        k = 0
        while left > 0 and k < len(row):
            first = draw_next(places, streams[0, i], k, len(row))
            places[k] = first  # complete the swap, since the loops below read the first k places

            if row[first] == OPEN:
                length = min(draw_length(streams[1, i], k, sums), left)
                size = run_from(row, first, length)
                row[first : first + size] = CLOSED
                out_row[first : first + size] = mark
                left -= size
            k += 1
        quota[i] = left

        # Restore `places`. After k steps, a place p >= k has changed only if p was drawn, and then
        # p is among the first k items.
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
    """Mask mentions, or spans of whole words that may touch, up to a budget of tokens.

    In rows with mentions, each step takes a mention or a span with probability 1/2.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        words: int32 `[T]`, `word_ids`, -1 on special tokens.
        mention_offsets: int64 `[N + 1]` of the mentions.
        starts: int32 `[S]`, first token of each mention, within its row.
        ends: int32 `[S]`, half open.
        quota: int64 `[N]`, number of tokens to mask; reduced by the number of masked tokens.
        sums: uint64 `[L]`, cumulative probabilities of lengths in words, see `draw_length`.
        streams: uint64 `[3, N]`. Step k of a row uses draw k of the first for the token or mention,
            of the second for the length, and of the third to choose between the two.
        out: uint8 `[T]`; on tokens that are 0, 1 is written in spans and 2 in mentions.
    """
    for i in range(len(quota)):
        start, stop = offsets[i], offsets[i + 1]
        row = words[start:stop]
        out_row = out[start:stop]
        first_mention = mention_offsets[i]
        mentions = mention_offsets[i + 1] - first_mention

        # Limit the budget to the tokens that can be masked, so that the loop below ends.
        free = 0
        for t in range(len(row)):
            free += int((row[t] >= 0) & (out_row[t] == 0))
        left = min(quota[i], free)
        quota[i] -= left

        k = 0
        while left > 0:
            if mentions > 0 and below(streams[2, i], k, 2) == 0:
                s = first_mention + below(streams[0, i], k, mentions)
                left -= mask_range(out_row, starts[s], ends[s], left, 2)
            else:
                anchor = int(below(streams[0, i], k, len(row)))
                if row[anchor] >= 0 and out_row[anchor] == 0:
                    length = draw_length(streams[1, i], k, sums)
                    left = mask_words(row, out_row, anchor, length, left)
            k += 1


@kernel
def compose_spans(
    offsets: Array, state: Array, masked: Array, spans: Array, streams: Array, mark: int, out: Array
) -> None:
    """Mask a given number of tokens of each row, in a given number of spans.

    Spans alternate with stretches of the other open tokens, beginning with a stretch and ending
    with a span. All lengths with these sums are equally likely: in both classes, the ends of the
    spans or stretches are drawn from the gaps between the class's tokens by selection sampling.

    Args:
        offsets: int64 `[N + 1]`.
        state: uint8 `[T]`, states; only OPEN tokens are counted and masked.
        masked: int64 `[N]`, number of tokens to mask, at least 1 and below the number of open
            tokens; or 0.
        spans: int64 `[N]`, number of spans, at least 1, at most the number of tokens of each class.
        streams: uint64 `[2, N]`. Token k of the stretches uses draw k of the first, token k of the
            spans draw k of the second.
        mark: Value to write.
        out: uint8 `[T]`, `mark` is written on masked tokens.
    """
    left = np.empty(2, np.int64)  # tokens of the stretches, of the spans
    ends = np.empty(2, np.int64)  # ends to draw in each, without the last
    drawn = np.empty(2, np.int64)
    for i in range(len(masked)):
        start, stop = offsets[i], offsets[i + 1]
        left[1] = masked[i]
        left[0] = -masked[i]
        for t in range(start, stop):
            left[0] += state[t] == OPEN
        ends[:] = spans[i] - 1
        drawn[:] = 0

        side = 0
        for t in range(start, stop):
            if state[t] != OPEN or masked[i] == 0:
                continue
            if side == 1:
                out[t] = mark
            left[side] -= 1
            is_end = left[side] == 0  # of the class's last stretch or span
            if not is_end:
                gap = below(streams[side, i], drawn[side], left[side])
                drawn[side] += 1
                is_end = gap < ends[side]
                ends[side] -= is_end
            if is_end:
                side = 1 - side


@kernel
def mask_range(out: Array, start: int, stop: int, left: int, mark: int) -> int:
    """Mask the free tokens of a range, from the left, and return their number.

    Args:
        out: uint8 of one row, 0 on free tokens.
        start: First token.
        stop: Half open.
        left: Maximum number of tokens to mask.
        mark: Value to write.
    """
    taken = 0
    for t in range(start, stop):
        if out[t] == 0 and taken < left:
            out[t] = mark
            taken += 1
    return taken


@kernel
def mask_words(words: Array, out: Array, t: int, length: int, left: int) -> int:
    """Mask consecutive words, and return the remaining budget.

    Stops before a special token.

    Args:
        words: int32 of one row, `word_ids`, -1 on special tokens.
        out: uint8 of one row; 1 is written on tokens that are 0.
        t: Any token of the first word.
        length: Number of words.
        left: Budget: maximum number of tokens to mask.
    """
    # Back to the first token of the word.
    while t > 0 and words[t - 1] == words[t]:
        t -= 1

    for _ in range(length):
        start = t
        while t < len(words) and words[t] == words[start]:
            t += 1
        left -= mask_range(out, start, t, left, 1)
        if left == 0 or t == len(words) or words[t] < 0:
            break
    return left
