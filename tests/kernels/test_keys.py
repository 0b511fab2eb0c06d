from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.ragged import Ragged
from mslm_data.kernels.keys import digest_rows, name_rows
from tests.reference import rng

one_row = st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**31), st.integers(0, 2**31))


@given(st.lists(one_row, max_size=6))
def test_name_rows__equals_its_twin(rows: list[tuple[int, int, int]]) -> None:
    digests, sentences, windows = zip(*rows, strict=True) if rows else ((), (), ())
    out = np.empty(len(rows), np.uint64)

    name_rows(
        np.array(digests, np.uint64),
        np.array(sentences, np.int64),
        np.array(windows, np.int64),
        out,
    )

    assert out.tolist() == [rng.fold_in(rng.fold_in(d, s), w) for d, s, w in rows]


def test_name_rows__distinguishes_sentences_and_windows() -> None:
    grid = [(d, s, w) for d in range(4) for s in range(30) for w in range(30)]
    out = np.empty(len(grid), np.uint64)

    digests, sentences, windows = np.array(grid, np.int64).T.copy()
    name_rows(digests.astype(np.uint64), sentences, windows, out)

    assert len(np.unique(out)) == len(grid)


@given(st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=5), max_size=5))
def test_digest_rows__equals_its_twin(rows: list[list[int]]) -> None:
    ids, out = Ragged.from_rows(rows, np.int32), np.empty(len(rows), np.uint64)

    digest_rows(ids.offsets, ids.values, out)

    assert out.tolist() == [digest(row) for row in rows]


def digest(row: list[int]) -> int:
    state = 14695981039346656037  # FNV-1a of 64 bits, over ids in place of bytes
    for id_ in row:
        state = (state ^ id_) * 1099511628211 % 2**64
    return rng.mix(state ^ state >> 32)


def test_digest_rows__distinguishes_short_rows() -> None:
    ids = np.array([(a, b, c) for a in range(40) for b in range(40) for c in range(40)], np.int32)
    out = np.empty(len(ids), np.uint64)

    digest_rows(np.arange(0, ids.size + 1, 3), ids.ravel(), out)

    assert len(np.unique(out)) == len(ids)
    assert np.unpackbits(out.view(np.uint8)).mean() == pytest.approx(0.5, abs=0.002)
