"""Limits what is read at once, and what packed files may become.

A small file must not be able to fill memory or a disk, whoever made it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from mslm_data.errors import MslmDataError

LARGEST = 256 << 20
"""Maximum number of bytes read at once: records, or a file that cannot be cut between records."""
LARGEST_RECORD = 32 << 20
"""Most bytes of a record that is parsed into objects: these may take thirty times the memory."""
TOO_LARGE = (
    f"expected records, and files that are read whole, of at most {LARGEST >> 20} MiB, got a "
    "larger one; are its line ends missing? If the file is as it should be, cut it into several"
)
"""Message for a file with a piece larger than `LARGEST`."""
TOO_LARGE_RECORD = (
    f"expected a record of at most {LARGEST_RECORD >> 20} MiB, got a larger one; cut it into "
    "several"
)
"""Message for a record larger than `LARGEST_RECORD`."""
LONGEST_LINE = 16 << 20
"""Most characters of a line of a table of words, names or scores."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limit what a packed file may hold.

    Attributes:
        members: Files and folders of an archive.
        num_bytes: Bytes when unpacked.
        ratio: Unpacked bytes per packed byte, looked at once more than `free_bytes` are unpacked.
            Text and models pack to a fifth, annotations of one digit a token to a fiftieth, a bomb
            to a thousandth.
        free_bytes: Bytes that may be unpacked before the ratio is looked at.
    """

    members: int = 1_000_000
    num_bytes: int = 64 << 30
    ratio: int = 200
    free_bytes: int = 64 << 20

    def max_unpacked(self, packed: int) -> int:
        """Return the maximum unpacked size of `packed` bytes."""
        return min(max(self.free_bytes, packed * self.ratio), self.num_bytes)


LIMITS = Limits()


class Meter:
    """Count unpacked bytes, and refuse more than the limits allow.

    A stream that `wrap` returns is counted as it is read.
    """

    def __init__(self, path: Path, limits: Limits, error: type[MslmDataError]) -> None:
        """Count from 0.

        Args:
            path: The packed file.
            limits: What it may hold.
            error: What is raised where it holds more.
        """
        self._name = path.name
        self._error = error
        self._packed = path.stat().st_size
        self._max_bytes = limits.max_unpacked(self._packed)
        self._num_seen = 0

    def add(self, count: int) -> None:
        """Count more bytes."""
        self.reach(self._num_seen + count)

    def reach(self, position: int) -> None:
        """Take note that so many bytes have been unpacked so far."""
        self._num_seen = position
        if position > self._max_bytes:
            raise self._error(
                f"{self._name}: expected at most {self._max_bytes} bytes unpacked from a file of "
                f"{self._packed}, got more; if you trust it, unpack it yourself and pass what "
                "comes out"
            )

    def too_long(self) -> MslmDataError:
        """Return the error for an archive whose headers are longer than any that is meant well."""
        return self._error(
            f"{self._name}: expected names of files and folders, got some that are too long to be "
            "meant well; if you trust it, unpack it yourself and pass what comes out"
        )

    def wrap(self, stream: IO[bytes]) -> Metered:
        """Return a stream that is counted as it is read."""
        return Metered(stream, self)


class Metered:
    """Read a stream, and count its bytes."""

    def __init__(self, stream: IO[bytes], meter: Meter) -> None:
        """Read `stream`, counted by `meter`."""
        self._stream = stream
        self._meter = meter
        self._allowed: int | None = None

    def allow(self, count: int) -> None:
        """Let so many bytes be read from here on."""
        self._allowed = count

    def read(self, count: int = -1) -> bytes:
        """Read so many bytes, or all that are left."""
        data = self._stream.read(count)
        self._meter.add(len(data))
        if self._allowed is not None:
            self._allowed -= len(data)
            if self._allowed < 0:
                raise self._meter.too_long()
        return data


def iter_lines(file: IO[str], path: Path, error: type[MslmDataError]) -> Iterator[str]:
    """Yield the lines of a text file with their ends, and refuse one that is too long.

    Args:
        file: An open text file.
        path: Its path, for messages.
        error: What is raised at a line of more than `LONGEST_LINE` characters.
    """
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise error(
                f"{path}:{number}: expected lines of at most {LONGEST_LINE >> 20} MiB, got a "
                "longer one; is it a text file with line ends?"
            )
        yield line
