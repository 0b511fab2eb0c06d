"""Replace what is to be predicted: by the mask token, by a random id, or by nothing."""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.rng import below, bits53, chance_limit, uniform

KEEP, MASK, RANDOM = 0, 1, 2
"""Fates of a masked token: its own id, the mask token, or a random id."""


@kernel
def choose_actions(
    offsets: Array,
    kinds: Array,
    mask_share: float,
    random_share: float,
    streams: Array,
    actions: Array,
) -> None:
    """Decide what stands in the place of each masked token.

    Args:
        offsets: int64 `[N + 1]`.
        kinds: uint8 `[T]`: not 0 where a token is masked.
        mask_share: The chance of the mask token, in `[0, 1]`.
        random_share: The chance of a random id. The two chances sum to at most 1.
        streams: uint64 `[N]`; token t of a row takes draw t.
        actions: uint8 `[T]`, written: KEEP, MASK or RANDOM; KEEP where no token is masked.
    """
    mask_limit = chance_limit(mask_share)
    random_limit = chance_limit(mask_share + random_share)
    for i in range(len(streams)):
        start, stop = offsets[i], offsets[i + 1]
        row_kinds = kinds[start:stop]
        row_actions = actions[start:stop]
        stream = streams[i]

        # No branch, so that it compiles to SIMD: tokens that are not masked take a draw too.
        for t in range(len(row_kinds)):
            draw = bits53(stream, t)
            replaced = RANDOM if draw < random_limit else KEEP
            action = MASK if draw < mask_limit else replaced
            row_actions[t] = action if row_kinds[t] != 0 else KEEP


@kernel
def put_mask(masked: Array, ids: Array, mask: int, out: Array) -> None:
    """Copy ids, with the mask token in place of masked ones. Rows do not matter, so SIMD applies.

    Args:
        masked: uint8 `[T]`: not 0 where the mask token is to stand.
        ids: integers `[T]`.
        mask: The id of the mask token.
        out: integers `[T]`, written.
    """
    for t in range(len(masked)):
        out[t] = mask if masked[t] != 0 else ids[t]


@kernel
def put_random(
    offsets: Array, actions: Array, vocabulary: int, special: Array, streams: Array, out: Array
) -> None:
    """Put a random id where the action is RANDOM: any that is not special, all equally likely.

    Args:
        offsets: int64 `[N + 1]`.
        actions: uint8 `[T]`: KEEP, MASK or RANDOM.
        vocabulary: Number of ids, special ones included.
        special: int64 `[K]`: the special ids, rising, each once, all in `[0, vocabulary)`; K is
            less than `vocabulary`.
        streams: uint64 `[N]`; token t of a row takes draw t.
        out: integers `[T]`, holding the ids; replaced where the action is RANDOM.
    """
    for i in range(len(streams)):
        start, stop = offsets[i], offsets[i + 1]
        row_actions = actions[start:stop]
        out_row = out[start:stop]
        for t in range(len(row_actions)):
            if row_actions[t] == RANDOM:
                drawn = below(streams[i], t, vocabulary - len(special))

                # The drawn number counts the other ids only: step over each special id up to it.
                for s in range(len(special)):
                    drawn += np.int64(drawn >= special[s])
                out_row[t] = drawn


@kernel
def put_unigram(
    offsets: Array, actions: Array, tokens: Array, sums: Array, streams: Array, out: Array
) -> None:
    """Put a random id where the action is RANDOM, each as likely as it is frequent.

    Args:
        offsets: int64 `[N + 1]`.
        actions: uint8 `[T]`: KEEP, MASK or RANDOM.
        tokens: int32 `[E]`: the ids.
        sums: int64 `[E]`: how often the ids up to each one occur; the last is less than 2**53.
        streams: uint64 `[N]`; token t of a row takes draw t.
        out: integers `[T]`, holding the ids; replaced where the action is RANDOM.
    """
    for i in range(len(streams)):
        start, stop = offsets[i], offsets[i + 1]
        row_actions = actions[start:stop]
        out_row = out[start:stop]
        for t in range(len(row_actions)):
            if row_actions[t] == RANDOM:
                # A draw near 1 times a large sum may round up to the sum itself.
                drawn = min(np.int64(uniform(streams[i], t) * sums[-1]), sums[-1] - 1)
                out_row[t] = tokens[np.searchsorted(sums, drawn, side="right")]


@kernel
def spread_actions(offsets: Array, kinds: Array, joins: Array, actions: Array) -> None:
    """Give masked tokens that belong together the action of the first of them.

    Args:
        offsets: int64 `[N + 1]`.
        kinds: uint8 `[T]`: not 0 where a token is masked.
        joins: uint8 `[T]`: 1 where a token belongs to the one before it, if both are masked.
        actions: uint8 `[T]`, changed.
    """
    for i in range(len(offsets) - 1):
        for t in range(offsets[i] + 1, offsets[i + 1]):
            # The token before has its group's action already, so the first one's travels along.
            if joins[t] != 0 and kinds[t] != 0 and kinds[t - 1] != 0:
                actions[t] = actions[t - 1]
