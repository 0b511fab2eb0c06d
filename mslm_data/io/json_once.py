"""Decodes JSON strictly: duplicate keys are an error. Decoders silently keep the last value."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions raised by `decode` and msgspec for invalid JSON."""
_KEY = b'":'
_ESCAPED_KEY = re.compile(rb"\\u00(22|3[aA])")
"""Escapes of the characters of `_KEY`."""


class KeyTwiceError(ValueError):
    """A JSON object has a duplicate key. The message contains neither keys nor values."""

    def __init__(self) -> None:
        super().__init__("expected objects with each key once, got a key twice in one object")


def decode(data: bytes) -> Any:
    """Decode JSON.

    Raises:
        KeyTwiceError: An object has a duplicate key.
        msgspec.DecodeError: The data is invalid JSON. All `DECODE_ERRORS` are possible.
    """
    value = msgspec.json.decode(data)

    # Count `":` in the data and in the encoded result: a lost key means fewer of them. Escapes such
    # as \u0022 change the count too, and could make up for a lost key.
    in_data = msgspec.json.format(data, indent=-1).count(_KEY)
    differs = in_data != msgspec.json.encode(value).count(_KEY)
    if (differs or _ESCAPED_KEY.search(data)) and _has_key_twice(data):
        raise KeyTwiceError
    return value


def _has_key_twice(data: bytes) -> bool:
    duplicates = []

    def check(pairs: list[tuple[str, Any]]) -> None:
        duplicates.append(len({key for key, _ in pairs}) < len(pairs))

    try:
        json.loads(data, object_pairs_hook=check)
    except (ValueError, RecursionError):
        # msgspec decoded the data, so it is JSON that Python rejects, such as an integer of more
        # than 4,300 digits. Reject it too.
        return True
    return any(duplicates)
