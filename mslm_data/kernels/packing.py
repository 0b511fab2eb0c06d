"""Put rows together whose tokens fill a budget."""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel

WORD = 64
"""Bits of a word of the map of rooms in `best_fit`."""
_ONE = np.uint64(1)


@kernel
def best_fit(
    lengths: Array,
    order: Array,
    capacity: int,
    tops: Array,
    below: Array,
    bits: Array,
    packs: Array,
) -> int:
    """Put each row into the fullest pack that has room for it, or else into a new one.

    Packs with the same room lie on a stack, and a bit says whether the stack has any. So the least
    room that is enough is found by looking at bits, 64 at a time.

    Args:
        lengths: int64 `[R]`, tokens of each row, from 1 to the capacity.
        order: int64 `[R]`, the rows in the order in which they are put.
        capacity: Tokens of a pack at most.
        tops: int64 `[capacity + 1]`, -1 everywhere: the top of each room's stack, scratch data.
        below: int64 `[R]`, what lies below each pack on its stack, scratch data.
        bits: uint64 `[capacity // 64 + 1]`, 0 everywhere: the rooms whose stack is not empty,
            scratch data.
        packs: int64 `[R]`, written: the pack of each row, numbered as they are begun.

    Returns:
        The number of packs.
    """
    num_packs = 0
    for row in order:
        room = _least_room(bits, lengths[row])
        if room < 0:
            pack = num_packs
            num_packs += 1
            room = capacity
        else:
            pack = tops[room]
            tops[room] = below[pack]
            if tops[room] < 0:
                bits[room // WORD] &= ~(_ONE << np.uint64(room % WORD))

        packs[row] = pack
        left = room - lengths[row]
        below[pack] = tops[left]
        tops[left] = pack
        bits[left // WORD] |= _ONE << np.uint64(left % WORD)
    return num_packs


@kernel
def _least_room(bits: Array, length: int) -> int:
    """Return the least room of a pack that holds so many tokens, -1 if no pack has it."""
    word = length // WORD
    rooms = bits[word] >> np.uint64(length % WORD)
    if rooms != 0:
        return length + _lowest_bit(rooms)

    for later in range(word + 1, len(bits)):
        if bits[later] != 0:
            return later * WORD + _lowest_bit(bits[later])
    return -1


@kernel
def _lowest_bit(bits: np.uint64) -> int:
    """Return the place of the lowest bit that is set, of 64 bits that are not all 0."""
    place = 0
    while (bits >> np.uint64(place)) & _ONE == 0:
        place += 1
    return place


@kernel
def cut_to_budget(lengths: Array, budget: int, multiple_of: int, firsts: Array) -> int:
    """Cut rows that come one after the other into batches whose tokens fit a budget.

    A batch takes rows as long as their number times the longest, rounded up, is in the budget.

    Args:
        lengths: int64 `[R]`, tokens of each row.
        budget: Tokens of a batch at most, padding counted; enough for the longest row alone.
        multiple_of: The longest is rounded up to a multiple of this.
        firsts: int64 `[R]`, written: the first row of each batch; items after these may hold
            scratch data.

    Returns:
        The number of batches.
    """
    num_batches = 0
    count = 0
    longest = 0
    for row in range(len(lengths)):
        width = -(-lengths[row] // multiple_of) * multiple_of
        longest = max(longest, width)
        count += 1
        if row == 0 or count * longest > budget:
            firsts[num_batches] = row
            num_batches += 1
            count = 1
            longest = width
    return num_batches
