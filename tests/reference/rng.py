"""Define what a draw is, in Python's own integers: the slow twin of `kernels/rng.py`."""

from __future__ import annotations

from fractions import Fraction

GOLDEN = 0x9E3779B97F4A7C15
WRAP = 2**64


def mix(x: int) -> int:
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % WRAP
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % WRAP
    return x ^ (x >> 31)


def fold_in(stream: int, value: int) -> int:
    return mix(stream ^ mix((value + GOLDEN) % WRAP))


def stream(key: int, seed: int, epoch: int, stage: int) -> int:
    """Return the stream of a pick for a purpose; `stage` is `pick + (purpose << 16)`."""
    return named(key, seed, epoch, (stage & 0xFFFF,), stage >> 16)


def named(key: int, seed: int, epoch: int, path: tuple[int, ...], purpose: int) -> int:
    """Return the stream of a path and a purpose; see `mask/rng.py`."""
    number = 0
    for part in (*path, purpose):
        number = fold_in(number, part)
    return numbered(key, seed, epoch, number % 2**63)


def numbered(key: int, seed: int, epoch: int, number: int) -> int:
    """Return the stream of a row by its number."""
    return fold_in(fold_in(fold_in(key, seed), epoch), number)


def bits(stream: int, k: int) -> int:
    return mix((stream + GOLDEN * (k + 1)) % WRAP)


def uniform(stream: int, k: int) -> Fraction:
    return Fraction(bits(stream, k) // 2**11, 2**53)


def below(stream: int, k: int, m: int) -> int:
    return bits(stream, k) // 2**32 * m // 2**32


def choose(stream: int, pool: list[int], count: int) -> set[int]:
    """Return `count` of the pool: the first steps of a Fisher-Yates shuffle."""
    pool = list(pool)
    for k in range(count):
        j = k + below(stream, k, len(pool) - k)
        pool[k], pool[j] = pool[j], pool[k]
    return set(pool[:count])
