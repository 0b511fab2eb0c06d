"""Engines: who does the work units of a build.

An engine runs each unit at least once; receipts make it exactly once.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from mslm_data.data.document import WorkUnit
from mslm_data.errors import BuildError, MslmDataError, of_the_system
from mslm_data.registry import Registry

PRELOAD = "MSLM_DATA_PRELOAD"
"""Environment variable that holds `Preload.told` while a module is imported ahead of the workers."""


class Work(Protocol):
    """What is done to each unit; picklable, and never carries text."""

    @property
    def folder(self) -> str:
        """What is built: processes elsewhere see that they have it under the same path."""
        ...

    def __call__(self, unit: WorkUnit) -> str:
        """Write a unit's shard and receipt, and return the receipt's name."""
        ...

    def died(self, unit: WorkUnit) -> None:
        """Note that a process ended while it was at a unit, which is to be tried again.

        Raises:
            BuildError: It ended there too often.
        """
        ...


class Preload(NamedTuple):
    """A module to import ahead of the workers.

    Attributes:
        module: Its name.
        told: What it wants to know; no text of any document.
    """

    module: str
    told: str


class Engine(Protocol):
    """Runs work units, in any order and anywhere that sees the inputs and the folder."""

    def __call__(
        self,
        work: Work,
        units: Sequence[WorkUnit],
        *,
        workers: int | None,
        done: Callable[[str], None],
        preload: Preload,
    ) -> None:
        """Run `work` on every unit.

        A unit whose process ends is told to `work.died`, and run again elsewhere.

        Args:
            work: See `Work`.
            units: What to do.
            workers: How many at a time; None: as many as there are CPUs.
            preload: What workers want in memory before they begin, once a machine if it can be.
            done: Called here, as units finish, with what `work` returned.

        Raises:
            MslmDataError: What `attempt` returned for a unit, or `work.died` raised; the others are not waited for.
        """
        ...


def attempt(work: Work, unit: WorkUnit) -> str | MslmDataError:
    """Do a unit in another process, and return what may travel back: an exception's message can hold a note's text.

    Returns:
        The receipt's name, or an error: ours as it is, of any other its class and place.
    """
    try:
        return work(unit)
    except MslmDataError as error:
        return error
    except MemoryError:
        return BuildError(
            f"{unit.name}: out of memory; fewer --workers need less, and the same command goes on"
        )
    except OSError as error:
        said = of_the_system(error) or _unexpected(error)
        return BuildError(f"{unit.name}: {said}; the same command goes on")
    except BaseException as error:  # noqa: BLE001 - whatever it is; libraries in Rust raise what is no Exception
        return BuildError(f"{unit.name}: {_unexpected(error)}; --workers 1 with --debug shows more")


def _unexpected(error: BaseException) -> str:
    """Name an exception by its class and place."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(frame.filename).name}:{frame.lineno}, which should not happen"


ENGINES = Registry(
    "engine", {"local": "mslm_data.engine.local:run", "ray": "mslm_data.engine.ray:run"}
)
