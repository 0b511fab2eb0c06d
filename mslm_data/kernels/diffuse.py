"""Masked diffusion: draw a rate for each row, and mask each unit with that probability."""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.rng import GOLDEN, bits, bits53, chance_limit


@kernel
def draw_rates(streams: Array, step: int, low: float, high: float, out: Array) -> None:
    """Draw a masking rate in `[low, high]` for each row.

    With u draw 0 of the row's stream:

        rate = low + (high - low) * frac(u + step / golden_ratio)

    The rates of steps 0, 1, 2 ... cover the interval evenly (a Kronecker sequence).

    Args:
        streams: uint64 `[N]`.
        step: Index into the sequence, in `[0, 2**63)`.
        low: Minimum rate.
        high: Maximum rate.
        out: float32 `[N]`, written: the rates.
    """
    # GOLDEN is 2**64 / golden_ratio, so the overflow of 64 bits takes the fractional part.
    moved = GOLDEN * np.uint64(step)
    for i in range(len(streams)):
        place = np.float64((bits(streams[i], 0) + moved) >> 11) * 2.0**-53
        out[i] = low + (high - low) * place


@kernel
def diffuse_rows(
    offsets: Array,
    words: Array,
    span_offsets: Array,
    starts: Array,
    ends: Array,
    by_word: bool,
    rates: Array,
    complement: bool,
    streams: Array,
    out: Array,
) -> None:
    """Mask each unit of each row independently, with the probability of the row.

    Units are the mentions, and the words or tokens outside them. A unit uses the draw of its first
    token.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        words: int32 `[T]`, `word_ids`, -1 on special tokens, which are never masked.
        span_offsets: int64 `[N + 1]` of the mentions; all 0 to ignore mentions.
        starts: int32 `[S]`, first token of each mention, within its row.
        ends: int32 `[S]`, half open.
        by_word: Whether words are units; otherwise tokens are.
        rates: float32 `[N]`, masking rate of each row.
        complement: Whether to mask exactly the units that would not be masked otherwise.
        streams: uint64 `[N]`. Token t of a row uses draw t.
        out: uint8 `[T]`, written: 2 in masked mentions, 1 on other masked tokens, 0 elsewhere.
    """
    for i in range(len(streams)):
        start, stop = offsets[i], offsets[i + 1]
        row_words = words[start:stop]
        row_out = out[start:stop]
        stream = streams[i]
        limit = chance_limit(np.float64(rates[i]))

        if by_word:
            hit = False
            before = np.int32(-1)
            for t in range(len(row_words)):
                if row_words[t] != before:
                    hit = (bits53(stream, t) < limit) != complement
                    before = row_words[t]
                row_out[t] = hit & (row_words[t] >= 0)
        else:
            # No branch: draw a number for every token.
            for t in range(len(row_words)):
                hit = (bits53(stream, t) < limit) != complement
                row_out[t] = hit & (row_words[t] >= 0)

        # Mentions overwrite their words or tokens.
        for s in range(span_offsets[i], span_offsets[i + 1]):
            hit = (bits53(stream, starts[s]) < limit) != complement
            row_out[starts[s] : ends[s]] = 2 if hit else 0
