"""Size limits for records, lines and unpacked files.

They keep a small malicious or damaged file from filling memory or disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from mslm_data.errors import MslmDataError

LARGEST = 256 << 20
"""Maximum size in bytes of a record, or of a file read as a whole."""
LARGEST_RECORD = 32 << 20
"""Maximum size in bytes of a record parsed to Python objects, which take up to 30 times the
memory."""
TOO_LARGE = (
    f"expected records, and files that are read whole, of at most {LARGEST >> 20} MiB, got a "
    "larger one; are its line ends missing? If the file is as it should be, cut it into several"
)
"""Message for a file with a record larger than `LARGEST`."""
TOO_LARGE_RECORD = (
    f"expected a record of at most {LARGEST_RECORD >> 20} MiB, got a larger one; cut it into "
    "several"
)
"""Message for a record larger than `LARGEST_RECORD`."""
LONGEST_LINE = 16 << 20
"""Maximum number of characters in a line of a table of words, names or scores."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limit the content of compressed files and archives.

    Attributes:
        members: Maximum number of files and folders. Default: 1,000,000.
        num_bytes: Maximum unpacked size in bytes. Default: 64 GiB.
        ratio: Maximum compression ratio. Default: 200. Text and models have a ratio of about 5,
            annotations with one digit per token 50, decompression bombs 1,000.
        free_bytes: Number of unpacked bytes from which the ratio is checked. Default: 64 MiB.
    """

    members: int = 1_000_000
    num_bytes: int = 64 << 30
    ratio: int = 200
    free_bytes: int = 64 << 20

    def max_unpacked(self, packed: int) -> int:
        """Return the maximum unpacked size of a file of `packed` bytes."""
        return min(max(self.free_bytes, packed * self.ratio), self.num_bytes)


LIMITS = Limits()


class Meter:
    """Count unpacked bytes, and raise an error above the limit."""

    def __init__(self, path: Path, limits: Limits, error: type[MslmDataError]) -> None:
        """Start with a count of 0.

        Args:
            path: The packed file.
            limits: Size limits.
            error: Exception class for a file above the limits.
        """
        self._name = path.name
        self._error = error
        self._packed = path.stat().st_size
        self._max_bytes = limits.max_unpacked(self._packed)
        self._num_seen = 0

    def add(self, count: int) -> None:
        """Add bytes to the count."""
        self.reach(self._num_seen + count)

    def reach(self, position: int) -> None:
        """Set the count."""
        self._num_seen = position
        if position > self._max_bytes:
            raise self._error(
                f"{self._name}: expected at most {self._max_bytes} bytes unpacked from a file of "
                f"{self._packed}, got more; if you trust it, unpack it yourself and pass the "
                "unpacked files"
            )

    def too_long(self) -> MslmDataError:
        """Return the error for an archive with oversized headers."""
        return self._error(
            f"{self._name}: the header of a member is too large, and could fill memory; if you "
            "trust the archive, unpack it yourself and pass the folder"
        )

    def wrap(self, stream: IO[bytes]) -> Metered:
        """Return a stream that counts the bytes read."""
        return Metered(stream, self)


class Metered:
    """A binary stream that counts the bytes read."""

    def __init__(self, stream: IO[bytes], meter: Meter) -> None:
        """Wrap `stream`; `meter` counts."""
        self._stream = stream
        self._meter = meter
        self._allowed: int | None = None

    def allow(self, count: int) -> None:
        """Limit the number of bytes read from now on."""
        self._allowed = count

    def read(self, count: int = -1) -> bytes:
        """Read up to `count` bytes. Default: all."""
        data = self._stream.read(count)
        self._meter.add(len(data))
        if self._allowed is not None:
            self._allowed -= len(data)
            if self._allowed < 0:
                raise self._meter.too_long()
        return data


def iter_lines(file: IO[str], path: Path, error: type[MslmDataError]) -> Iterator[str]:
    """Yield the lines of a text file, including line ends.

    Args:
        file: An open text file.
        path: Path of the file, for messages.
        error: Exception class for a line with more than `LONGEST_LINE` characters.
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
