"""Shuffle rows by a computation, so that no order is stored."""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, inlined, kernel
from mslm_data.kernels.draws import fold, mix

ROUNDS = 6


@kernel
def shuffled(start: int, stream: np.uint64, size: int, half: int, out: Array) -> None:
    """Write the rows at consecutive places of a shuffled order.

    A Feistel network (Luby and Rackoff 1988) permutes the numbers of `2 * half` bits. A result that
    is not the number of a row is permuted again until it is one ("cycle walking", Black and
    Rogaway 2002), so each row has exactly one place.

    Args:
        start: First place, at least 0.
        stream: uint64 that names the shuffle.
        size: Number of rows, at most `2 ** (2 * half)`.
        half: Bits of half a number.
        out: int64 `[places]`, written: the row at place `start + i`, which must be below `size`.
    """
    keys = np.empty(ROUNDS, np.uint64)
    _fill_keys(stream, keys)
    for i in range(len(out)):
        out[i] = _permuted(start + i, keys, size, half)


@kernel
def shuffled_among(
    places: Array, parts: Array, stream: np.uint64, names: Array, sizes: Array, out: Array
) -> None:
    """Write what stands at places of several shuffled orders.

    Args:
        places: int64 `[R]`, each below the size of its order.
        parts: int64 `[R]`, the order that each place is of.
        stream: uint64; its sub-stream of an order's name draws the order as in `shuffled`.
        names: int64 `[P]`, the name of each order, at least 0.
        sizes: int64 `[P]`, how many numbers each order has.
        out: int64 `[R]`, written.
    """
    keys = np.empty((len(names), ROUNDS), np.uint64)
    halves = np.ones(len(names), np.int64)
    for part in range(len(names)):
        _fill_keys(fold(stream, names[part]), keys[part])
        while np.int64(1) << (2 * halves[part]) < sizes[part]:
            halves[part] += 1

    for i in range(len(out)):
        part = parts[i]
        out[i] = _permuted(places[i], keys[part], sizes[part], halves[part])


@inlined
def _fill_keys(stream: np.uint64, keys: Array) -> None:
    """Write the key of each round of a shuffle."""
    for r in range(ROUNDS):
        keys[r] = fold(stream, r)


@inlined
def _permuted(place: int, keys: Array, size: int, half: int) -> np.int64:
    """Return what stands at one place; see `shuffled`.

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
