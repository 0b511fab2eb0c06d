"""The engine for many machines: Ray actors, each at one unit at most, on nodes that all see the inputs and the folder.

Messages carry byte ranges, receipts and our own errors, never text.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mslm_data import __version__
from mslm_data.data.document import WorkUnit
from mslm_data.engine import Preload, Work
from mslm_data.engine.ray_cluster import connected
from mslm_data.engine.ray_hand import Hand, versions
from mslm_data.errors import BuildError

_OPTIONS = {
    "num_cpus": 1,
    "max_restarts": 0,
    "max_task_retries": 0,
    "scheduling_strategy": "SPREAD",
}
"""Ray starts no actor again and calls none twice: we do, and count. Models are large, so they are spread over nodes."""
_FAILED_STARTS = 5
"""Actors in a row that died before their first unit after which the build gives up."""
_LOOK_S = 5.0
"""How often new nodes are looked for."""
_WITHOUT_CPU_S = 300.0
"""How long a cluster may be without any CPU, as one is whose nodes are being replaced."""


def run(
    work: Work,
    units: Sequence[WorkUnit],
    *,
    workers: int | None,
    done: Callable[[str], None],
    preload: Preload,
) -> None:
    """Run units on a Ray cluster; see `Engine`, and `ray_cluster` for which.

    Args:
        work: See `Engine`.
        units: See `Engine`.
        workers: Actors at the most; None: one for each CPU of the cluster, also of nodes that join later.
        done: See `Engine`.
        preload: See `Engine`; each actor loads what it needs.

    Raises:
        BuildError: No cluster, or a node of it lacks something: the folder, an input, this package, a version.
        MslmDataError: See `Engine`.
    """
    if not units:
        return
    with connected(workers) as ray:
        crew = _Crew(ray, work, units, workers or len(units), preload)
        try:
            crew.work_off(done)
        except ray.exceptions.RayError as error:
            raise BuildError(
                f"ray: the cluster was lost ({type(error).__name__}); what is finished is kept, and the same command "
                "goes on"
            ) from None
        finally:
            crew.dismiss()


class _Crew:
    """Actors, each at one unit at most; one that fails in any way is not asked again."""

    def __init__(
        self, ray: Any, work: Work, units: Sequence[WorkUnit], most: int, preload: Preload
    ) -> None:
        self._ray, self._died = ray, work.died
        self._work = ray.put(work)  # once, not with each unit
        self._waiting, self._most = deque(units), most
        self._actor = ray.remote(Hand).options(**_OPTIONS)
        self._terms = (versions(), str(Path.cwd()), work.folder, *preload)
        self._idle: list[Any] = []
        self._at: dict[Any, tuple[Any, WorkUnit | None]] = {}
        """What will be answered -> the actor, and its unit; None while it starts."""
        self._failed_starts = 0
        self._last_cpu = time.monotonic()

    def work_off(self, done: Callable[[str], None]) -> None:
        """Do all units."""
        while self._waiting or self._units():
            self._hire()
            while self._waiting and self._idle:
                actor, unit = self._idle.pop(), self._waiting.popleft()
                self._at[actor.attempt.remote(self._work, unit)] = actor, unit
            if not self._at:
                time.sleep(_LOOK_S)  # for a node
            elif answered := self._ray.wait(list(self._at), num_returns=1, timeout=_LOOK_S)[0]:
                self._take(answered[0], done)

    def _units(self) -> int:
        return sum(unit is not None for _, unit in self._at.values())

    def _hire(self) -> None:
        """Start as many actors as there are units and CPUs for."""
        have = len(self._idle) + len(self._at)
        at_work = self._units()
        wanted = min(self._most, len(self._waiting) + at_work)
        if have >= wanted and at_work:
            return
        cpus = int(self._ray.cluster_resources().get("CPU", 0))
        if cpus:
            self._last_cpu = time.monotonic()
        elif time.monotonic() - self._last_cpu > _WITHOUT_CPU_S:
            raise BuildError(
                "ray: expected nodes with CPUs, got none; see `ray status`, and --num-cpus of `ray start`"
            )
        for _ in range(min(wanted, cpus) - have):
            actor = self._actor.remote()
            self._at[actor.begin.remote(*self._terms)] = actor, None

    def _take(self, answer: Any, done: Callable[[str], None]) -> None:
        """Take what an actor has made, or its unit back if it is dead."""
        actor, unit = self._at.pop(answer)
        errors = self._ray.exceptions
        try:
            outcome = self._ray.get(answer)
        except errors.RayTaskError as error:  # its message holds what was raised
            raise BuildError(
                f"ray: a node answered with {type(error.cause).__name__}; is mslm-data {__version__} on all nodes?"
            ) from None
        except errors.RayError as error:
            self._ray.kill(actor)  # it may be out of reach only
            self._lost(unit, type(error).__name__)
            return
        if isinstance(outcome, Exception):
            raise outcome
        if unit is None:
            self._failed_starts = 0
        else:
            done(outcome)
        self._idle.append(actor)

    def _lost(self, unit: WorkUnit | None, how: str) -> None:
        if unit is not None:
            self._died(unit)
            self._waiting.append(unit)
            return
        self._failed_starts += 1
        if self._failed_starts >= _FAILED_STARTS:
            raise BuildError(
                f"ray: expected actors to start, got {how} {self._failed_starts} times in a row; is mslm-data "
                f"{__version__} installed on all nodes, and does a model fit into their memory?"
            )

    def dismiss(self) -> None:
        """End all actors; what one was at is done again some day."""
        for actor in [*self._idle, *(actor for actor, _ in self._at.values())]:
            with suppress(self._ray.exceptions.RayError):  # the cluster may be lost
                self._ray.kill(actor)
