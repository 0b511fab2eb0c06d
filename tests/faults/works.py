"""Work units that fail on purpose.

Workers import them by name, so a file says how they fail.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from mslm_data.annotate import Annotations
from mslm_data.annotate.terms.annotator import LoadedTerms
from mslm_data.builds.tasks import Task
from mslm_data.builds.work import BuildWork
from mslm_data.data.documents import Documents

_annotate = LoadedTerms.annotate


class FaultyWork(BuildWork):
    """Fails as a file beside the folder says: `{"do": …, "document": id, "times": maximum}`."""

    def __call__(self, task: Task) -> Any:
        fault = Path(f"{self.folder}.fault")
        settings = json.loads(fault.read_text()) if fault.is_file() else {}
        if settings:
            LoadedTerms.annotate = _faulty(fault, settings)  # type: ignore[method-assign]
        try:
            return super().__call__(task)
        finally:
            LoadedTerms.annotate = _annotate  # type: ignore[method-assign]


def tell(out: Path, **fault: Any) -> None:
    """Set how the build of a folder fails."""
    Path(f"{out}.fault").write_text(json.dumps(fault))


def deaths(out: Path) -> int:
    """Return the number of failures so far."""
    path = Path(f"{out}.fault.times")
    return path.stat().st_size if path.is_file() else 0


def _faulty(fault: Path, settings: dict[str, Any]) -> Any:
    def annotate(self: LoadedTerms, documents: Documents) -> Annotations:
        times = Path(f"{fault}.times")
        if settings["document"] in documents.ids and deaths(fault.with_suffix("")) < settings.get(
            "times", 1 << 30
        ):
            Path(f"{fault}.pid").write_text(str(os.getpid()))
            with times.open("ab") as file:
                file.write(b".")
            _go_wrong(settings["do"], documents.line)
        return _annotate(self, documents)

    return annotate


def _go_wrong(how: str, text: str) -> None:
    if how == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "hang":
        time.sleep(600)
    raise {"memory": MemoryError, "disk": OSError}[how](text)
