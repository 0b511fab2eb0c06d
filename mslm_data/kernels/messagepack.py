"""Read lists of lists of integers, packed as MessagePack, into flat arrays.

Python objects are read fastest by a library made to read them: msgspec packs lists in a fifth of
the time that `numpy.fromiter` takes, and its output is simple to read
(github.com/msgpack/msgpack/blob/master/spec.md).
"""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, kernel


@kernel
def read_big_endian(packed: Array, start: int, size: int) -> int:
    """Return the `size` bytes from `start` on as an unsigned number, the highest byte first."""
    number = 0
    for i in range(start, start + size):
        number = (number << 8) | int(np.int64(packed[i]))
    return number


@kernel
def read_length(packed: Array, start: int) -> tuple[int, int]:
    """Return the length of the array that begins at `start`, and where its first item begins.

    The length is -1 where no array begins.
    """
    first = int(np.int64(packed[start]))
    if 0x90 <= first <= 0x9F:  # up to 15 items: the length stands in the low bits
        return first - 0x90, start + 1
    if first in (0xDC, 0xDD):  # the length stands in the next 2 or 4 bytes
        size = 2 << (first - 0xDC)
        return read_big_endian(packed, start + 1, size), start + 1 + size
    return -1, start


@kernel
def unpack_lists(packed: Array, values: Array, offsets: Array) -> bool:
    """Read N lists of integers of 32 bits, booleans, and None, which becomes -1.

    Args:
        packed: uint8: one array of N arrays.
        values: int32, at least as long as `packed`, written: the items of all lists.
        offsets: int64 `[N + 1]`, written: where each list begins in `values`.

    Returns:
        Whether the lists hold nothing else. If not, `values` and `offsets` hold scratch data.
    """
    place = read_length(packed, 0)[1]
    offsets[0] = 0
    t = 0
    for i in range(len(offsets) - 1):
        length, place = read_length(packed, place)
        if length < 0:
            return False

        for _ in range(length):
            first = int(np.int64(packed[place]))
            size = 0  # bytes after the first
            if first < 0x80 or first >= 0xE0:  # one byte; the last 32 numbers are negative
                values[t] = first - 256 * (first >> 7)
            elif 0xCC <= first <= 0xCE:  # 1, 2 or 4 bytes without a sign
                size = 1 << (first - 0xCC)
                number = read_big_endian(packed, place + 1, size)
                if number >= 2**31:
                    return False
                values[t] = number
            elif 0xD0 <= first <= 0xD2:  # 1, 2 or 4 bytes with a sign: two's complement
                size = 1 << (first - 0xD0)
                number = read_big_endian(packed, place + 1, size)
                values[t] = number - ((number >> (8 * size - 1)) << (8 * size))
            elif first == 0xC0:  # None
                values[t] = -1
            elif first in (0xC2, 0xC3):  # False, True
                values[t] = first - 0xC2
            else:
                return False
            t += 1
            place += 1 + size
        offsets[i + 1] = t
    return True
