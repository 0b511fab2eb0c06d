"""Shuffle rows by a computation, so that no order is stored."""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, inlined, kernel
from mslm_data.kernels.rng import below, fold_in, mix

ROUNDS = 6
FEW = 256
"""Numbers up to which an order is drawn as a whole. A Feistel network of so few bits does not draw
all orders alike: of five numbers some come 2.5 times as often as others."""


@kernel
def shuffle_range(start: int, stream: np.uint64, size: int, half: int, out: Array) -> None:
    """Write the rows at consecutive places of a shuffled order.

    Up to `FEW` rows are shuffled by Fisher and Yates. Of more, each place is found by itself: a
    Feistel network (Luby and Rackoff 1988) permutes the numbers of `2 * half` bits. A result that
    is not the number of a row is permuted again until it is one ("cycle walking", Black and Rogaway
    2002), so each row has exactly one place.

    Args:
        start: First place, at least 0.
        stream: uint64 that names the shuffle.
        size: Number of rows, at most `2 ** (2 * half)`.
        half: Bits of half a number.
        out: int64 `[places]`, written: the row at place `start + i`, which must be below `size`.
    """
    if size <= FEW:
        order = np.empty(size, np.int64)
        _draw_order(stream, order)
        for i in range(len(out)):
            out[i] = order[start + i]
        return

    keys = np.empty(ROUNDS, np.uint64)
    _fill_keys(stream, keys)
    for i in range(len(out)):
        out[i] = _permute(start + i, keys, size, half)


@kernel
def shuffle_places(
    places: Array, parts: Array, stream: np.uint64, names: Array, sizes: Array, out: Array
) -> None:
    """Write what stands at places of several shuffled orders.

    Args:
        places: int64 `[R]`, each below the size of its order.
        parts: int64 `[R]`, the order that each place is of.
        stream: uint64; its sub-stream of an order's name draws the order as in `shuffle_range`.
        names: int64 `[P]`, the name of each order, at least 0.
        sizes: int64 `[P]`, how many numbers each order has.
        out: int64 `[R]`, written.
    """
    # Short orders stand one after the other; of long ones there are the keys.
    firsts = np.empty(len(names) + 1, np.int64)
    firsts[0] = 0
    for part in range(len(names)):
        firsts[part + 1] = firsts[part] + (sizes[part] if sizes[part] <= FEW else 0)

    orders = np.empty(firsts[-1], np.int64)
    keys = np.empty((len(names), ROUNDS), np.uint64)
    halves = np.ones(len(names), np.int64)
    for part in range(len(names)):
        own = fold_in(stream, names[part])
        _draw_order(own, orders[firsts[part] : firsts[part + 1]])
        _fill_keys(own, keys[part])
        while np.int64(1) << (2 * halves[part]) < sizes[part]:
            halves[part] += 1

    for i in range(len(out)):
        part = parts[i]
        if sizes[part] <= FEW:
            out[i] = orders[firsts[part] + places[i]]
        else:
            out[i] = _permute(places[i], keys[part], sizes[part], halves[part])


@kernel
def _draw_order(stream: np.uint64, order: Array) -> None:
    """Write the numbers from 0 on, in an order that a stream draws (Fisher and Yates)."""
    for k in range(len(order)):
        order[k] = k
    for k in range(len(order) - 1):
        j = k + below(stream, k, len(order) - k)
        order[k], order[j] = order[j], order[k]


@inlined
def _fill_keys(stream: np.uint64, keys: Array) -> None:
    """Write the key of each round of a shuffle."""
    for r in range(ROUNDS):
        keys[r] = fold_in(stream, r)


@inlined
def _permute(place: int, keys: Array, size: int, half: int) -> np.int64:
    """Return what stands at one place; see `shuffle_range`.

    Args:
        place: Below `size`.
        keys: uint64 `[ROUNDS]`, the key of each round.
        size: How many numbers are shuffled.
        half: Bits of each half of a number.
    """
    mask = (np.uint64(1) << np.uint64(half)) - np.uint64(1)
    number = np.uint64(place)
    while True:
        left = number >> np.uint64(half)
        right = number & mask
        for r in range(ROUNDS):
            # The halves swap, and one of them takes up a hash of the other.
            left, right = right, left ^ (mix(keys[r] ^ right) & mask)
        number = (left << np.uint64(half)) | right
        if number < np.uint64(size):
            return np.int64(number)
