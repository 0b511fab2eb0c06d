"""Finds the document that kills processes, so that it is set aside and does not end the build.

A work unit begins without a trail, as nearly all of them do. Once a process may have died at it, it
is done again with more care: document by document, each noted before it is annotated. Only deaths
that an engine saw count; an interrupted build is not one.
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
"""Recorded deaths before a document is set aside; with the first, which is not recorded, three."""
_MOST_BEFORE = 3
"""After so many deaths before the first document the build gives up: the model does not load."""
_MOST = 20
"""After so many deaths in all the build gives up."""
_UNKNOWN, _BEFORE = "unknown", "-1"
"""Places of a death: before there was a trail, and before the first document."""

_ANY_DEATH = "out of memory?", "fewer --workers need less memory"
_BUS_ERROR = (
    "as a file became shorter while it was read, or a disk is full or cannot be read",
    "restore the file or see to the disk",
)
_SIGBUS = f"signal {int(getattr(signal, 'SIGBUS', 0))}"


class Trail:
    """The trail of one work unit, in the unfinished folder.

    Attributes:
        careful: Whether documents are to be noted.
        fatal: Numbers of documents to set aside, from 0 in the order in which the unit is read.
    """

    def __init__(self, folder: Path, name: str) -> None:
        """Read the deaths so far at the task of this name."""
        self._name = name
        self._folder = folder / ".build" / "trails"
        self._deaths_file = self._folder / f"{name}.json"
        self._place = self._folder / f"{name}.at"
        self._handle = -1

        data = read_sealed(self._deaths_file)
        self._deaths = Counter(msgspec.json.decode(data or b"{}", type=dict[str, int]))
        self.careful = data is not None
        self.fatal = {
            int(place)
            for place, deaths in self._deaths.items()
            if place.isdigit() and deaths >= _FATAL
        }

    def __enter__(self) -> Trail:
        if self.careful:
            self._handle = os.open(self._place, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
            self.at(-1)
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def at(self, number: int) -> None:
        """Note the document that comes next. It must outlive this process, not this machine."""
        os.pwrite(self._handle, b"%-12d" % number, 0)

    def suspect(self) -> None:
        """Have this unit's documents noted from now on."""
        if not self.careful:
            self._keep()

    def died(self, how: str) -> None:
        """Record that a process died at this unit.

        Args:
            how: A signal, an exit code or an error's class.

        Raises:
            BuildError: It was one too many.
        """
        place = _UNKNOWN
        if self.careful and self._place.is_file():
            place = self._place.read_text("ascii").strip()
        self._deaths[place] += 1

        never_began = self._deaths[_BEFORE] >= _MOST_BEFORE
        if never_began or self._deaths.total() >= _MOST:
            when = " before its first document" if never_began else ""
            why, advice = _BUS_ERROR if how == _SIGBUS else _ANY_DEATH
            raise BuildError(
                f"{self._name}: a worker process died {self._deaths.total()} times{when} (the "
                f"last: {how}, {why}); {advice}, and the same command resumes the build"
            )

        self._keep()

    def _keep(self) -> None:
        make_folder(self._folder)
        write_sealed(self._deaths_file, canonical_json(self._deaths))
