"""Number terms by their hashes, in a table of bounded size."""

from __future__ import annotations

from mslm_data.kernels._jit import Array, kernel
from mslm_data.kernels.hashing import EMPTY, find_key


@kernel
def number_terms(
    hashes: Array, keys: Array, numbers: Array, known: int, most: int, firsts: Array, out: Array
) -> int:
    """Number terms in order of first appearance, and return how many are known then.

    Args:
        hashes: uint64 `[M]`, a hash of each mention's term.
        keys: uint64 `[2**k]`, the table; written. At least one place stays empty.
        numbers: int32 `[2**k]`, the number of the key at each place; written.
        known: Number of terms in the table.
        most: Maximum number of terms. Terms that come after these get no number.
        firsts: int64 `[M]`, written from the left: the mention in which each new term came first.
        out: int64 `[M]`, written: the number of each mention's term, or -1.
    """
    before = known
    for m in range(len(hashes)):
        place = find_key(keys, hashes[m])
        if keys[place] == EMPTY and known < most:
            keys[place] = hashes[m]
            numbers[place] = known
            firsts[known - before] = m
            known += 1
        out[m] = numbers[place] if keys[place] != EMPTY else -1
    return known


@kernel
def find_terms(hashes: Array, keys: Array, numbers: Array, out: Array) -> None:
    """Find the numbers of terms.

    Args:
        hashes: uint64 `[M]`, a hash of each mention's term.
        keys: uint64 `[2**k]`, the table of `number_terms`.
        numbers: int32 `[2**k]`, the number of the key at each place.
        out: int64 `[M]`, written: the number of each mention's term, or -1.
    """
    for m in range(len(hashes)):
        place = find_key(keys, hashes[m])
        out[m] = numbers[place] if keys[place] != EMPTY else -1


@kernel
def move_terms(old_keys: Array, old_numbers: Array, keys: Array, numbers: Array) -> None:
    """Copy a table into a larger one.

    Args:
        old_keys: uint64 `[2**k]`, the table of `number_terms`.
        old_numbers: int32 `[2**k]`, the number of the key at each place.
        keys: uint64 `[2**n]`, all `EMPTY`; written.
        numbers: int32 `[2**n]`, written.
    """
    for k in range(len(old_keys)):
        if old_keys[k] != EMPTY:
            place = find_key(keys, old_keys[k])
            keys[place] = old_keys[k]
            numbers[place] = old_numbers[k]
