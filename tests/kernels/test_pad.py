from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.ragged import Ragged
from mslm_data.kernels.pad import (
    measure_rows,
    number_packed,
    pad_masked,
    pad_rates,
    pad_rows,
    pad_spans,
    pad_tags,
)

Packs: TypeAlias = npt.NDArray[np.int64]

some_rows = st.lists(st.lists(st.integers(0, 2), max_size=5), min_size=1, max_size=5)


def picks_of(rows: Sequence[object], data: st.DataObject) -> list[int]:
    return data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=5))


def packs_of(picked: list[int], data: st.DataObject) -> Packs:
    """Generate the offsets of packed rows: a row per line, or several rows in a line."""
    if data.draw(st.booleans()):
        return np.arange(len(picked) + 1)
    inner = data.draw(st.sets(st.integers(1, len(picked) - 1))) if len(picked) > 1 else set()
    return np.array(sorted({0, *inner, len(picked)}), np.int64)


def lines(rows: Sequence[list[Any]], picked: list[int], packs: Packs) -> list[list[Any]]:
    """Return each line's rows, one after the other."""
    return [
        [item for pick in picked[first:past] for item in rows[pick]]
        for first, past in itertools.pairwise(packs.tolist())
    ]


def padded(row: list[Any], width: int, with_: int) -> list[Any]:
    return row + [with_] * (width - len(row))


@given(rows=some_rows, spans=st.data())
def test_measure_rows__finds_the_longest_requested_line(
    rows: list[list[int]], spans: st.DataObject
) -> None:
    picked = picks_of(rows, spans)
    packs = packs_of(picked, spans)
    tokens, mentions = (
        Ragged.from_rows(rows, np.int32),
        Ragged.from_rows([row[1:] for row in rows], np.int32),
    )
    out = np.full(2, -7, np.int64)

    measure_rows(np.array(picked, np.int64), packs, tokens.offsets, mentions.offsets, out)

    assert out.tolist() == [
        max(map(len, lines(column, picked, packs)), default=0)
        for column in (rows, [row[1:] for row in rows])
    ]


@given(kinds=some_rows, data=st.data())
def test_pad_masked__equals_its_twin(kinds: list[list[int]], data: st.DataObject) -> None:
    picked = picks_of(kinds, data)
    ids = [[10 * i + t for t in range(len(row))] for i, row in enumerate(kinds)]
    corrupted = [
        [4 if kind else id_ for kind, id_ in zip(*pair, strict=True)]
        for pair in zip(kinds, ids, strict=True)
    ]
    packs = packs_of(picked, data)
    width = max(map(len, lines(kinds, picked, packs)), default=0) + 1
    out = np.full((3, len(packs) - 1, width), -7, np.int64)
    columns = [
        Ragged.from_rows(rows, dtype)
        for rows, dtype in ((ids, np.int32), (corrupted, np.int32), (kinds, np.uint8))
    ]

    pad_masked(
        np.array(picked, np.int64),
        packs,
        columns[0].offsets,
        *(column.values for column in columns),
        9,
        out,
    )

    labels = [
        [id_ if kind else -100 for kind, id_ in zip(*pair, strict=True)]
        for pair in zip(kinds, ids, strict=True)
    ]
    present = [[1] * len(row) for row in ids]
    for array, rows, fill in ((out[0], corrupted, 9), (out[1], present, 0), (out[2], labels, -100)):
        assert array.tolist() == [padded(line, width, fill) for line in lines(rows, picked, packs)]


@given(tags=some_rows, data=st.data())
def test_pad_tags__equals_its_twin(tags: list[list[int]], data: st.DataObject) -> None:
    picked = picks_of(tags, data)
    words = [[data.draw(st.integers(-1, 1)) for _ in row] for row in tags]
    kinds = [[(tag + 1) % 3 for tag in row] for row in tags]
    packs = packs_of(picked, data)
    width = max(map(len, lines(tags, picked, packs)), default=0) + 1
    out, out_kinds = (
        np.full((len(packs) - 1, width), -7, np.int64),
        np.full((len(packs) - 1, width), 7, np.uint8),
    )
    columns = [
        Ragged.from_rows(rows, dtype)
        for rows, dtype in ((tags, np.int8), (words, np.int32), (kinds, np.uint8))
    ]
    values = (column.values for column in columns)

    pad_tags(np.array(picked, np.int64), packs, columns[0].offsets, *values, out, out_kinds)

    kept = [
        [tag if word >= 0 else -100 for tag, word in zip(*pair, strict=True)]
        for pair in zip(tags, words, strict=True)
    ]
    for array, rows, fill in ((out, kept, -100), (out_kinds, kinds, 0)):
        assert array.tolist() == [padded(line, width, fill) for line in lines(rows, picked, packs)]


@given(starts=some_rows, data=st.data())
def test_pad_spans__equals_its_twin(starts: list[list[int]], data: st.DataObject) -> None:
    picked = picks_of(starts, data)
    packs = packs_of(picked, data)
    lengths = [data.draw(st.integers(0, 9)) for _ in starts]
    columns = [[[start + by for start in row] for row in starts] for by in (0, 5, 9)]
    width = max(map(len, lines(starts, picked, packs)), default=0)
    out = np.full((3, len(packs) - 1, width), -7, np.int64)
    ragged = [
        Ragged.from_rows(rows, dtype)
        for rows, dtype in zip(columns, (np.int32, np.int32, np.int16), strict=True)
    ]

    pad_spans(
        np.array(picked, np.int64),
        packs,
        np.cumsum([0, *lengths]),
        ragged[0].offsets,
        *(column.values for column in ragged),
        out,
    )

    expected: list[list[list[int]]] = [[], [], []]
    for first, past in itertools.pairwise(packs.tolist()):
        before = 0
        line: list[list[int]] = [[], [], []]
        for pick in picked[first:past]:
            line[0] += [start + before for start in columns[0][pick]]
            line[1] += [end + before for end in columns[1][pick]]
            line[2] += columns[2][pick]
            before += lengths[pick]
        for column, values in zip(expected, line, strict=True):
            column.append(padded(values, width, -1))
    assert out.tolist() == expected


@given(rows=some_rows, data=st.data())
def test_number_packed__equals_its_twin(rows: list[list[int]], data: st.DataObject) -> None:
    picked = picks_of(rows, data)
    packs = packs_of(picked, data)
    width = max(map(len, lines(rows, picked, packs)), default=0) + 1
    out = np.full((2, len(packs) - 1, width), -7, np.int64)

    number_packed(np.array(picked, np.int64), packs, Ragged.from_rows(rows, np.int32).offsets, out)

    places = [list(range(len(row))) for row in rows]
    assert out[0].tolist() == [padded(line, width, 0) for line in lines(places, picked, packs)]
    numbers = [
        [number for number, pick in enumerate(picked[first:past]) for _ in rows[pick]]
        for first, past in itertools.pairwise(packs.tolist())
    ]
    assert out[1].tolist() == [padded(line, width, -1) for line in numbers]


@given(rows=some_rows, data=st.data())
def test_pad_rates__equals_its_twin(rows: list[list[int]], data: st.DataObject) -> None:
    picked = picks_of(rows, data)
    packs = packs_of(picked, data)
    width = max(map(len, lines(rows, picked, packs)), default=0) + 1
    rates = np.arange(len(rows), dtype=np.float32) / 8
    out = np.full((len(packs) - 1, width), -7, np.float32)

    offsets = Ragged.from_rows(rows, np.int32).offsets
    pad_rates(np.array(picked, np.int64), packs, offsets, rates, out)

    repeated = [[number / 8] * len(row) for number, row in enumerate(rows)]
    assert out.tolist() == [padded(line, width, 1) for line in lines(repeated, picked, packs)]


@given(ids=some_rows, data=st.data())
def test_pad_rows__equals_its_twin(ids: list[list[int]], data: st.DataObject) -> None:
    picked = picks_of(ids, data)
    width = max((len(ids[p]) for p in picked), default=0) + 1
    out, rows = np.full((len(picked), width), -7, np.int64), Ragged.from_rows(ids, np.int32)

    pad_rows(np.array(picked, np.int64), rows.offsets, rows.values, 9, out)

    assert out.tolist() == [padded(ids[p], width, 9) for p in picked]
