"""Tokenize words of printable ASCII by WordPiece, longest match first.

BERT's rules split a word into runs: a sequence of letters and digits, or one other character. Each
run is cut into pieces on its own. A vocabulary is two hash tables of pieces: those at the beginning
of a run, and those within a run (`##ing`, without its `##`).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from mslm_data.kernels._jit import Array, inlined, kernel
from mslm_data.kernels.hashing import find_slot, hash_beginnings

PieceTable: TypeAlias = tuple[Array, Array, Array, Array, Array, Array]
"""A table of K pieces: slots and hashes for `find_slot`; characters of all pieces, uint32; start
and end of each piece in these, integers `[K]`; token id of each piece, integers `[K]`."""


@kernel
def mark_printable(chars: Array, words: Array, out: Array) -> None:
    """Mark the words of printable ASCII characters other than space.

    Args:
        chars: uint32 `[C]`, code points.
        words: integers `[W, 2]`, character range of each word.
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
        chars: uint32 `[C]`, printable ASCII, in lower case for an uncased vocabulary.
        words: integers `[W, 2]`, character range of each word.
        begins: Table of pieces at the beginning of a run.
        goes_on: Table of pieces within a run.
        limits: Length of the longest piece, and maximum length of a run. Longer runs are unknown.
        unknown: Id of the unknown token, for runs that cannot be cut.
        out: int32 `[C, 4]`, written from the top: token id, first character within the word,
            character after the last, and number of the run within the word.
        counts: int64 `[W]`, written: number of pieces of each word.
    """
    longest, longest_run = limits
    hashes = np.empty(longest, np.uint64)
    # With a literal 0, `cut_run` would be compiled twice.
    total: int = np.int64(0)  # type: ignore[assignment]
    for w in range(len(words)):
        start, stop = words[w, 0], words[w, 1]
        first = total
        run = 0

        # Split the word into runs `[t, end)`.
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

            # Positions relative to the word.
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
        chars: uint32, code points.
        start: First character of the run.
        stop: Half open.
        begins: Table of pieces at the beginning of a run.
        goes_on: Table of pieces within a run.
        hashes: uint64, as long as the longest piece; scratch memory.
        out: int32 `[., 4]`, written from `first` on: id, first character, character after the last.
        first: Index of the first piece in `out`.
    """
    count = 0
    table = begins
    t = start
    while t < stop:
        # Hash all prefixes in one pass, which costs as much as the hash of the longest. Then try
        # them from the longest to the shortest.
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
    """Return the number of the piece that equals a range of characters, or -1.

    Args:
        chars: uint32, code points.
        start: First character.
        stop: Half open.
        hashed: Hash of the range.
        table: Table of pieces.
    """
    slots, hashes, known, starts, ends, _ = table
    place = find_slot(slots, hashed, chars, start, stop, known, starts, ends, hashes)
    return np.int64(slots[place])


@inlined
def is_letter_or_digit(char: int) -> bool:
    """Return whether an ASCII character is a letter or a digit."""
    return (
        ((char >= 48) & (char <= 57))
        | ((char >= 65) & (char <= 90))
        | ((char >= 97) & (char <= 122))
    )
