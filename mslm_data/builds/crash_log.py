"""Finds the document that crashes a worker, so that the build can skip it.

Most work units never need a log. After a possible crash in a unit, it is built again document by
document, and the number of each document is logged before annotation. Interrupting a build is not a
crash.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import msgspec

from mslm_data.errors import BuildError
from mslm_data.io.files import canonical_json, make_folder, read_sealed, write_sealed

_FATAL = 2
"""Recorded crashes before a document is skipped. The first crash is not recorded, so a document may
crash three times."""
_MAX_BEFORE_FIRST = 3
"""Maximum number of crashes before the first document, while the model is loaded."""
_MAX_CRASHES = 20
"""Maximum number of crashes in a work unit."""
_UNKNOWN, _BEFORE = "unknown", "-1"
"""Keys for crashes without a document: unlogged, and before the first document."""

_ANY_CRASH = "out of memory?", "fewer --workers need less memory"
_BUS_ERROR = (
    "a file was cut short while it was read, or a disk is full or cannot be read",
    "restore the file or check the disk",
)
_SIGBUS = f"signal {int(getattr(signal, 'SIGBUS', 0))}"


class CrashLog:
    """The crash log of a work unit, kept as files in the unfinished folder.

    Attributes:
        careful: Whether documents are annotated one by one and logged.
        fatal: Numbers of documents to set aside, from 0 in reading order.
    """

    def __init__(self, folder: Path, name: str) -> None:
        """Load the crashes recorded for the task `name`."""
        self._name = name
        self._folder = folder / ".build" / "crashes"
        self._crashes_file = self._folder / f"{name}.json"
        self._place = self._folder / f"{name}.at"
        self._handle = -1

        data = read_sealed(self._crashes_file)
        self._crashes = Counter(msgspec.json.decode(data or b"{}", type=dict[str, int]))
        self.careful = data is not None
        self.fatal = {
            int(place)
            for place, crashes in self._crashes.items()
            if place.isdigit() and crashes >= _FATAL
        }

    def __enter__(self) -> CrashLog:
        if self.careful:
            self._handle = os.open(self._place, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
            self.at(-1)
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
            # Whatever crashes from now on, as while the piece is written, is no document.
            self._place.unlink(missing_ok=True)

    def at(self, number: int) -> None:
        """Log the number of the document about to be annotated."""
        # No fsync: the log must outlive the process, not the machine. Fixed width, so that each
        # number overwrites the last one.
        os.pwrite(self._handle, b"%-12d" % number, 0)

    def suspect(self) -> None:
        """Annotate the unit's documents one by one from now on."""
        if not self.careful:
            self._save()

    def died(self, how: str) -> None:
        """Record a crash of this unit.

        Args:
            how: A signal, an exit code or an error class.

        Raises:
            BuildError: The maximum number of crashes is reached.
        """
        place = _UNKNOWN
        if self.careful and self._place.is_file():
            place = self._place.read_text("ascii").strip()
            self._place.unlink()  # it is not to blame for a crash before the next attempt
        self._crashes[place] += 1

        never_began = self._crashes[_BEFORE] >= _MAX_BEFORE_FIRST
        if never_began or self._crashes.total() >= _MAX_CRASHES:
            when = " before its first document" if never_began else ""
            why, advice = _BUS_ERROR if how == _SIGBUS else _ANY_CRASH
            raise BuildError(
                f"{self._name}: a worker process died {self._crashes.total()} times{when} (the "
                f"last: {how}, {why}); {advice}, and the same command resumes the build"
            )

        self._save()

    def _save(self) -> None:
        make_folder(self._folder)
        write_sealed(self._crashes_file, canonical_json(self._crashes))
