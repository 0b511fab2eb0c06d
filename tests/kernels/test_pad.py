from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.ragged import Ragged
from mslm_data.kernels.pad import measure_rows, pad_masked, pad_rows, pad_spans, pad_tags

some_rows = st.lists(st.lists(st.integers(0, 2), max_size=5), min_size=1, max_size=5)


def picks_of(rows: Sequence[object], data: st.DataObject) -> list[int]:
    return data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=5))


def padded(row: list[int], width: int, with_: int) -> list[int]:
    return row + [with_] * (width - len(row))


@given(rows=some_rows, spans=st.data())
def test_measure_rows__finds_the_longest_of_those_asked_for(
    rows: list[list[int]], spans: st.DataObject
) -> None:
    picked = picks_of(rows, spans)
    tokens, mentions = Ragged.of(rows, np.int32), Ragged.of([row[1:] for row in rows], np.int32)
    out = np.full(2, -7, np.int64)

    measure_rows(np.array(picked, np.int64), tokens.offsets, mentions.offsets, out)

    assert out.tolist() == [
        max((len(column[p]) for p in picked), default=0) for column in (tokens, mentions)
    ]


@given(kinds=some_rows, data=st.data())
def test_pad_masked__equals_its_twin(kinds: list[list[int]], data: st.DataObject) -> None:
    picked = picks_of(kinds, data)
    ids = [[10 * i + t for t in range(len(row))] for i, row in enumerate(kinds)]
    hidden = [
        [4 if kind else id_ for kind, id_ in zip(*pair, strict=True)]
        for pair in zip(kinds, ids, strict=True)
    ]
    width = max((len(kinds[p]) for p in picked), default=0) + 1
    out = np.full((3, len(picked), width), -7, np.int64)
    columns = [
        Ragged.of(rows, dtype)
        for rows, dtype in ((ids, np.int32), (hidden, np.int32), (kinds, np.uint8))
    ]

    pad_masked(
        np.array(picked, np.int64),
        columns[0].offsets,
        *(column.values for column in columns),
        9,
        out,
    )

    labels = [
        [id_ if kind else -100 for kind, id_ in zip(kinds[p], ids[p], strict=True)] for p in picked
    ]
    assert out[0].tolist() == [padded(hidden[p], width, 9) for p in picked]
    assert out[1].tolist() == [padded([1] * len(ids[p]), width, 0) for p in picked]
    assert out[2].tolist() == [padded(row, width, -100) for row in labels]


@given(tags=some_rows, data=st.data())
def test_pad_tags__equals_its_twin(tags: list[list[int]], data: st.DataObject) -> None:
    picked = picks_of(tags, data)
    words = [[data.draw(st.integers(-1, 1)) for _ in row] for row in tags]
    kinds = [[(tag + 1) % 3 for tag in row] for row in tags]
    width = max((len(tags[p]) for p in picked), default=0) + 1
    out, out_kinds = (
        np.full((len(picked), width), -7, np.int64),
        np.full((len(picked), width), 7, np.uint8),
    )
    columns = [
        Ragged.of(rows, dtype)
        for rows, dtype in ((tags, np.int8), (words, np.int32), (kinds, np.uint8))
    ]
    values = (column.values for column in columns)

    pad_tags(np.array(picked, np.int64), columns[0].offsets, *values, out, out_kinds)

    kept = [
        [tag if word >= 0 else -100 for tag, word in zip(tags[p], words[p], strict=True)]
        for p in picked
    ]
    assert out.tolist() == [padded(row, width, -100) for row in kept]
    assert out_kinds.tolist() == [padded(kinds[p], width, 0) for p in picked]


@given(starts=some_rows, data=st.data())
def test_pad_spans__equals_its_twin(starts: list[list[int]], data: st.DataObject) -> None:
    picked = picks_of(starts, data)
    columns = [
        starts,
        [[start + 5 for start in row] for row in starts],
        [[start + 9 for start in row] for row in starts],
    ]
    width = max((len(starts[p]) for p in picked), default=0)
    out = np.full((3, len(picked), width), -7, np.int64)
    ragged = [
        Ragged.of(rows, dtype)
        for rows, dtype in zip(columns, (np.int32, np.int32, np.int16), strict=True)
    ]

    pad_spans(
        np.array(picked, np.int64), ragged[0].offsets, *(column.values for column in ragged), out
    )

    assert out.tolist() == [[padded(rows[p], width, -1) for p in picked] for rows in columns]


@given(ids=some_rows, data=st.data())
def test_pad_rows__equals_its_twin(ids: list[list[int]], data: st.DataObject) -> None:
    picked = picks_of(ids, data)
    width = max((len(ids[p]) for p in picked), default=0) + 1
    out, rows = np.full((len(picked), width), -7, np.int64), Ragged.of(ids, np.int32)

    pad_rows(np.array(picked, np.int64), rows.offsets, rows.values, 9, out)

    assert out.tolist() == [padded(ids[p], width, 9) for p in picked]
