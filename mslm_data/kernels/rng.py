"""Stateless draws: draw k of a row is a pure function of the row's stream and of k.

A stream is `fold_in(fold_in(fold_in(key, seed), epoch), pick)`. Draw k is output k of a SplitMix64
generator (Steele, Lea and Flood 2014) seeded with the stream. So a row's draws do not depend on the
rows around it, on threads, or on how many draws others took.
"""

from __future__ import annotations

import numpy as np

from mslm_data.kernels._jit import Array, inlined, kernel

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2**64 divided by the golden ratio: the step from one state of SplitMix64 to the next."""

# Numbers that have a name here cost no call of `np.uint64` that would be compiled.
_ONE = np.uint64(1)
_MIX_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_MIX_SECOND = np.uint64(0x94D049BB133111EB)


@kernel
def mix(x: np.uint64) -> np.uint64:
    """Return SplitMix64's finaliser of x: a bijection; every bit of x moves every bit of it."""
    x = (x ^ (x >> 30)) * _MIX_FIRST
    x = (x ^ (x >> 27)) * _MIX_SECOND
    return x ^ (x >> 31)


@inlined
def fold_in(stream: np.uint64, value: int) -> np.uint64:
    """Return the sub-stream of a stream that `value` (0 or more) names."""
    return mix(stream ^ mix(np.uint64(value) + GOLDEN))


@inlined
def bits(stream: np.uint64, k: int) -> np.uint64:
    """Return draw k (0 or more) of a stream: 64 random bits."""
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
    """Return the limit below which `bits53` falls with a chance.

    `bits53 < chance_limit(chance)` holds exactly where `uniform < chance` does. Loops that compare
    integers compile to SIMD.
    """
    return np.uint64(np.ceil(chance * 2.0**53))


@inlined
def below(stream: np.uint64, k: int, m: int) -> np.int64:
    """Return draw k as an integer in `[0, m)`, for m up to 2**31.

    The chance of a value differs from 1/m by at most 2**-32 (Lemire 2019, without the rejection).
    """
    high = bits(stream, k) >> 32
    return np.int64((high * np.uint64(m)) >> 32)


@kernel
def name_streams(keys: Array, seed: int, epoch: int, pick: int, out: Array) -> None:
    """Give each row its stream for one pick of one epoch.

    Args:
        keys: uint64 `[N]`.
        seed: In `[0, 2**63)`, as are epoch and pick.
        epoch: Which pass over the data.
        pick: Which choice of a strategy, so that no two choices share draws.
        out: uint64 `[N]`, written.
    """
    for i in range(len(keys)):
        out[i] = fold_in(fold_in(fold_in(keys[i], seed), epoch), pick)


@kernel
def first_uniforms(streams: Array, out: Array) -> None:
    """Draw one number for each row.

    Args:
        streams: uint64 `[N]`.
        out: float64 `[N]`, written: draw 0 of each stream, in `[0, 1)`.
    """
    for i in range(len(streams)):
        out[i] = uniform(streams[i], 0)
