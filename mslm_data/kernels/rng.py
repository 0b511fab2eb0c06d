"""Stateless random numbers: draw k of a row is a pure function of the row's stream and of k.

A stream is `fold_in(fold_in(fold_in(key, seed), epoch), pick)`. Draw k is output k of a SplitMix64
generator (Steele, Lea and Flood 2014) seeded with the stream. So the draws of a row do not depend
on other rows, on threads, or on the number of draws of other picks.
"""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, inlined, kernel

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2**64 divided by the golden ratio: the increment of SplitMix64's state."""

# Constants of the module, since a call of `np.uint64` in a kernel would be compiled each time.
_ONE = np.uint64(1)
_MIX_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_MIX_SECOND = np.uint64(0x94D049BB133111EB)


@kernel
def mix(x: np.uint64) -> np.uint64:
    """Return the finalizer of SplitMix64: a bijection in which each bit of x affects all bits."""
    x = (x ^ (x >> 30)) * _MIX_FIRST
    x = (x ^ (x >> 27)) * _MIX_SECOND
    return x ^ (x >> 31)


@inlined
def fold_in(stream: np.uint64, value: int) -> np.uint64:
    """Return the substream of a stream for a value of at least 0."""
    return mix(stream ^ mix(np.uint64(value) + GOLDEN))


@inlined
def bits(stream: np.uint64, k: int) -> np.uint64:
    """Return draw k of a stream, for k of at least 0, as 64 random bits."""
    return mix(stream + GOLDEN * (np.uint64(k) + _ONE))


@inlined
def bits53(stream: np.uint64, k: int) -> np.uint64:
    """Return draw k as an integer in `[0, 2**53)`."""
    return bits(stream, k) >> 11


@inlined
def uniform(stream: np.uint64, k: int) -> float:
    """Return draw k as a multiple of 2**-53 in `[0, 1)`."""
    return np.float64(bits53(stream, k)) * 2.0**-53


@inlined
def chance_limit(chance: float) -> np.uint64:
    """Return the integer limit for a probability: `bits53 < limit` exactly if `uniform < chance`.

    Loops that compare integers compile to SIMD.
    """
    return np.uint64(np.ceil(chance * 2.0**53))


@inlined
def below(stream: np.uint64, k: int, m: int) -> np.int64:
    """Return draw k as an integer in `[0, m)`, for m up to 2**31.

    By multiplication (Lemire 2019), without rejection: the probability of a value differs from 1/m
    by at most 2**-32.
    """
    high = bits(stream, k) >> 32
    return np.int64((high * np.uint64(m)) >> 32)


@kernel
def name_streams(keys: Array, seed: int, epoch: int, pick: int, out: Array) -> None:
    """Derive the random stream of each row for a seed, an epoch and a pick.

    Args:
        keys: uint64 `[N]`, keys of the rows.
        seed: In `[0, 2**63)`.
        epoch: In `[0, 2**63)`.
        pick: Number of the pick within the strategy, in `[0, 2**63)`. No two picks share draws.
        out: uint64 `[N]`, written: the streams.
    """
    for i in range(len(keys)):
        out[i] = fold_in(fold_in(fold_in(keys[i], seed), epoch), pick)


@kernel
def first_uniforms(streams: Array, out: Array) -> None:
    """Draw one number in `[0, 1)` for each row.

    Args:
        streams: uint64 `[N]`.
        out: float64 `[N]`, written: draw 0 of each stream.
    """
    for i in range(len(streams)):
        out[i] = uniform(streams[i], 0)
