"""Size limits for records and lines, so that a damaged file does not fill memory.

They are no options, because nobody knows their right values.
"""

from __future__ import annotations

from collections.abc import Iterator
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
