"""Tasks that answer, fail and die, for any engine."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from mslm_data.engine import note
from mslm_data.errors import SourceError

CANARY = "zebulonkanarie"


class Do(NamedTuple):
    """A task: the method of `Work` to call, and a number."""

    number: int
    do: str = "answer"

    @property
    def name(self) -> str:
        return f"task-{self.number}"


class Work(NamedTuple):
    """Does what a task says, and records its process."""

    folder: Path

    def __call__(self, task: Do) -> Any:
        (self.folder / f"{task.name}.{os.getpid()}").touch()
        return getattr(self, f"_{task.do}")(task)

    def _answer(self, task: Do) -> int:
        return task.number * 10

    def _pid(self, task: Do) -> int:
        return os.getpid()

    def _kill(self, task: Do) -> None:
        note("before")
        note(("document", task.number))
        os.kill(os.getpid(), signal.SIGKILL)

    def _exit(self, task: Do) -> None:
        os._exit(3)

    def _die_once(self, task: Do) -> int:
        if len(list(self.folder.glob(f"{task.name}.*"))) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return self._answer(task)

    def _ours(self, task: Do) -> None:
        raise SourceError("notes.csv: line 3: no text")

    def _foreign(self, task: Do) -> None:
        raise ValueError(f"cannot parse {CANARY}")

    def _panic(self, task: Do) -> None:
        sys.stdout.write(f"{CANARY}\n")
        os.write(2, CANARY.encode())
        raise BaseException(f"panicked at {CANARY}")  # like the panics of Rust libraries

    def _memory(self, task: Do) -> None:
        raise MemoryError(CANARY)

    def _disk(self, task: Do) -> None:
        raise OSError(28, "No space left on device", CANARY)

    def _unpicklable(self, task: Do) -> Any:
        return lambda: CANARY

    def _large(self, task: Do) -> bytes:
        return bytes(3_000_000)

    def _pause(self, task: Do) -> int:
        time.sleep(0.2)
        return os.getpid()

    def _cwd(self, task: Do) -> str:
        os.write(1, CANARY.encode())
        return os.getcwd()

    def _wait(self, task: Do) -> int:
        while not (self.folder.parent / "go").exists():
            time.sleep(0.05)
        return self._answer(task)

    def _loaded(self, task: Do) -> str:
        return self.folder.with_name("loaded").read_text()

    def _sleep(self, task: Do) -> None:
        time.sleep(100_000)

    def pids(self) -> list[int]:
        """Return the process of each task that has begun."""
        return [int(path.suffix[1:]) for path in self.folder.iterdir()]


class Elsewhere(Work):
    """Cannot be unpickled in another process; the error contains text."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _refuse, (os.getpid(),)


def _refuse(home: int) -> None:
    if os.getpid() != home:
        raise KeyError(CANARY)


def gone(pid: int) -> bool:
    # Orphans stay as zombies if no process collects them.
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
