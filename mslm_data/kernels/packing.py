"""Pack rows into a fixed length, and cut rows into batches by tokens."""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel

WORD = 64
"""Number of bits in a machine word of the bitmap in `best_fit`."""
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
    """Put each row into the fullest pack with enough room, or into a new pack (best fit).

    For each amount of room there is a stack of packs, a linked list, and a bit that is 1 if the
    stack is not empty. The fullest pack is found by a scan of these bits, 64 at a time.

    Args:
        lengths: int64 `[R]`, number of tokens of each row, in `[1, capacity]`.
        order: int64 `[R]`, row numbers in the order in which they are packed.
        capacity: Maximum number of tokens of a pack.
        tops: int64 `[capacity + 1]`, all -1; scratch memory: the top of the stack of each room.
        below: int64 `[R]`, scratch memory: the next pack on the stack, for each pack.
        bits: uint64 `[capacity // 64 + 1]`, all 0; scratch memory: the stacks that are not empty.
        packs: int64 `[R]`, written: pack of each row, numbered in the order of their first rows.

    Returns:
        The number of packs.
    """
    num_packs = 0
    for row in order:
        # Take the pack with the least room that is enough off its stack, or make a new pack.
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

        # Put the pack onto the stack of its remaining room.
        packs[row] = pack
        left = room - lengths[row]
        below[pack] = tops[left]
        tops[left] = pack
        bits[left // WORD] |= _ONE << np.uint64(left % WORD)
    return num_packs


@kernel
def _least_room(bits: Array, length: int) -> int:
    """Return the least room of at least `length` that some pack has, or -1."""
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
    """Return the index of the lowest 1 bit of a nonzero word."""
    place = 0
    while (bits >> np.uint64(place)) & _ONE == 0:
        place += 1
    return place


@kernel
def cut_to_budget(lengths: Array, budget: int, multiple_of: int, firsts: Array) -> int:
    """Cut consecutive rows into batches with a maximum number of tokens, padding included.

    The tokens of a batch are its number of rows times the length of its longest row, rounded up.

    Args:
        lengths: int64 `[R]`, number of tokens of each row.
        budget: Maximum number of tokens of a batch, at least the rounded length of the longest row.
        multiple_of: Lengths are rounded up to a multiple of this.
        firsts: int64 `[R]`, written from the left: first row of each batch.

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

        # The row does not fit: it is the first row of the next batch.
        if row == 0 or count * longest > budget:
            firsts[num_batches] = row
            num_batches += 1
            count = 1
            longest = width
    return num_batches
