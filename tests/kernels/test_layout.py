from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.ragged import Ragged, offsets_of
from mslm_data.kernels.layout import measure_runs, write_inputs, write_targets
from tests.generate import Row
from tests.reference import layout as twin

MARKS = list(range(100, 110))


@st.composite
def hidden_rows(draw: st.DrawFn) -> list[tuple[Row, list[int], list[int]]]:
    """Rows with special tokens at their ends or not, kinds and joints of any sort."""
    rows = []
    for key in range(draw(st.integers(0, 4))):
        size, before, after = (
            draw(st.integers(0, 9)),
            draw(st.integers(0, 2)),
            draw(st.integers(0, 2)),
        )
        words = [-1] * before + list(range(size)) + [-1] * after
        kinds = (
            [0] * before
            + draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))
            + [0] * after
        )
        joined = draw(st.lists(st.integers(0, 1), min_size=len(words), max_size=len(words)))
        rows.append((Row(key=key, ids=range(10, 10 + len(words)), word_ids=words), kinds, joined))
    return rows


def columns(rows: list[tuple[Row, list[int], list[int]]]) -> tuple[Ragged, Ragged, Ragged, Ragged]:
    return (
        Ragged.of([row.word_ids for row, _, _ in rows], np.int32),
        Ragged.of([list(row.ids) for row, _, _ in rows], np.int32),
        Ragged.of([kinds for _, kinds, _ in rows], np.uint8),
        Ragged.of([joined for _, _, joined in rows], np.uint8),
    )


@given(hidden_rows())
def test_measure_runs__equals_its_twin(rows):
    words, _, kinds, joined = columns(rows)
    out = np.full((3, len(rows)), -7, np.int64)

    measure_runs(words.offsets, words.values, kinds.values, joined.values, out)

    hidden = [sum(kind > 0 for kind in kinds) for _, kinds, _ in rows]
    runs = [len(twin.runs_of(kinds, joined)) for _, kinds, joined in rows]
    assert out.tolist() == [hidden, runs, [len(twin.tail_of(row)) for row, _, _ in rows]]


@given(hidden_rows())
def test_write_inputs_and_targets__equal_their_twin(rows):
    words, ids, kinds, joined = columns(rows)
    expected = [twin.sentinel_per_run(row, kinds, MARKS, joined) for row, kinds, joined in rows]
    tails = np.array([len(twin.tail_of(row)) for row, _, _ in rows], np.int64)
    to = [offsets_of(np.array([len(pair[side]) for pair in expected], np.int64)) for side in (0, 1)]
    out = [np.full(offsets[-1] + 1, -7, np.int32) for offsets in to]
    marks = np.array(MARKS, np.int32)

    write_inputs(words.offsets, ids.values, kinds.values, joined.values, marks, to[0], out[0])
    write_targets(
        words.offsets, ids.values, kinds.values, joined.values, marks, tails, to[1], out[1]
    )

    assert Ragged(out[0][:-1], to[0]).tolist() == [list(pair[0]) for pair in expected]
    assert Ragged(out[1][:-1], to[1]).tolist() == [list(pair[1]) for pair in expected]


@given(hidden_rows())
def test_write_inputs__the_last_mark_is_that_of_all_further_runs(rows):
    words, ids, kinds, joined = columns(rows)
    expected = [twin.single_mask_per_span(row, kinds, 4, joined) for row, kinds, joined in rows]
    to = offsets_of(np.array([len(row) for row in expected], np.int64))
    out = np.full(to[-1] + 1, -7, np.int32)

    write_inputs(
        words.offsets, ids.values, kinds.values, joined.values, np.array([4], np.int32), to, out
    )

    assert Ragged(out[:-1], to).tolist() == expected
