"""A piece of a file that moves over it from record to record, growing as a record needs it."""

from __future__ import annotations

import re
from typing import BinaryIO

LONGEST = 8 << 20
"""Bytes that a record may have; a longer one is taken for a quote that never closes."""
CHUNK = 1 << 20


class Window:
    """A piece of a file from where the next record begins; it grows as records need it."""

    def __init__(self, file: BinaryIO, start: int, stop: int) -> None:
        self._file, self._left = file, stop - start if stop >= 0 else -1
        self._data, self._position, self._base, self._end = b"", 0, start, -1
        self.line = 1

    @property
    def offset(self) -> int:
        """Where in the file the window stands."""
        here = self._base + self._position
        return here if self._end < 0 else min(here, self._end)

    def is_over(self) -> bool:
        """Say whether nothing is left."""
        while self._position >= len(self._data) and self._end < 0:
            self._grow()
        return self._position >= len(self._data)

    def skip_blank(self) -> bool:
        """Go past blank lines, and say whether anything is left."""
        while not self.is_over():
            if len(self._data) - self._position < 2 and self._end < 0:
                self._grow()
            if self._data.startswith(b"\n", self._position):
                self.advance(self._position + 1)
            elif self._data.startswith(b"\r\n", self._position):
                self.advance(self._position + 2)
            else:
                return True
        return False

    def match(self, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
        """Match where the window stands, with as many bytes as it takes, up to `LONGEST`."""
        while (found := pattern.match(self._data, self._position)) is None and self._end < 0:
            if len(self._data) - self._position >= LONGEST:
                break
            self._grow()
        return found

    def skip_line(self) -> None:
        """Go to the next line."""
        while (end := self._data.find(b"\n", self._position)) < 0 and self._end < 0:
            self._grow()
        self.advance(end + 1 if end >= 0 else len(self._data))

    def advance(self, position: int) -> None:
        """Go to a position in the window's bytes, such as the end of a match."""
        self.line += self._data.count(b"\n", self._position, position)
        self._position = position

    def _grow(self) -> None:
        """Read on, dropping what lies before; a line end is added to a file's last line if it has none."""
        wanted = max(
            CHUNK, len(self._data) - self._position
        )  # doubling: a long record is matched few times
        piece = self._file.read(wanted if self._left < 0 else min(wanted, self._left))
        if self._left > 0:
            self._left -= len(piece)
        self._base += self._position
        self._data, self._position = self._data[self._position :] + piece, 0
        if not piece:
            self._end = self._base + len(self._data)
            self._data += b"" if self._data.endswith(b"\n") or not self._data else b"\n"
