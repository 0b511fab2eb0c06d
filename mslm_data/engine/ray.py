"""The engine for many machines: Ray actors on nodes that all see the inputs and the folder.

Messages carry byte ranges, receipts and our own errors, never text. An actor prints nothing, as
Ray would keep it in files that others can read.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mslm_data._optional import load
from mslm_data._version import __version__
from mslm_data.data.columns import FORMAT
from mslm_data.engine import PRELOAD, AnyTask, Preload, Task, Work, attempt
from mslm_data.engine.crew import Answer, Died, Ready, supervise
from mslm_data.errors import BuildError, MslmDataError
from mslm_data.plugins import plugin_versions

_OPTIONS = {
    # Ray starts no actor again and calls none twice: the crew does, and counts.
    "max_restarts": 0,
    "max_task_retries": 0,
    "num_cpus": 1,
    # Models are large, so the actors are spread over the nodes.
    "scheduling_strategy": "SPREAD",
}
_LOOK_S = 5.0
"""How often new nodes are looked for."""
_WITHOUT_CPU_S = 300.0
"""How long a cluster may be without any CPU, as one is whose nodes are being replaced."""
_PATIENCE_S = 10.0
"""How long a cluster may take to answer."""
_WRITERS = ("numpy", "pyarrow", "tokenizers", "spacy", "medcat", "torch", "transformers")
"""Packages besides this one whose version can change bytes."""


def run(
    work: Work[AnyTask],
    tasks: Sequence[AnyTask],
    *,
    workers: int | None,
    done: Callable[[str], Sequence[AnyTask]],
    preload: Preload,
) -> None:
    """Run tasks on a Ray cluster; see `connected`.

    Args:
        work: See `Engine`.
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
            supervise(work, tasks, Actors(ray, work, workers, preload), done)
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


class Actors:
    """Actors on the nodes of a cluster. Ray notices their deaths, and we ask."""

    where = "engine 'ray'"
    advice = (
        f"is mslm-data {__version__} installed on all nodes, and does a model fit into their "
        "memory?"
    )

    def __init__(self, ray: Any, work: Work[Any], most: int | None, preload: Preload) -> None:
        self._ray = ray
        self._most = most
        self._work = ray.put(work)  # once, not with each task
        self._actor = ray.remote(TaskActor).options(**_OPTIONS)
        self._terms = (versions(), str(Path.cwd()), work.folder, *preload)

        self._actors: set[Any] = set()
        self._asked: dict[Any, Any] = {}
        """Pending answer -> the actor that will give it."""
        self._last_cpu = time.monotonic()

    def room(self) -> int:
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
                f"{self.where}: expected nodes with CPUs, got none; see `ray status`, and "
                "--num-cpus of `ray start`"
            )
        return cpus if self._most is None else min(cpus, self._most)

    def start(self) -> Any:
        """Start an actor on some node."""
        actor = self._actor.remote()
        self._actors.add(actor)
        self._asked[actor.begin.remote(*self._terms)] = actor
        return actor

    def give(self, worker: Any, task: Task) -> None:
        """Ask an actor for a task."""
        self._asked[worker.attempt.remote(self._work, task)] = worker

    def answers(self, *, waits: bool) -> list[Answer]:
        """Return an answer, waiting not so long that new nodes stay unused; see `Workers`."""
        patience = _LOOK_S if waits else 0
        if not self._asked:
            time.sleep(patience)
            return []
        answered, _ = self._ray.wait(list(self._asked), num_returns=1, timeout=patience)
        return [self._answer(answer) for answer in answered]

    def _answer(self, answer: Any) -> Answer:
        actor = self._asked.pop(answer)
        errors = self._ray.exceptions
        try:
            return Answer(actor, self._ray.get(answer))
        except errors.RayTaskError as error:  # its message holds what was raised
            raise BuildError(
                f"{self.where}: a node answered with {type(error.cause).__name__}; is mslm-data "
                f"{__version__} on all nodes?"
            ) from None
        except errors.RayError as error:
            self._ray.kill(actor)  # it may be out of reach only
            self._actors.remove(actor)
            return Answer(actor, Died(type(error).__name__))

    def end(self) -> None:
        """End all actors."""
        for actor in self._actors:
            with suppress(self._ray.exceptions.RayError):  # the cluster may be lost
                self._ray.kill(actor)


class TaskActor:
    """Does tasks in a process on some node."""

    def begin(
        self, wanted: Mapping[str, str], cwd: str, folder: str, module: str, told: str
    ) -> Ready | MslmDataError:
        """Get ready, or return why tasks cannot be done here.

        From now on, all that this process prints goes nowhere.

        Args:
            wanted: What decides bytes -> its version, where the build was started.
            cwd: Where the build was started; its paths may be relative to it.
            folder: The folder that is built.
            module: See `Preload`.
            told: See `Preload`.
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

        os.environ[PRELOAD] = told
        with suppress(Exception):  # the tasks meet the error again, and report it
            importlib.import_module(module)
        return Ready()

    def attempt(self, work: Work[AnyTask], task: AnyTask) -> str | MslmDataError:
        """Do a task; an input that this node does not see is named as the reason of a failure."""
        outcome = attempt(work, task)
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
