"""Compute any position of a shuffled order, without storing the order."""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, inlined, kernel
from mslm_data.kernels.rng import below, fold_in, mix

ROUNDS = 6
"""Number of rounds of the Feistel network."""
FEW = 256
"""Maximum size of an order that is drawn as a whole, by Fisher-Yates.

A Feistel network of few bits does not give all permutations the same probability: of five numbers,
some permutations come 2.5 times as often as others.
"""


@kernel
def shuffle_range(start: int, stream: np.uint64, size: int, out: Array) -> None:
    """Write consecutive positions of a permutation of the numbers below `size`.

    Up to `FEW` numbers are shuffled by Fisher-Yates. For more, each position is computed on its
    own: a Feistel network (Luby and Rackoff 1988) permutes all numbers of an even number of bits,
    as few as `size` needs. A result of `size` or more is permuted again until it is less ("cycle
    walking", Black and Rogaway 2002), so the numbers below `size` are permuted among themselves.

    Args:
        start: First position, at least 0.
        stream: Random stream that determines the permutation.
        size: Number of shuffled numbers.
        out: int64 `[positions]`, written: the number at position `start + i`, which is less than
            `size`.
    """
    if size <= FEW:
        order = np.empty(size, np.int64)
        _draw_order(stream, order)
        for i in range(len(out)):
            out[i] = order[start + i]
        return

    keys = np.empty(ROUNDS, np.uint64)
    _fill_keys(stream, keys)
    half = _count_half(size)
    for i in range(len(out)):
        out[i] = _permute(start + i, keys, size, half)


@kernel
def shuffle_places(
    places: Array, parts: Array, stream: np.uint64, names: Array, sizes: Array, out: Array
) -> None:
    """Write the numbers at any positions of several shuffled orders.

    Args:
        places: int64 `[R]`, positions, each less than the size of its order.
        parts: int64 `[R]`, index of the order of each position.
        stream: Random stream. Order p is the permutation of `shuffle_range` for the substream
            `fold_in(stream, names[p])`.
        names: int64 `[P]`, at least 0.
        sizes: int64 `[P]`, size of each order.
        out: int64 `[R]`, written.
    """
    # Prepare each order once: short orders as a whole, one after the other in `orders`, and the
    # keys of long ones.
    firsts = np.empty(len(names) + 1, np.int64)
    firsts[0] = 0
    for part in range(len(names)):
        firsts[part + 1] = firsts[part] + (sizes[part] if sizes[part] <= FEW else 0)

    orders = np.empty(firsts[-1], np.int64)
    keys = np.empty((len(names), ROUNDS), np.uint64)
    halves = np.empty(len(names), np.int64)
    for part in range(len(names)):
        substream = fold_in(stream, names[part])
        _draw_order(substream, orders[firsts[part] : firsts[part + 1]])
        _fill_keys(substream, keys[part])
        halves[part] = _count_half(sizes[part])

    for i in range(len(out)):
        part = parts[i]
        if sizes[part] <= FEW:
            out[i] = orders[firsts[part] + places[i]]
        else:
            out[i] = _permute(places[i], keys[part], sizes[part], halves[part])


@kernel
def _draw_order(stream: np.uint64, order: Array) -> None:
    """Write a random permutation of the numbers from 0, by Fisher-Yates."""
    for k in range(len(order)):
        order[k] = k
    for k in range(len(order) - 1):
        j = k + below(stream, k, len(order) - k)
        order[k], order[j] = order[j], order[k]


@inlined
def _fill_keys(stream: np.uint64, keys: Array) -> None:
    """Write the keys of the rounds of a Feistel network."""
    for r in range(ROUNDS):
        keys[r] = fold_in(stream, r)


@kernel
def _count_half(size: int) -> int:
    """Return half of the number of bits of the network for `size` numbers, at least 1."""
    half = 1
    while np.int64(1) << (2 * half) < size:
        half += 1
    return half


@inlined
def _permute(place: int, keys: Array, size: int, half: int) -> np.int64:
    """Return the number at one position, by the Feistel network of `shuffle_range`.

    Args:
        place: Position, less than `size`.
        keys: uint64 `[ROUNDS]`, key of each round.
        size: Number of shuffled numbers.
        half: Half of the number of bits.
    """
    mask = (np.uint64(1) << np.uint64(half)) - np.uint64(1)
    number = np.uint64(place)
    while True:
        left = number >> np.uint64(half)
        right = number & mask
        for r in range(ROUNDS):
            # A Feistel round: swap the halves, and XOR one of them with a hash of the other. It can
            # be inverted whatever the hash is, so it is a permutation.
            left, right = right, left ^ (mix(keys[r] ^ right) & mask)
        number = (left << np.uint64(half)) | right

        # Cycle walking: less than 4 passes on average, since `2 ** (2 * half)` is less than
        # `4 * size`.
        if number < np.uint64(size):
            return np.int64(number)
