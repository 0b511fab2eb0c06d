"""Mutations of bytes that keep most of a file's structure, as plain tuples that hypothesis can draw and shrink."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

MOST_BYTES = 1 << 16
"""Maximum size of a mutated file."""
_NUMBERS = (
    0,
    1,
    -1,
    2,
    8,
    127,
    255,
    1 << 15,
    (1 << 31) - 1,
    -(1 << 31),
    1 << 31,
    (1 << 32) - 1,
    1 << 40,
    (1 << 63) - 1,
)
TOKENS = (
    b'"', b"'", b",", b"|", b"\t", b" ", b"\n", b"\n\n", b"\r\n", b"\r", b"\0", b"\x0b", b"\x1a",
    b"\xef\xbb\xbf", b"\xff\xfe", b"\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x80\xa8", b"\xc2\xa0",
    b"\\ud800", b"\\u0000", b"\\", b"0", b"-1", b"007", b"2147483648", b"99999999999999999999", b"9" * 5000, b"1e999",
    b"NaN", b"-0.0", b"true", b"null", b"[" * 3000, b'{"a":' * 3000, b"[]", b"{}", b"..", b"../", b"/etc/passwd",
)  # fmt: skip
"""Tokens that have broken readers. Each target adds tokens of its format."""


class Change(NamedTuple):
    """One change.

    Attributes:
        kind: Name in `KINDS`.
        at: Position, modulo the number of positions.
        size: Size, modulo the maximum of the kind.
        token: Index of a token, modulo the number of tokens; for some kinds, a second position or a count.
    """

    kind: str
    at: int
    size: int
    token: int


def mutate(data: bytes, changes: Sequence[Change], tokens: Sequence[bytes]) -> bytes:
    """Apply changes in order."""
    for change in changes:
        data = KINDS[change.kind](data, change, tokens)[:MOST_BYTES]
    return data


def random_changes(seed: int) -> list[Change]:
    """Draw a few changes."""
    rng = random.Random(seed)
    names = list(KINDS)
    return [
        Change(rng.choice(names), *(rng.randrange(1 << 20) for _ in range(3)))
        for _ in range(rng.randint(1, 4))
    ]


def _flip(data: bytes, change: Change, _: Sequence[bytes]) -> bytes:
    i = change.at % max(len(data), 1)
    return data[:i] + bytes(byte ^ 1 << change.size % 8 for byte in data[i : i + 1]) + data[i + 1 :]


def _delete(data: bytes, change: Change, _: Sequence[bytes]) -> bytes:
    start, stop = _piece(data, change)
    return data[:start] + data[stop:]


def _repeat(data: bytes, change: Change, _: Sequence[bytes]) -> bytes:
    start, stop = _piece(data, change)
    return data[:stop] + data[start:stop] * (1 + change.token % 40) + data[stop:]


def _copy(data: bytes, change: Change, _: Sequence[bytes]) -> bytes:
    start, stop = _piece(data, change)
    to = change.token % (len(data) + 1)
    return data[:to] + data[start:stop] + data[to:]


def _truncate(data: bytes, change: Change, _: Sequence[bytes]) -> bytes:
    return data[: change.at % (len(data) + 1)]


def _insert(data: bytes, change: Change, tokens: Sequence[bytes]) -> bytes:
    i = change.at % (len(data) + 1)
    return data[:i] + tokens[change.token % len(tokens)] + data[i:]


def _replace(data: bytes, change: Change, tokens: Sequence[bytes]) -> bytes:
    start, stop = _piece(data, change)
    return data[:start] + tokens[change.token % len(tokens)] + data[stop:]


def _exchange(data: bytes, change: Change, tokens: Sequence[bytes]) -> bytes:
    """Replace a token in the file by another token."""
    here = [token for token in tokens if token in data]
    if not here:
        return _insert(data, change, tokens)
    old = here[change.at % len(here)]
    return data.replace(old, tokens[change.token % len(tokens)], 1 + change.size % 3)


def _number(data: bytes, change: Change, tokens: Sequence[bytes]) -> bytes:
    """Replace a decimal number by another number."""
    found = list(re.finditer(rb"-?\d+", data))
    if not found:
        return _integer(data, change, tokens)
    match = found[change.at % len(found)]
    near = int(match[0][:18] or b"0") + change.size % 5 - 2
    numbers = [str(number).encode() for number in (*_NUMBERS, near, near)]
    return data[: match.start()] + numbers[change.token % len(numbers)] + data[match.end() :]


def _integer(data: bytes, change: Change, _: Sequence[bytes]) -> bytes:
    """Overwrite four or eight bytes with an integer, for example a length in a binary file."""
    code, width = ("<q", 8) if change.size % 2 else ("<i", 4)
    i = change.at % max(len(data), 1) // 4 * 4
    number = _NUMBERS[change.token % len(_NUMBERS)] & (1 << 8 * width) - 1
    return data[:i] + struct.pack(code.upper(), number) + data[i + width :]


def _line(data: bytes, change: Change, _: Sequence[bytes]) -> bytes:
    """Delete, repeat or move a line."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    i = change.at % len(lines)
    line = lines[i] if change.size % 3 == 1 else lines.pop(i)
    if change.size % 3:
        lines.insert(change.token % (len(lines) + 1), line)
    return b"".join(lines)


def _piece(data: bytes, change: Change) -> tuple[int, int]:
    """Return the range of a piece. Short pieces are more frequent."""
    start = change.at % (len(data) + 1)
    return start, min(start + 1 + change.size % (1 << 1 + change.size % 11), len(data))


KINDS: dict[str, Callable[[bytes, Change, Sequence[bytes]], bytes]] = {
    "insert": _insert,
    "exchange": _exchange,
    "replace": _replace,
    "number": _number,
    "line": _line,
    "flip": _flip,
    "integer": _integer,
    "delete": _delete,
    "repeat": _repeat,
    "copy": _copy,
    "truncate": _truncate,
}
"""Kinds of changes. Kinds that shrink best come first."""
