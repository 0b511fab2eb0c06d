"""Work units that fail in all ways, for engines, and slow units of a build for kills."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mslm_data.builds.worker import BuildWorker

from mslm_data.builds.tasks import Task, WorkUnit
from mslm_data.data.document import Part
from mslm_data.errors import BuildError
from tests.faults.corpora import CORPORA, Corpus

CANARY = "zebulonkanarie"


def units(count: int, path: str = __file__) -> list[WorkUnit]:
    return [WorkUnit("train", 0, number, (Part(path),)) for number in range(count)]


class Done:
    """Records completed units, and adds the units that depend on them.

    Attributes:
        names: Names of completed units, in order.
        then: Mapping of unit names to the units that follow them.
    """

    def __init__(self, then: Mapping[str, Sequence[WorkUnit]] | None = None) -> None:
        self.names: list[str] = []
        self.then = then or {}

    def __call__(self, name: str) -> Sequence[WorkUnit]:
        self.names.append(name)
        return self.then.get(name, ())


@dataclass
class Fake:
    """Records the process of each unit, and fails at unit 1.

    Attributes:
        folder: Folder of the records.
        how: Failures of unit 1 at the first attempt, the second, and so on.
        suspects: Names of units whose process may have died because of them.
        deaths: Names of units whose process died.
        expected: Names of announced units.
    """

    folder: str
    how: tuple[str, ...] = ()
    suspects: list[str] = field(default_factory=list)
    deaths: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    def __call__(self, unit: WorkUnit) -> str:
        folder = Path(self.folder)
        times = len(list(folder.glob(f"{unit.name}.*")))
        (folder / f"{unit.name}.{os.getpid()}").touch()
        if unit.number == 1 and times < len(self.how):
            _fail(self.how[times])
        return unit.name

    def expect(self, unit: WorkUnit) -> None:
        self.expected.append(unit.name)

    def suspect(self, unit: WorkUnit) -> None:
        self.suspects.append(unit.name)

    def died(self, unit: WorkUnit, how: str) -> None:
        self.deaths.append(unit.name)
        if len(self.deaths) >= 3:
            raise BuildError(f"{unit.name}: died too often, the last by {how}")

    def processes(self) -> set[str]:
        """Return the processes that ran units."""
        return {path.suffix for path in Path(self.folder).glob("train-*.*")}


class Elsewhere(Fake):
    """A worker that cannot be unpickled in another process; the error contains text."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _refuse, (os.getpid(),)


def _refuse(home: int) -> None:
    if os.getpid() != home:
        raise KeyError(CANARY)


def _fail(how: str) -> None:
    if how == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exits":
        os._exit(3)
    if how == "raises":
        raise ValueError(f"cannot parse {CANARY}")
    assert how == "panics"
    sys.stdout.write(f"{CANARY}\n")
    sys.stderr.write(f"{CANARY}\n")
    os.write(1, CANARY.encode())
    os.write(2, CANARY.encode())
    raise BaseException(f"panicked at {CANARY}")  # Like the panics of Rust libraries.


def finely(name: str) -> Corpus:
    """Return a corpus with units small enough for a dozen or more."""
    corpus = CORPORA[name]
    units = replace(corpus.pipeline.shard, unit_bytes=corpus.pipeline.shard.unit_bytes // 5)
    return corpus._replace(pipeline=replace(corpus.pipeline, shard=units))


class SlowWorker(BuildWorker):
    """Builds units slowly, and not before a file beside the folder allows it.

    Another file names the process at each unit.
    """

    def __call__(self, of: Task) -> str:
        if not isinstance(of, WorkUnit):
            return super().__call__(of)
        note = Path(f"{self.folder}.at") / str(os.getpid())
        note.parent.mkdir(exist_ok=True)
        note.touch()
        time.sleep(0.2)
        while not Path(f"{self.folder}.go").exists():
            time.sleep(0.05)
        receipt = super().__call__(of)
        note.unlink()
        return receipt

    def died(self, of: Task, how: str) -> None:
        with Path(f"{self.folder}.deaths").open("a", encoding="utf-8") as file:
            file.write(f"{of.name}\n")
        super().died(of, how)


def busy(folder: Path, processes: Iterable[int]) -> set[int]:
    """Return the processes that are at a unit of a folder."""
    at = Path(f"{folder}.at")
    return {process for process in processes if (at / str(process)).exists()}


def deaths(folder: Path) -> list[str]:
    """Return the units whose process died, once per death."""
    path = Path(f"{folder}.deaths")
    return path.read_text(encoding="utf-8").split() if path.is_file() else []
