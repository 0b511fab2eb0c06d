"""Which document a process was at when it died: one that ends processes is set aside, and ends no build.

A unit begins without a trail, as nearly all do. Once its process has died it is done again more carefully: document by
document, each noted before it is annotated. Only deaths that an engine saw count: an interrupted build is none.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import msgspec

from mslm_data.data.document import WorkUnit
from mslm_data.errors import BuildError
from mslm_data.io.files import canonical_json, make_folder, write_whole

_FATAL = 2
"""Deaths at a document that was noted after which it is set aside: the third at it, counting the first, unseen one."""
_MOST_BEFORE = 3
"""Deaths before the first document after which the build gives up: the model does not load."""
_MOST = 20
"""Deaths in all after which the build gives up."""
_UNKNOWN, _BEFORE = "unknown", "-1"


class Trail:
    """The trail of one unit, in the unfinished folder.

    Attributes:
        careful: Whether documents are to be noted.
        fatal: Numbers of documents that are to be set aside, from 0 in the unit's order of annotation.
    """

    def __init__(self, folder: Path, unit: WorkUnit) -> None:
        """Read what is known of earlier deaths."""
        self._folder = folder / ".build" / "trails"
        self._deaths_file, self._place = (
            self._folder / f"{unit.name}.json",
            self._folder / f"{unit.name}.at",
        )
        self._name = unit.name
        try:
            self._deaths = Counter(
                msgspec.json.decode(self._deaths_file.read_bytes(), type=dict[str, int])
            )
        except (OSError, msgspec.DecodeError):
            self._deaths = Counter()
        self.careful = bool(self._deaths)
        self.fatal = {
            int(place)
            for place, deaths in self._deaths.items()
            if place.isdigit() and deaths >= _FATAL
        }
        self._handle = -1

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
        """Note the document that comes next; it need outlive this process, not this machine."""
        os.pwrite(self._handle, b"%-12d" % number, 0)

    def died(self) -> None:
        """Note that a process died at this unit.

        Raises:
            BuildError: Too often.
        """
        place = (
            self._place.read_text("ascii").strip()
            if self.careful and self._place.is_file()
            else _UNKNOWN
        )
        self._deaths[place] += 1
        if self._deaths[_BEFORE] >= _MOST_BEFORE or self._deaths.total() >= _MOST:
            before = " before its first document" if self._deaths[_BEFORE] >= _MOST_BEFORE else ""
            raise BuildError(
                f"{self._name}: a worker process died {self._deaths.total()} times{before} (out of memory?); what is "
                "finished is kept, and the same command goes on; fewer --workers need less memory"
            )
        make_folder(self._folder)
        write_whole(self._deaths_file, [canonical_json(self._deaths)])
