"""Engines: run the work units of a build, in this process, in others, or on a Ray cluster.

An engine runs each unit at least once; the receipts that units leave make it exactly once.
`crew` supervises workers for every engine that has some.
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
"""Environment variable that holds `Preload.told` while its module is imported."""


class Work(Protocol):
    """The work done on each work unit. It can be pickled, and never carries text."""

    @property
    def folder(self) -> str:
        """The folder that is built: workers elsewhere check that they see it at the same path."""
        ...

    def __call__(self, unit: WorkUnit) -> str:
        """Write a unit's shard and receipt, and return the receipt's name."""
        ...

    def died(self, unit: WorkUnit) -> None:
        """Record that a worker died while it was at a unit, which will be tried again.

        Raises:
            BuildError: Workers died at this unit too often.
        """
        ...


class Preload(NamedTuple):
    """A module that is imported ahead of the workers, so that they share what it loads.

    Attributes:
        module: Its name.
        told: What the module reads from `PRELOAD`; no text of any document.
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

        If a worker dies, its unit is told to `work.died` and run again elsewhere.

        Args:
            work: What is done to each unit.
            units: What to do it to.
            workers: How many units are done at a time; None: as many as there are CPUs.
            done: Called here, as units finish, with the value that `work` returned.
            preload: What workers need in memory before they begin, loaded once a machine if
                possible.

        Raises:
            MslmDataError: `attempt` returned it for a unit, or `work.died` raised it. The other
                units are not waited for.
        """
        ...


def attempt(work: Work, unit: WorkUnit) -> str | MslmDataError:
    """Do a unit in a worker, and return only what may travel back.

    An exception's message can hold a note's text, so exceptions that are not ours do not travel.

    Returns:
        The receipt's name, or an error: ours unchanged, any other named by its class and place.
    """
    try:
        return work(unit)
    except MslmDataError as error:
        return error
    except MemoryError:
        return BuildError(
            f"{unit.name}: out of memory; run the same command again with fewer --workers"
        )
    except OSError as error:
        said = of_the_system(error) or _unexpected(error)
        return BuildError(f"{unit.name}: {said}; mend this and run the same command again")
    except BaseException as error:  # noqa: BLE001 - libraries in Rust raise such
        return BuildError(f"{unit.name}: {_unexpected(error)}; --workers 1 with --debug shows more")


def _unexpected(error: BaseException) -> str:
    """Name an exception by its class and place."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}:{frame.lineno}"
    return f"{type(error).__name__} in {place}, which should not happen"


ENGINES = Registry(
    "engine", {"local": "mslm_data.engine.local:run", "ray": "mslm_data.engine.ray:run"}
)
