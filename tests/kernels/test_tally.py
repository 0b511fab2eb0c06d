from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.kernels.tally import find_masked_words, tally_rows, tally_units
from tests.generate import random_examples, rows_of
from tests.reference import tally as twin


@st.composite
def examples_with_kinds(draw: st.DrawFn):
    examples = draw(random_examples())
    size = len(examples.input_ids.values)
    kinds = np.array(draw(st.lists(st.integers(0, 2), min_size=size, max_size=size)), np.uint8)
    rows = [kinds[a:b].tolist() for a, b in pairwise(examples.input_ids.offsets)]
    return examples, kinds, rows


@given(examples_with_kinds(), st.integers(2, 5))
def test_tally_rows__equals_twin(given_, cap):
    examples, kinds, rows = given_
    out, runs = np.full((len(examples), 2), 9, np.int64), np.ones(cap, np.int64)
    tally_rows(examples.input_ids.offsets, kinds, runs, out)

    lengths = Counter(min(run, cap - 1) for row in rows for run in twin.runs(row))
    assert out.tolist() == [[row.count(2), row.count(1)] for row in rows]
    assert runs.tolist() == [1 + lengths[k] for k in range(cap)]


@given(examples_with_kinds())
def test_tally_units__equals_twin(given_):
    examples, kinds, rows = given_
    starts, ends = examples.span_starts, examples.span_ends
    out = np.full((len(starts.values), 2), 9, np.int64)
    tally_units(examples.input_ids.offsets, starts.offsets, starts.values, ends.values, kinds, out)

    spans = [
        kind[a:b]
        for row, kind in zip(rows_of(examples), rows, strict=True)
        for a, b, _ in row.mentions
    ]
    assert out.tolist() == [[span.count(2), len(span) - span.count(0)] for span in spans]


@given(examples_with_kinds())
def test_find_masked_words__equals_twin(given_):
    examples, kinds, rows = given_
    expected = [
        int(any(kind[t] for t in places))
        for row, kind in zip(rows_of(examples), rows, strict=True)
        for _, places in twin.words(row)
    ]
    out = np.full(len(expected), 9, np.uint8)
    find_masked_words(examples.input_ids.offsets, examples.word_ids.values, kinds, out)

    assert out.tolist() == expected
