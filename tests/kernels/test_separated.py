from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mslm_data.kernels.separated import find_field_end, split_records
from tests.reference import separated as reference

some_bytes = st.lists(
    st.sampled_from(
        [
            b'"',
            b'""',
            b",",
            b"\n",
            b"\r\n",
            b"\r",
            b"a",
            b"\xff",
            b'"a,\n"',
            b"1,2\n",
            b'"a",""\r\n',
        ]
    ),
    max_size=20,
).map(b"".join)


def split(
    data: bytes, position: int, *, width: int, wanted: list[int], room: int = 32, longest: int = 99
) -> reference.Found:
    slots = np.full(width, -1)
    slots[wanted] = np.arange(len(wanted))
    records = np.zeros((room, 4), np.int64)
    fields = np.zeros((room, len(wanted), 2), np.int64)

    count = split_records(
        np.frombuffer(data, np.uint8), position, ord(","), longest, slots, records, fields
    )
    return [
        (*of_record, [tuple(field) for field in of_fields])
        for of_record, of_fields in zip(
            records[:count].tolist(), fields[:count].tolist(), strict=True
        )
    ]


@given(some_bytes, st.integers(1, 3), st.sets(st.integers(0, 2)), st.integers(0, 5))
@example(b"a\n\n", 1, {0}, 0)
@example(b"\ra\n", 1, {0}, 0)
@example(b'"a"\r', 1, {0}, 0)
def test_split_records__agrees_with_the_twin(
    data: bytes, width: int, wanted: set[int], position: int
) -> None:
    position = min(position, len(data))
    columns = sorted(wanted & set(range(width)))

    found = split(data, position, width=width, wanted=columns)

    assert found == reference.split_records(
        data, position, mark=b",", width=width, wanted=columns, longest=99
    )


def test_split_records__ends_where_there_is_no_room_and_at_a_long_record() -> None:
    data = b'1,a\n2,"long one"\n3,b\n'

    assert len(split(data, 0, width=2, wanted=[0], room=1)) == 1
    assert len(split(data, 0, width=2, wanted=[0], longest=12)) == 1
    assert len(split(data, 0, width=2, wanted=[0], longest=13)) == 3


@pytest.mark.parametrize(
    ("data", "past"), [(b"ab,", 2), (b'"a,""b"\n', 7), (b",", 0), (b'"a', 3), (b"a", 1), (b"", 0)]
)
def test_find_field_end__is_past_the_data_where_the_field_does_not_end(
    data: bytes, past: int
) -> None:
    assert find_field_end(np.frombuffer(data, np.uint8), 0, ord(",")) == past
