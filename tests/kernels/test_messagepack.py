from __future__ import annotations

from itertools import pairwise

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mslm_data.kernels.messagepack import unpack_lists

LIMITS = [
    0,
    127,
    128,
    255,
    256,
    65535,
    65536,
    2**31 - 1,
    -1,
    -32,
    -33,
    -128,
    -129,
    -32768,
    -32769,
    -(2**31),
]
some_items = st.one_of(
    st.sampled_from(LIMITS), st.integers(-(2**31), 2**31 - 1), st.none(), st.booleans()
)


def unpacked(lists: object, rows: int) -> list[list[int]] | None:
    packed = np.frombuffer(msgspec.msgpack.encode(lists), np.uint8)
    values, offsets = np.full(len(packed), 77, np.int32), np.full(rows + 1, 77, np.int64)

    if not unpack_lists(packed, values, offsets):
        return None
    return [values[start:stop].tolist() for start, stop in pairwise(offsets)]


@given(st.lists(st.lists(some_items, max_size=20), max_size=20))
@example([[7] * size for size in (0, 1, 15, 16, 255, 256, 70000)])
@example([[1]] * 16)
@example([[1]] * 70000)
def test_unpack_lists__inverts_packing(lists: list[list[int | None]]) -> None:
    assert unpacked(lists, len(lists)) == [
        [-1 if item is None else int(item) for item in items] for items in lists
    ]


@pytest.mark.parametrize(
    "item",
    [
        2**31,
        -(2**31) - 1,
        2**63,
        -(2**63),
        1.5,
        "text",
        "long enough for a header of its own",
        b"x",
        [1],
        {},
    ],
)
def test_unpack_lists__refuses_other_things(item: object) -> None:
    assert unpacked([[1, 2], [3, item, 4]], 2) is None


@pytest.mark.parametrize("row", [5, None, "text", {"a": 1}])
def test_unpack_lists__rejects_rows_other_than_lists(row: object) -> None:
    assert unpacked([[1], row], 2) is None
