"""Draw each row's rate, and mask each of its units by a coin with that rate (masked diffusion)."""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.rng import GOLDEN, bits, bits53, chance_limit


@kernel
def draw_rates(streams: Array, step: int, low: float, high: float, out: Array) -> None:
    """Draw one rate in `[low, high]` for each row, and move on from it by golden steps.

    The rate is `low + (high - low) * frac(u + step / golden ratio)`, where u is draw 0 of the
    row's stream. Steps 0, 1, 2 ... cover the interval evenly (a Kronecker sequence).

    Args:
        streams: uint64 `[N]`.
        step: In `[0, 2**63)`; 0 is the draw itself.
        low: The lowest rate.
        high: The highest rate.
        out: float32 `[N]`, written.
    """
    # GOLDEN is 2**64 divided by the golden ratio, so that wrapping is the fractional part.
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
    """Mask each unit of each row by a coin with the row's rate.

    Units are the mentions that are given, and of the other tokens either each one or each word.
    A unit's coin is the draw of its first token.

    Args:
        offsets: int64 `[N + 1]` of the tokens.
        words: int32 `[T]`, `word_ids`, -1 on special tokens, which are never masked.
        span_offsets: int64 `[N + 1]` of the mentions; all 0 where mentions are no units.
        starts: int32 `[S]`: a mention's first token, counted within its row.
        ends: int32 `[S]`, half open.
        by_word: Whether words are masked whole; else each token stands alone.
        rates: float32 `[N]`: the chance that a coin falls below it.
        complement: Whether the units are masked that the same coins would show.
        streams: uint64 `[N]`; token t of a row takes draw t.
        out: uint8 `[T]`, written: 2 in masked mentions, 1 at other masked tokens, 0 elsewhere.
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
            # No branch, so that it compiles to SIMD.
            for t in range(len(row_words)):
                hit = (bits53(stream, t) < limit) != complement
                row_out[t] = hit & (row_words[t] >= 0)

        for s in range(span_offsets[i], span_offsets[i + 1]):
            hit = (bits53(stream, starts[s]) < limit) != complement
            row_out[starts[s] : ends[s]] = 2 if hit else 0
