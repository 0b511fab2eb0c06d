"""Decodes JSON, and refuses objects with a key twice, of which decoders silently keep the last."""

from __future__ import annotations

import json
from typing import Any

import msgspec

DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions of `decode` and of msgspec for bytes that are not JSON."""
_KEY = b'":'


class KeyTwiceError(ValueError):
    """An object has a key twice. The message holds neither the key nor a value."""

    def __init__(self) -> None:
        super().__init__("expected objects with each key once, got a key twice in one object")


def decode(data: bytes) -> Any:
    """Return what some JSON says.

    Raises:
        KeyTwiceError: One of its objects has a key twice.
        msgspec.DecodeError: It is not JSON; so for the other `DECODE_ERRORS`.
    """
    value = msgspec.json.decode(data)

    # Each key of the result has stood in the data, so a mere count tells whether any is lost, but
    # for characters written as \u0022.
    in_data = msgspec.json.format(data, indent=-1).count(_KEY)
    if in_data != msgspec.json.encode(value).count(_KEY) and _has_key_twice(data):
        raise KeyTwiceError
    return value


def _has_key_twice(data: bytes) -> bool:
    found = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        found.append(len({key for key, _ in pairs}) < len(pairs))

    try:
        json.loads(data, object_pairs_hook=look)
    except (ValueError, RecursionError):
        # It was decoded, so it is JSON: Python refuses integers of very many digits.
        return True
    return any(found)
