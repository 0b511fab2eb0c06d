from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.ragged import Ragged
from mslm_data.kernels.tokens import find_units
from mslm_data.mask.units import UNITS, Units, chunks, released_pieces, words
from tests.generate import (
    CLS,
    SEP,
    Row,
    examples_of,
    fixed_examples,
    random_examples,
    row_of,
    rows_of,
)
from tests.reference import joint
from tests.reference import whole_words as twins

NUMBERS = st.lists(st.lists(st.integers(-2, 3), max_size=12), max_size=5)


def pairs(units: Units) -> list[list[tuple[int, int]]]:
    return [
        list(zip(*row, strict=True))
        for row in zip(units.starts.tolist(), units.ends.tolist(), strict=True)
    ]


@st.composite
def with_characters(draw):
    """Return examples with character offsets: adjacent, after a gap, or overlapping tokens."""
    examples = draw(random_examples())
    starts, ends = [], []
    for row in rows_of(examples):
        place, bounds = 0, []
        for word in row.word_ids:
            if word < 0:
                bounds.append((-1, -1))
                continue
            start = max(place + draw(st.sampled_from([0, 0, 0, 1, 2, -1])), 0)
            place = max(place, start + draw(st.integers(0 if start < place else 1, 3)))
            bounds.append((start, place))
        starts.append([start for start, _ in bounds])
        ends.append([end for _, end in bounds])
    return replace(
        examples,
        token_starts=Ragged.from_rows(starts, np.int32),
        token_ends=Ragged.from_rows(ends, np.int32),
    )


@given(NUMBERS)
def test_find_units__equals_twin(rows):
    numbers = Ragged.from_rows(rows, np.int64)
    size = len(numbers.values)
    starts, ends = np.full(size, -9, np.int32), np.full(size, -9, np.int32)
    offsets = np.full(len(rows) + 1, -9, np.int64)
    find_units(numbers.offsets, numbers.values, starts, ends, offsets)

    expected = [runs(row) for row in rows]
    flat = [run for row in expected for run in row]
    assert offsets.tolist() == [sum(map(len, expected[:i])) for i in range(len(rows) + 1)]
    assert list(zip(starts[: len(flat)].tolist(), ends[: len(flat)].tolist(), strict=True)) == flat
    assert (starts[len(flat) + 1 :] == -9).all()


def runs(row):
    """Cut a row between different numbers, and drop negative ones."""
    cuts = [0, *(t for t in range(1, len(row)) if row[t] != row[t - 1]), len(row)]
    return [(a, b) for a, b in pairwise(cuts) if a < b and row[a] >= 0]


@given(random_examples())
def test_words__equals_twin(examples):
    assert pairs(words(examples)) == [twins.words(row) for row in rows_of(examples)]


@given(with_characters())
def test_chunks__equals_twin(examples):
    columns = zip(
        rows_of(examples), examples.token_starts.tolist(), examples.token_ends.tolist(), strict=True
    )

    assert pairs(chunks(examples)) == [
        twins.chunks(row, starts, ends) for row, starts, ends in columns
    ]


@given(random_examples())
def test_chunks__without_characters_are_words(examples):
    assert pairs(chunks(examples)) == pairs(words(examples))


def test_chunks__of_a_sentence():
    """`results, in` twice: the comma belongs to its word, white space separates."""
    rows = [
        Row(key=k, ids=[CLS, 10, 11, 12, 13, SEP], word_ids=[-1, 0, 0, 1, 2, -1]) for k in range(2)
    ]
    starts, ends = [[-1, 0, 3, 7, 9, -1]] * 2, [[-1, 3, 7, 8, 11, -1]] * 2
    examples = replace(
        examples_of(rows),
        token_starts=Ragged.from_rows(starts, np.int32),
        token_ends=Ragged.from_rows(ends, np.int32),
    )

    assert pairs(chunks(examples)) == [[(1, 4), (4, 5)]] * 2


def test_chunks__special_tokens_within_a_row_part_them():
    row = Row(key=0, ids=[10, SEP, 11, 12], word_ids=[0, -1, 1, 2])
    examples = replace(
        examples_of([row, row]),
        token_starts=Ragged.from_rows([[0, -1, 0, 2]] * 2, np.int32),
        token_ends=Ragged.from_rows([[2, -1, 2, 4]] * 2, np.int32),
    )

    assert pairs(chunks(examples)) == [[(0, 1), (2, 4)]] * 2


def test_chunks__characters_that_cannot_be_written():
    """Read-only arrays, as in memory-mapped shards."""
    examples = examples_of([row_of([2, 1])])
    starts, ends = (
        Ragged.from_rows([[-1, 0, 2, 4, -1]], np.int32),
        Ragged.from_rows([[-1, 2, 4, 5, -1]], np.int32),
    )
    starts.values.flags.writeable = ends.values.flags.writeable = False

    assert pairs(chunks(replace(examples, token_starts=starts, token_ends=ends))) == [[(1, 4)]]


@given(random_examples())
def test_released_pieces__equals_twin(examples):
    assert pairs(released_pieces(examples)) == [
        [(start, end) for start, end, _ in joint.released_pieces(row)] for row in rows_of(examples)
    ]


@pytest.mark.parametrize("name", [name for name, kind in UNITS.items() if kind.find])
def test_units__are_not_empty_and_lie_apart_within_their_rows(name):
    examples = fixed_examples()

    rows = pairs(UNITS[name].find(examples))

    assert any(len(row) > 1 for row in rows)
    for i, row in enumerate(rows):
        assert all(start < end for start, end in row)
        assert all(end <= start for (_, end), (start, _) in pairwise(row))
        assert not row or (row[0][0] >= 0 and row[-1][1] <= examples.input_ids.lengths[i])


@pytest.mark.parametrize("name", [name for name, kind in UNITS.items() if kind.find])
@pytest.mark.parametrize("examples", [examples_of([]), examples_of([row_of([]), row_of([])])])
def test_units__none(name, examples):
    units = UNITS[name].find(examples)

    assert (len(units), len(units.starts)) == (0, len(examples))
