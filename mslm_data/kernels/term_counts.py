"""Number terms by their hashes, in a table of bounded size."""

from __future__ import annotations

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.hashing import EMPTY, find_key


@kernel
def number_terms(
    hashes: Array,
    keys: Array,
    numbers: Array,
    known: int,
    max_terms: int,
    firsts: Array,
    out: Array,
) -> int:
    """Number terms in order of first appearance, and return the number of terms in the table.

    Args:
        hashes: uint64 `[M]`, hash of each mention's term.
        keys: uint64 `[2**k]`, table of the hashes; changed. At least one slot stays empty.
        numbers: int32 `[2**k]`, number of each slot's term; changed.
        known: Number of terms in the table before the call.
        max_terms: Maximum number of terms in the table. Further terms get no number.
        firsts: int64 `[M]`, written from the left: first mention of each new term.
        out: int64 `[M]`, written: number of each mention's term, or -1.
    """
    before = known
    for m in range(len(hashes)):
        place = find_key(keys, hashes[m])
        if keys[place] == EMPTY and known < max_terms:
            keys[place] = hashes[m]
            numbers[place] = known
            firsts[known - before] = m
            known += 1
        out[m] = numbers[place] if keys[place] != EMPTY else -1
    return known


@kernel
def find_terms(hashes: Array, keys: Array, numbers: Array, out: Array) -> None:
    """Look up the numbers of terms.

    Args:
        hashes: uint64 `[M]`, hash of each mention's term.
        keys: uint64 `[2**k]`, table from `number_terms`.
        numbers: int32 `[2**k]`, number of each slot's term.
        out: int64 `[M]`, written: number of each mention's term, or -1.
    """
    for m in range(len(hashes)):
        place = find_key(keys, hashes[m])
        out[m] = numbers[place] if keys[place] != EMPTY else -1


@kernel
def move_terms(old_keys: Array, old_numbers: Array, keys: Array, numbers: Array) -> None:
    """Copy a table into a larger one.

    Args:
        old_keys: uint64 `[2**k]`, table from `number_terms`.
        old_numbers: int32 `[2**k]`, number of each slot's term.
        keys: uint64 `[2**n]`, all `EMPTY`; written.
        numbers: int32 `[2**n]`, written.
    """
    for k in range(len(old_keys)):
        if old_keys[k] != EMPTY:
            place = find_key(keys, old_keys[k])
            keys[place] = old_keys[k]
            numbers[place] = old_numbers[k]
