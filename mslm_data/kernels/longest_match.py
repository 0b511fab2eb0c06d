"""Cut words into the pieces of a WordPiece vocabulary, longest match first.

Words are of printable ASCII. BERT's rules make runs of them: a run of letters and digits, or one
other character, each cut on its own. A vocabulary is two hash tables of pieces, those that a run
may begin with and those that go on within it (`##ing`, without its `##`).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from mslm_data.kernels._jit import Array, inlined, kernel
from mslm_data.kernels.hashing import find_slot, hash_beginnings

PieceTable: TypeAlias = tuple[Array, Array, Array, Array, Array, Array]
"""Slots and hashes as of `find_slot`; the characters of K pieces, uint32, and where each begins and
ends there, integers `[K]`; the id of each, integers `[K]`."""


@kernel
def mark_printable(chars: Array, words: Array, out: Array) -> None:
    """Mark the words that have only printable characters of ASCII, and no space.

    Args:
        chars: uint32 `[C]`, code points.
        words: integers `[W, 2]`: each word's characters, half open.
        out: bool `[W]`, written.
    """
    for w in range(len(words)):
        printable = True
        for t in range(words[w, 0], words[w, 1]):
            printable &= 33 <= chars[t] <= 126
        out[w] = printable


@kernel
def cut_words(
    chars: Array,
    words: Array,
    begins: PieceTable,
    goes_on: PieceTable,
    limits: tuple[int, int],
    unknown: int,
    out: Array,
    counts: Array,
) -> int:
    """Cut words into pieces, and return the number of pieces.

    Args:
        chars: uint32 `[C]`, printable ASCII, in small letters if the vocabulary is of such.
        words: integers `[W, 2]`: each word's characters, half open.
        begins: The pieces that a run may begin with.
        goes_on: The pieces that may follow within a run.
        limits: The characters of the longest piece; and those of the longest run that is cut. A
            longer one is unknown.
        unknown: The id of a run that cannot be cut, as one piece.
        out: int32 `[C, 4]`, written up to the number of pieces: id, first character within the
            word, character after the last, number of the run within the word.
        counts: int64 `[W]`, written: the pieces of each word.
    """
    longest, longest_run = limits
    hashes = np.empty(longest, np.uint64)
    # A literal 0 would have `cut_run` compiled twice.
    total: int = np.int64(0)  # type: ignore[assignment]
    for w in range(len(words)):
        start, stop = words[w, 0], words[w, 1]
        first = total
        run = 0

        t = start
        while t < stop:
            end = t + 1
            if is_letter_or_digit(chars[t]):
                while end < stop and is_letter_or_digit(chars[end]):
                    end += 1

            count = 0
            if end - t <= longest_run:
                count = cut_run(chars, t, end, begins, goes_on, hashes, out, total)
            if count == 0:
                out[total, 0] = unknown
                out[total, 1] = t
                out[total, 2] = end
                count = 1

            for p in range(total, total + count):
                out[p, 1] -= start
                out[p, 2] -= start
                out[p, 3] = run
            total += count
            run += 1
            t = end

        counts[w] = total - first
    return total


@kernel
def cut_run(
    chars: Array,
    start: int,
    stop: int,
    begins: PieceTable,
    goes_on: PieceTable,
    hashes: Array,
    out: Array,
    first: int,
) -> int:
    """Cut a run into pieces, and return their number; 0 if it cannot be cut.

    Args:
        chars: uint32, characters.
        start: The run's first.
        stop: Half open.
        begins: The pieces that it may begin with.
        goes_on: The pieces that may follow.
        hashes: uint64, as long as the longest piece; overwritten.
        out: int32 `[., 4]`, written from `first` on: id, first character, character after the last.
        first: Where the first piece is written.
    """
    count = 0
    table = begins
    t = start
    while t < stop:
        # The hash of all that a piece may be, shortest first, costs that of the longest.
        room = min(stop - t, len(hashes))
        hash_beginnings(chars, t, room, hashes)

        length = room + 1
        number = np.int64(-1)
        while number < 0 and length > 1:
            length -= 1
            number = find_piece(chars, t, t + length, hashes[length - 1], table)
        if number < 0:
            return 0

        out[first + count, 0] = table[5][number]
        out[first + count, 1] = t
        out[first + count, 2] = t + length
        count += 1
        table = goes_on
        t += length
    return count


@inlined
def find_piece(
    chars: Array, start: int, stop: int, hashed: np.uint64, table: PieceTable
) -> np.int64:
    """Return the number of the piece that a range of characters is, or -1.

    Args:
        chars: uint32, characters.
        start: The first.
        stop: Half open.
        hashed: Their hash.
        table: The pieces.
    """
    slots, hashes, known, starts, ends, _ = table
    place = find_slot(slots, hashed, chars, start, stop, known, starts, ends, hashes)
    return np.int64(slots[place])


@inlined
def is_letter_or_digit(char: int) -> bool:
    """Return whether a character of ASCII is a letter or a digit."""
    return (
        ((char >= 48) & (char <= 57))
        | ((char >= 65) & (char <= 90))
        | ((char >= 97) & (char <= 122))
    )
