from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.kernels.rng import below, bits, fold_in, mix, name_streams, uniform
from tests.kernels.fairness import is_fair
from tests.reference import rng as twin

WORDS = st.integers(0, 2**64 - 1)
COUNTS = st.integers(0, 2**63 - 1)


def test_bits__equal_splitmix64():
    published = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]

    assert [int(bits(np.uint64(1234567), k)) for k in range(5)] == published


@given(WORDS)
def test_mix__equals_twin(x):
    assert int(mix(np.uint64(x))) == twin.mix(x)


@given(WORDS, COUNTS)
def test_fold__equals_twin(stream, value):
    assert int(fold_in(np.uint64(stream), value)) == twin.fold_in(stream, value)


@given(WORDS, st.integers(0, 2**40), st.integers(1, 2**31))
def test_draws__equal_twin(stream, k, m):
    assert int(bits(np.uint64(stream), k)) == twin.bits(stream, k)
    assert uniform(np.uint64(stream), k) == twin.uniform(stream, k)
    assert int(below(np.uint64(stream), k, m)) == twin.below(stream, k, m)


@given(st.lists(WORDS, max_size=5), COUNTS, COUNTS, COUNTS)
def test_name_streams__equals_twin(keys, seed, epoch, number):
    out = np.empty(len(keys), np.uint64)
    name_streams(np.array(keys, np.uint64), seed, epoch, number, out)

    assert out.tolist() == [twin.numbered(key, seed, epoch, number) for key in keys]


def test_name_streams__read_only_keys():
    keys = np.arange(3, dtype=np.uint64)
    keys.flags.writeable = False
    out = np.empty(3, np.uint64)
    name_streams(keys, 1, 2, 3, out)

    assert out.tolist() == [twin.numbered(key, 1, 2, 3) for key in range(3)]


@pytest.mark.parametrize("m", [2, 3, 7, 36])
def test_below__every_number_is_as_likely(m):
    assert is_fair([int(below(np.uint64(stream), 0, m)) for stream in range(3000)], range(m))


@pytest.mark.parametrize(
    ("name", "pair"),
    [
        ("draws", lambda i: (twin.stream(i, 0, 0, 0), 0, twin.stream(i, 0, 0, 0), 1)),
        (
            "neighbouring keys",
            lambda i: (twin.stream(2 * i, 0, 0, 0), 0, twin.stream(2 * i + 1, 0, 0, 0), 0),
        ),
        ("seeds", lambda i: (twin.stream(i, 0, 0, 0), 0, twin.stream(i, 1, 0, 0), 0)),
        ("epochs", lambda i: (twin.stream(i, 0, 0, 0), 0, twin.stream(i, 0, 1, 0), 0)),
        ("stages", lambda i: (twin.stream(i, 0, 0, 0), 0, twin.stream(i, 0, 0, 1), 0)),
        (
            "seed and epoch swapped",
            lambda i: (twin.stream(i, 0, 1, 0), 0, twin.stream(i, 1, 0, 0), 0),
        ),
        (
            "rows of one seed",
            lambda i: (twin.stream(0, i, 0, 0), 0, twin.stream(0, i + 1, 0, 0), 0),
        ),
    ],
)
def test_draws__are_independent(name, pair):
    pairs = []
    for i in range(3000):
        stream, k, other, other_k = pair(i)
        pairs.append(
            (int(below(np.uint64(stream), k, 6)), int(below(np.uint64(other), other_k, 6)))
        )

    assert is_fair(pairs, [(a, b) for a in range(6) for b in range(6)]), name
