from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.io.json_once import DECODE_ERRORS, KeyTwiceError, decode


class Pairs(list[tuple[str, Any]]):
    """The keys and values of an object, possibly with repeated keys."""


VALUES = st.recursive(
    st.none() | st.integers(-9, 9) | st.text('a":\\,{}', max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(st.tuples(st.text('a":\\', max_size=2), inner), max_size=3).map(Pairs)
    ),
    max_leaves=8,
)


def written(value: Any) -> str:
    if isinstance(value, Pairs):
        fields = ", ".join(f"{json.dumps(key)} : {written(of)}" for key, of in value)
        return f"{{{fields}}}"
    if isinstance(value, list):
        return f"[{','.join(map(written, value))}]"
    return json.dumps(value)


def has_twice(value: Any) -> bool:
    if isinstance(value, Pairs):
        keys = [key for key, _ in value]
        return len(set(keys)) < len(keys) or any(has_twice(of) for _, of in value)
    return isinstance(value, list) and any(map(has_twice, value))


@given(value=VALUES)
def test_decode__rejects_repeated_keys_only(value: Any) -> None:
    text = written(value)

    if has_twice(value):
        with pytest.raises(KeyTwiceError, match=r"^expected objects with each key once, got a key"):
            decode(text.encode())
    else:
        assert decode(text.encode()) == json.loads(text)


@pytest.mark.parametrize("data", [b"", b"{", b'{"a"}', b'"\xff"', b"[" * 100_000])
def test_decode__raises_the_error_of_msgspec_for_invalid_json(data: bytes) -> None:
    with pytest.raises(DECODE_ERRORS):
        decode(data)
    with pytest.raises(DECODE_ERRORS):
        msgspec.json.decode(data)
