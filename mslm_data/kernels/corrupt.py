"""Corrupt masked tokens: replace them by the mask token or a random token, or keep them."""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.rng import below, bits53, chance_limit, uniform

KEEP, MASK, RANDOM = 0, 1, 2
"""Actions on a masked token: keep its id, put the mask token, or put a random id."""


@kernel
def choose_actions(
    offsets: Array,
    kinds: Array,
    mask_share: float,
    random_share: float,
    streams: Array,
    actions: Array,
) -> None:
    """Choose the action for each masked token at random.

    Args:
        offsets: int64 `[N + 1]`.
        kinds: uint8 `[T]`, nonzero for masked tokens.
        mask_share: Probability of MASK, in `[0, 1]`.
        random_share: Probability of RANDOM. The two probabilities sum to at most 1.
        streams: uint64 `[N]`. Token t of a row uses draw t.
        actions: uint8 `[T]`, written: KEEP, MASK or RANDOM; KEEP for tokens that are not masked.
    """
    mask_limit = chance_limit(mask_share)
    random_limit = chance_limit(mask_share + random_share)
    for i in range(len(streams)):
        start, stop = offsets[i], offsets[i + 1]
        row_kinds = kinds[start:stop]
        row_actions = actions[start:stop]
        stream = streams[i]

        # No branch: draw a number for every token, masked or not.
        for t in range(len(row_kinds)):
            draw = bits53(stream, t)
            replaced = RANDOM if draw < random_limit else KEEP
            action = MASK if draw < mask_limit else replaced
            row_actions[t] = action if row_kinds[t] != 0 else KEEP


@kernel
def put_mask(masked: Array, ids: Array, mask: int, out: Array) -> None:
    """Copy token ids, and replace masked ones by the mask token.

    Args:
        masked: uint8 `[T]`, nonzero for tokens to replace.
        ids: integers `[T]`, token ids.
        mask: Id of the mask token.
        out: integers `[T]`, written.
    """
    # One loop over all rows, which compiles to SIMD.
    for t in range(len(masked)):
        out[t] = mask if masked[t] != 0 else ids[t]


@kernel
def put_random(
    offsets: Array, actions: Array, vocabulary: int, special: Array, streams: Array, out: Array
) -> None:
    """Replace tokens whose action is RANDOM by a uniformly random id, excluding special ids.

    Args:
        offsets: int64 `[N + 1]`.
        actions: uint8 `[T]`, KEEP, MASK or RANDOM.
        vocabulary: Number of ids, including special ids.
        special: int64 `[K]`, special ids in `[0, vocabulary)`, ascending and distinct, with
            K < `vocabulary`.
        streams: uint64 `[N]`. Token t of a row uses draw t.
        out: integers `[T]`, token ids, changed in place.
    """
    for i in range(len(streams)):
        start, stop = offsets[i], offsets[i + 1]
        row_actions = actions[start:stop]
        out_row = out[start:stop]
        for t in range(len(row_actions)):
            if row_actions[t] == RANDOM:
                drawn = below(streams[i], t, vocabulary - len(special))

                # The drawn number counts ordinary ids only: add 1 for each special id before it.
                for s in range(len(special)):
                    drawn += np.int64(drawn >= special[s])
                out_row[t] = drawn


@kernel
def put_unigram(
    offsets: Array, actions: Array, tokens: Array, sums: Array, streams: Array, out: Array
) -> None:
    """Replace tokens whose action is RANDOM by a random id, drawn in proportion to its count.

    Args:
        offsets: int64 `[N + 1]`.
        actions: uint8 `[T]`, KEEP, MASK or RANDOM.
        tokens: int32 `[E]`, ids to draw from.
        sums: int64 `[E]`, cumulative counts of these ids. The last is less than 2**53.
        streams: uint64 `[N]`. Token t of a row uses draw t.
        out: integers `[T]`, token ids, changed in place.
    """
    for i in range(len(streams)):
        start, stop = offsets[i], offsets[i + 1]
        row_actions = actions[start:stop]
        out_row = out[start:stop]
        for t in range(len(row_actions)):
            if row_actions[t] == RANDOM:
                # The product may round up to the sum itself if the draw is near 1.
                drawn = min(np.int64(uniform(streams[i], t) * sums[-1]), sums[-1] - 1)
                out_row[t] = tokens[np.searchsorted(sums, drawn, side="right")]


@kernel
def spread_actions(offsets: Array, kinds: Array, joins: Array, actions: Array) -> None:
    """Give all masked tokens of a group, such as a word, the action of the first.

    Args:
        offsets: int64 `[N + 1]`.
        kinds: uint8 `[T]`, nonzero for masked tokens.
        joins: uint8 `[T]`, 1 if a token belongs to the group of the token before it. Only tokens
            that are both masked are joined.
        actions: uint8 `[T]`, changed.
    """
    for i in range(len(offsets) - 1):
        for t in range(offsets[i] + 1, offsets[i + 1]):
            # The token before already has the action of its group.
            if joins[t] != 0 and kinds[t] != 0 and kinds[t - 1] != 0:
                actions[t] = actions[t - 1]
