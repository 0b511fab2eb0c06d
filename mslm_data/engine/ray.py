"""The engine for many machines: Ray actors on nodes that all see the inputs and the folder.

Each worker is an actor, with one task at a time, so it is never in doubt which task a worker died
of. Ray's own tasks would do, but Ray notices within seconds that a node with actors has vanished,
and not within minutes that one with tasks has.

Messages carry byte ranges, receipts and our own errors, never text. An actor prints nothing, as
Ray would keep it in files that others can read.
"""

from __future__ import annotations

import importlib.metadata
import os
import pkgutil
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Generic

from mslm_data._optional import load
from mslm_data._version import __version__
from mslm_data.data.columns import FORMAT
from mslm_data.engine import AnyTask, Preload, Worker, attempt
from mslm_data.errors import BuildError, MslmDataError
from mslm_data.plugins import plugin_versions

_OPTIONS = {
    # Ray starts no actor again and calls none twice: that is done and counted here.
    "max_restarts": 0,
    "max_task_retries": 0,
    "num_cpus": 1,
    # Models are large, so the actors are spread over the nodes.
    "scheduling_strategy": "SPREAD",
}
_FAILED_STARTS = 5
"""Actors that may die in a row before they are ready; then the build gives up."""
_LOOK_S = 5.0
"""How often new nodes are looked for."""
_WITHOUT_CPU_S = 300.0
"""How long a cluster may be without any CPU, as one is whose nodes are being replaced."""
_PATIENCE_S = 10.0
"""How long a cluster may take to answer."""
_WRITERS = ("numpy", "pyarrow", "tokenizers", "spacy", "medcat", "torch", "transformers")
"""Packages besides this one whose version can change bytes."""


def run(
    worker: Worker[AnyTask],
    tasks: Sequence[AnyTask],
    *,
    workers: int | None,
    done: Callable[[str], Sequence[AnyTask]],
    preload: Preload,
) -> None:
    """Run tasks on a Ray cluster; see `connected`.

    Args:
        worker: See `Engine`.
        tasks: See `Engine`.
        workers: Maximum number of actors; None: one for each CPU of the cluster, and of nodes that
            join later.
        done: See `Engine`.
        preload: See `Engine`; each actor loads what it needs.

    Raises:
        BuildError: There is no cluster, or a node lacks something: the folder, an input, this
            package, a version.
        MslmDataError: See `Engine`.
    """
    if not tasks:
        return

    with connected() as ray:
        try:
            _Actors(ray, worker, workers, preload).work_off(tasks, done)
        except (ray.exceptions.ObjectStoreFullError, ray.exceptions.OutOfDiskError) as error:
            raise BuildError(
                "engine 'ray': expected room for a few megabytes in Ray's object store or on the "
                f"disk beside it, got {type(error).__name__}; see `ray memory`, make room, and run "
                "the same command again"
            ) from None
        except ray.exceptions.RayError as error:
            raise BuildError(
                f"engine 'ray': the cluster was lost ({type(error).__name__}); what is finished is "
                "kept, run the same command again"
            ) from None


@contextmanager
def connected() -> Iterator[Any]:
    """Give the package `ray`, connected to the cluster that RAY_ADDRESS names.

    A program that is connected to a cluster already stays connected to it. The address must be
    given: by itself, and for "auto", Ray takes any cluster of this machine. That may be another
    user's, and notes must not reach it.

    Raises:
        BuildError: RAY_ADDRESS names no cluster that answers, or one that cannot be joined.
        MissingExtraError: Ray is not installed.
    """
    ray: Any = load("ray", wanted_by="engine 'ray'")
    if ray.is_initialized():
        yield ray
        return

    address = os.environ.get("RAY_ADDRESS", "")
    if not _answers(address):
        raise BuildError(
            "RAY_ADDRESS: expected the host:port of a Ray cluster that answers, got "
            f"'{address}'; start one with `ray start --head` and set RAY_ADDRESS to the address "
            "that it prints, or pass --engine local"
        )

    on_term = signal.getsignal(signal.SIGTERM)
    try:
        try:
            ray.init(address, log_to_driver=False, logging_level="ERROR")
        except Exception as error:  # noqa: BLE001 - Ray raises many kinds
            said = str(error).partition("\n")[0]
            raise BuildError(
                f"RAY_ADDRESS: expected a Ray cluster that can be joined at {address}, got "
                f"{type(error).__name__} ({said}); see `ray status`"
            ) from None

        # In the main thread Ray replaces the handler that ends a command cleanly.
        if callable(on_term) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, on_term)
        yield ray
    finally:
        ray.shutdown()


def _answers(address: str) -> bool:
    """Return whether something listens at `host:port`; Ray would try for a quarter of an hour."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE_S).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True


class _Actors(Generic[AnyTask]):
    """The actors of a build. Ray notices their deaths, and we ask."""

    def __init__(
        self, ray: Any, worker: Worker[AnyTask], most: int | None, preload: Preload
    ) -> None:
        self._ray = ray
        self._most = most
        self._worker = worker
        self._shared = ray.put(worker)  # once, not with each task
        self._terms = (versions(), str(Path.cwd()), worker.folder, preload)
        self._actor = ray.remote(TaskActor).options(**_OPTIONS)

        self._asked: dict[Any, tuple[Any, AnyTask | None]] = {}
        """Pending answer -> the actor that will give it, and its task; None for one that starts."""
        self._idle: list[Any] = []
        self._failed_starts = 0
        self._last_cpu = time.monotonic()

    def work_off(self, tasks: Sequence[AnyTask], done: Callable[[str], Sequence[AnyTask]]) -> None:
        """Do all tasks, and those that become possible through them; then end the actors."""
        waiting = deque(tasks)
        try:
            while waiting or self._busy():
                self._start_missing(len(waiting))
                while waiting and self._idle:
                    actor, task = self._idle.pop(), waiting.popleft()
                    self._asked[actor.attempt.remote(self._shared, task)] = actor, task
                for task, receipt in self._answers():
                    waiting += [task] if receipt is None else done(receipt)
        finally:
            for actor in [*self._idle, *(actor for actor, _ in self._asked.values())]:
                with suppress(self._ray.exceptions.RayError):  # the cluster may be lost
                    self._ray.kill(actor)

    def _busy(self) -> int:
        """Return how many actors are at a task."""
        return sum(task is not None for _, task in self._asked.values())

    def _start_missing(self, waiting: int) -> None:
        """Start as many actors as there are tasks and there is room for."""
        wanted = min(waiting + self._busy(), self._room())
        for _ in range(wanted - len(self._idle) - len(self._asked)):
            actor = self._actor.remote()
            self._asked[actor.begin.remote(*self._terms)] = actor, None

    def _room(self) -> int:
        """Return the number of CPUs of all nodes, or that of the actors that were asked for.

        Raises:
            BuildError: No node has had a CPU for minutes.
        """
        cpus = int(self._ray.cluster_resources().get("CPU", 0))
        now = time.monotonic()
        if cpus:
            self._last_cpu = now
        elif now - self._last_cpu > _WITHOUT_CPU_S:
            raise BuildError(
                "engine 'ray': expected nodes with CPUs, got none; see `ray status`, and "
                "--num-cpus of `ray start`"
            )
        return cpus if self._most is None else min(cpus, self._most)

    def _answers(self) -> Iterator[tuple[AnyTask, str | None]]:
        """Give a task with its receipt, or with None if its actor died.

        It waits not so long that new nodes stay unused, and then gives nothing.
        """
        if not self._asked:
            time.sleep(_LOOK_S)
            return
        answered, _ = self._ray.wait([*self._asked], num_returns=1, timeout=_LOOK_S)
        for answer in answered:
            actor, task = self._asked.pop(answer)
            receipt = self._receipt(answer, actor, task)
            if task is not None:
                yield task, receipt

    def _receipt(self, answer: Any, actor: Any, task: AnyTask | None) -> str | None:
        errors = self._ray.exceptions
        try:
            outcome: str | MslmDataError = self._ray.get(answer)
        except errors.RayTaskError as error:  # its message holds what was raised
            raise BuildError(
                f"engine 'ray': a node answered with {type(error.cause).__name__}; is mslm-data "
                f"{__version__} on all nodes?"
            ) from None
        except errors.RayError as error:
            self._ray.kill(actor)  # it may be out of reach only
            self._bury(task, type(error).__name__)
            return None

        self._idle.append(actor)
        if isinstance(outcome, MslmDataError):
            raise outcome
        self._failed_starts = 0
        return outcome

    def _bury(self, task: AnyTask | None, how: str) -> None:
        """Record the death of an actor, and see whether the build should give up."""
        if task is not None:
            self._worker.died(task, how)
            return
        self._failed_starts += 1
        if self._failed_starts >= _FAILED_STARTS:
            raise BuildError(
                f"engine 'ray': expected workers that start, got {self._failed_starts} in a row "
                f"that ended before they were ready (the last: {how}); is mslm-data {__version__} "
                "installed on all nodes, and does a model fit into their memory?"
            )


class TaskActor:
    """Does tasks in a process on some node."""

    def begin(
        self, wanted: Mapping[str, str], cwd: str, folder: str, preload: Preload
    ) -> str | MslmDataError:
        """Get ready, and return nothing, or why tasks cannot be done here.

        From now on, all that this process prints goes nowhere.

        Args:
            wanted: What decides bytes -> its version, where the build was started.
            cwd: Where the build was started; its paths may be relative to it.
            folder: The folder that is built.
            preload: See `Preload`.
        """
        os.umask(0o077)
        _silence()
        with suppress(OSError):
            os.chdir(cwd)

        here = versions()
        for name, version in wanted.items():
            if here.get(name, version) != version:
                return BuildError(
                    f"node {_node()}: expected {name} {version} as where the build was started, "
                    f"got {here[name]}; install the same versions on all nodes, as bytes depend on "
                    "them"
                )
        if not os.path.isdir(os.path.join(folder, ".build")):  # False too where it may not look
            return BuildError(
                f"node {_node()}: expected to see {folder}, found no such folder; build into one "
                "that all nodes share under the same path"
            )

        with suppress(Exception):  # the tasks meet the error again, and report it
            pkgutil.resolve_name(preload.function)(preload.argument)
        return ""

    def attempt(self, worker: Worker[AnyTask], task: AnyTask) -> str | MslmDataError:
        """Do a task; an input that this node does not see is named as the reason of a failure."""
        outcome = attempt(worker, task)
        if isinstance(outcome, MslmDataError):
            unseen = [path for path in task.paths if not os.path.exists(path)]
            if unseen:
                return BuildError(
                    f"node {_node()}: expected to see {unseen[0]}, found no such file; put inputs "
                    "where all nodes see them under the same path"
                )
        return outcome


def _silence() -> None:
    """Send all that this process prints nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)


def versions() -> dict[str, str]:
    """Return the versions of all that decides bytes, as far as it is installed."""
    found = {"mslm-data": __version__, "folder format": str(FORMAT)}
    for name in _WRITERS:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found | plugin_versions()


def _node() -> str:
    return socket.gethostname()
