"""Second step of masking: what stands in the place of a token that is to be predicted."""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.draws import below, bits53, uniform

KEEP, MASK, RANDOM = 0, 1, 2


@kernel
def choose_actions(
    offsets: Array,
    kinds: Array,
    mask_share: float,
    random_share: float,
    streams: Array,
    actions: Array,
) -> None:
    """Decide for each token that is to be predicted: `[MASK]`, a random id, or the id that is there.

    Args:
        offsets: int64 `[N + 1]`.
        kinds: uint8 `[T]`: not 0 where a token is to be predicted.
        mask_share: The chance of `[MASK]`, in `[0, 1]`.
        random_share: The chance of a random id; the two sum to 1 at most.
        streams: uint64 `[N]`; token t of a row takes draw t.
        actions: uint8 `[T]`, written: KEEP, MASK or RANDOM.
    """
    mask_limit = np.uint64(np.ceil(mask_share * 2.0**53))
    random_limit = np.uint64(np.ceil((mask_share + random_share) * 2.0**53))
    for i in range(len(streams)):
        kinds_row, actions_row = (
            kinds[offsets[i] : offsets[i + 1]],
            actions[offsets[i] : offsets[i + 1]],
        )
        stream = streams[i]
        for t in range(
            len(kinds_row)
        ):  # no branch, so that it compiles to SIMD: a draw for every token
            draw = bits53(stream, t)
            action = MASK if draw < mask_limit else RANDOM if draw < random_limit else KEEP
            actions_row[t] = action if kinds_row[t] != 0 else KEEP


@kernel
def put_mask(hidden: Array, ids: Array, mask: int, out: Array) -> None:
    """Copy ids, with the mask token in place of what is hidden; a flat loop, so that it compiles to SIMD.

    Args:
        hidden: uint8 `[T]`: not 0 where the mask token is to stand.
        ids: integers `[T]`.
        mask: The id of `[MASK]`.
        out: integers `[T]`, written.
    """
    for t in range(len(hidden)):
        out[t] = mask if hidden[t] != 0 else ids[t]


@kernel
def put_random(
    offsets: Array, actions: Array, vocabulary: int, special: Array, streams: Array, out: Array
) -> None:
    """Put a random id where the action is RANDOM: any of the vocabulary but the special ones, all equally likely.

    Args:
        offsets: int64 `[N + 1]`.
        actions: uint8 `[T]`: KEEP, MASK or RANDOM.
        vocabulary: Number of ids, special ones included.
        special: int64 `[K]`: the special ids, rising, each once, all in `[0, vocabulary)`; K < vocabulary.
        streams: uint64 `[N]`; token t of a row takes draw t.
        out: integers `[T]`, holding the ids; replaced where the action is RANDOM.
    """
    for i in range(len(streams)):
        actions_row, out_row = (
            actions[offsets[i] : offsets[i + 1]],
            out[offsets[i] : offsets[i + 1]],
        )
        for t in range(len(actions_row)):
            if actions_row[t] == RANDOM:
                drawn = below(streams[i], t, vocabulary - len(special))
                for s in range(
                    len(special)
                ):  # count past the special ids, without a table of the vocabulary
                    drawn += np.int64(drawn >= special[s])
                out_row[t] = drawn


@kernel
def spread_actions(offsets: Array, kinds: Array, joins: Array, actions: Array) -> None:
    """Give hidden tokens that belong together the action of the first of them.

    Args:
        offsets: int64 `[N + 1]`.
        kinds: uint8 `[T]`: not 0 where a token is to be predicted.
        joins: uint8 `[T]`: 1 where a token belongs to the one before it, if both are to be predicted.
        actions: uint8 `[T]`, changed.
    """
    for i in range(len(offsets) - 1):
        for t in range(offsets[i] + 1, offsets[i + 1]):
            if joins[t] != 0 and kinds[t] != 0 and kinds[t - 1] != 0:
                actions[t] = actions[t - 1]


@kernel
def put_unigram(
    offsets: Array, actions: Array, tokens: Array, sums: Array, streams: Array, out: Array
) -> None:
    """Put a random id where the action is RANDOM, each as likely as it is frequent.

    Args:
        offsets: int64 `[N + 1]`.
        actions: uint8 `[T]`: KEEP, MASK or RANDOM.
        tokens: int32 `[E]`: the ids.
        sums: int64 `[E]`: how often the ids up to each occur; the last is less than 2**53.
        streams: uint64 `[N]`; token t of a row takes draw t.
        out: integers `[T]`, holding the ids; replaced where the action is RANDOM.
    """
    for i in range(len(streams)):
        actions_row, out_row = (
            actions[offsets[i] : offsets[i + 1]],
            out[offsets[i] : offsets[i + 1]],
        )
        for t in range(len(actions_row)):
            if actions_row[t] == RANDOM:
                drawn = min(np.int64(uniform(streams[i], t) * sums[-1]), sums[-1] - 1)
                out_row[t] = tokens[np.searchsorted(sums, drawn, side="right")]
