"""The Ray engine: actors on nodes that all see the inputs and the output folder.

Each worker is an actor with one task at a time, so a death always belongs to a known task. Ray
tasks would do too, but Ray notices the loss of a node with actors within seconds, and of a node
with tasks only after minutes.

Messages contain byte ranges, receipts and our own errors, never text. Actors print nothing, because
Ray writes their output to files that other users can read.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import pkgutil
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Generic

from mslm_data._optional import load
from mslm_data._version import __version__
from mslm_data.data.columns import FORMAT
from mslm_data.engine import (
    AnyTask,
    Crew,
    Died,
    Preload,
    Task,
    Work,
    Worker,
    attempt,
    safe,
    send_notes_to,
)
from mslm_data.errors import BuildError, MslmDataError
from mslm_data.plugins import plugin_versions

_OPTIONS = {
    # Restarts and retries are done here, so that each death is counted.
    "max_restarts": 0,
    "max_task_retries": 0,
    "num_cpus": 1,
    # Spread actors over nodes, because models are large.
    "scheduling_strategy": "SPREAD",
}
_FAILED_STARTS = 5
"""Maximum number of consecutive failed starts of actors."""
_LOOK_S = 5.0
"""Interval of looking for new nodes, in seconds."""
_WITHOUT_CPU_S = 300.0
"""Maximum time without any CPU in the cluster, in seconds. Nodes may be in replacement."""
_PATIENCE_S = 10.0
"""Timeout for connecting to the cluster, in seconds."""
_WRITERS = ("numpy", "pyarrow", "tokenizers", "spacy", "medcat", "torch", "transformers")
"""Packages besides this one whose versions can change bytes."""


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
        workers: Maximum number of actors. None: the number of CPUs of all nodes, including later
            ones.
        done: See `Engine`.
        preload: See `Engine`. Each actor loads it.

    Raises:
        BuildError: There is no cluster, or a node lacks the folder, an input, or a package version.
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
    """Connect to the Ray cluster of RAY_ADDRESS, and yield the package `ray`.

    A program that is connected already stays connected. Otherwise the address is required: without
    one, or with "auto", Ray uses any cluster of this machine. It may belong to another user, and
    must not receive notes.

    Raises:
        BuildError: RAY_ADDRESS names no cluster that answers, or the cluster cannot be joined.
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
            first_line = str(error).partition("\n")[0]
            raise BuildError(
                f"RAY_ADDRESS: cannot join the Ray cluster at {address}: "
                f"{type(error).__name__} ({first_line}); see `ray status`"
            ) from None

        # In the main thread, `ray.init` replaces the handler that ends a command cleanly.
        if callable(on_term) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, on_term)
        yield ray
    finally:
        ray.shutdown()


def _answers(address: str) -> bool:
    """Return whether something listens at `host:port`; Ray itself would retry for 15 minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE_S).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True


class _Actors(Generic[AnyTask]):
    """The actors of a build."""

    def __init__(
        self, ray: Any, worker: Worker[AnyTask], max_actors: int | None, preload: Preload
    ) -> None:
        self._ray = ray
        self._max_actors = max_actors
        self._worker = worker
        self._shared = ray.put(worker)  # sent once per node, not with each task
        self._terms = (versions(), str(Path.cwd()), worker.folder, preload)
        self._actor = ray.remote(TaskActor).options(**_OPTIONS)

        self._asked: dict[Any, tuple[Any, AnyTask | None]] = {}
        """Pending answer -> its actor and task; the task is None while the actor starts."""
        self._idle: list[Any] = []
        self._failed_starts = 0
        self._last_cpu = time.monotonic()

    def work_off(self, tasks: Sequence[AnyTask], done: Callable[[str], Sequence[AnyTask]]) -> None:
        """Run all tasks, and the tasks made possible by their answers, then kill the actors."""
        waiting = deque(tasks)
        try:
            while waiting or self._busy():
                # Nodes may join or leave at any time, so look for room in each round.
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
        """Return the number of actors with a running task."""
        return sum(task is not None for _, task in self._asked.values())

    def _start_missing(self, waiting: int) -> None:
        """Start an actor for each task, as far as there is room."""
        wanted = min(waiting + self._busy(), self._room())
        for _ in range(wanted - len(self._idle) - len(self._asked)):
            actor = self._actor.remote()
            self._asked[actor.begin.remote(*self._terms)] = actor, None

    def _room(self) -> int:
        """Return the number of CPUs of all nodes, at most the maximum number of actors.

        Raises:
            BuildError: No node has had a CPU for `_WITHOUT_CPU_S`.
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
        return cpus if self._max_actors is None else min(cpus, self._max_actors)

    def _answers(self) -> Iterator[tuple[AnyTask, str | None]]:
        """Yield finished tasks with their receipt, or with None if the actor died.

        Without an answer within `_LOOK_S`, yields nothing, so that new nodes are used soon.
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
        except errors.RayTaskError as error:  # do not show its message, which may contain text
            raise BuildError(
                f"engine 'ray': a node answered with {type(error.cause).__name__}; is mslm-data "
                f"{__version__} on all nodes?"
            ) from None
        except errors.RayError as error:
            self._ray.kill(actor)  # it may be alive but unreachable
            self._bury(task, type(error).__name__)
            return None

        self._idle.append(actor)
        if isinstance(outcome, MslmDataError):
            raise outcome
        self._failed_starts = 0
        return outcome

    def _bury(self, task: AnyTask | None, how: str) -> None:
        """Record the death of an actor.

        Raises:
            BuildError: Too many actors died at a task or at their start.
        """
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
    """Runs tasks in a process on any node."""

    def begin(
        self, wanted: Mapping[str, str], cwd: str, folder: str, preload: Preload
    ) -> str | MslmDataError:
        """Prepare the process. Return "", or an error if tasks cannot run on this node.

        From now on, all output of the process is discarded.

        Args:
            wanted: Package -> version in the leading process.
            cwd: Working directory of the leading process, for relative paths.
            folder: The output folder.
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
        if not os.path.isdir(os.path.join(folder, ".build")):  # also False without permission
            return BuildError(
                f"node {_node()}: expected to see {folder}, found no such folder; build into one "
                "that all nodes share under the same path"
            )

        with suppress(Exception):  # tasks meet the same error, and report it
            pkgutil.resolve_name(preload.function)(preload.argument)
        return ""

    def attempt(self, worker: Worker[AnyTask], task: AnyTask) -> str | MslmDataError:
        """Run a task. If it fails, check that this node sees all of its inputs."""
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
    """Redirect stdout and stderr of the process to nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)


def versions() -> dict[str, str]:
    """Return the versions of all installed packages that decide bytes."""
    installed = {"mslm-data": __version__, "folder format": str(FORMAT)}
    for name in _WRITERS:
        with suppress(importlib.metadata.PackageNotFoundError):
            installed[name] = importlib.metadata.version(name)
    return installed | plugin_versions()


def _node() -> str:
    return socket.gethostname()


# Replaces `run` -----------------------------------------------------------------------------------


@contextmanager
def start(
    work: Work, workers: int | None, preload: Preload | None, paths: Sequence[str | Path]
) -> Iterator[Crew]:
    """Run tasks on a Ray cluster; see `engine.start` and `connected`.

    Raises:
        BuildError: There is no cluster, its object store is full, or it is lost.
    """
    with connected() as ray:
        cluster = None
        try:
            terms = (tuple(versions().items()), tuple(map(os.path.abspath, paths)), preload)
            cluster = _Cluster(ray, work, workers, terms)
            yield cluster
        except ray.exceptions.RayError as error:
            raise BuildError(
                f"engine 'ray': {type(error).__name__}; see `ray status` and `ray memory`. What is "
                "finished is kept, so run the same command again"
            ) from None
        finally:
            if cluster is not None:
                cluster.cancel()


class _Cluster:
    """Runs tasks on the nodes of a cluster; see `Crew`."""

    def __init__(self, ray: Any, work: Work, workers: int | None, terms: tuple[Any, ...]) -> None:
        self._ray = ray
        self._workers = workers
        self._shared = ray.put((work, terms, str(Path.cwd())))  # sent once per node
        self._running: dict[Any, int] = {}

        # Deaths are for `died` of `Run` to count, so Ray does not retry. Models are large, so tasks
        # are spread over nodes.
        self._run_task = ray.remote(run_task).options(
            max_retries=0, num_cpus=1, scheduling_strategy="SPREAD"
        )

        # Notes must outlive the nodes of tasks, so they are kept on this one.
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        self._notes = ray.remote(Notes).options(num_cpus=0, scheduling_strategy=here).remote()

    @property
    def size(self) -> int:
        """Maximum number of workers. Default: the CPUs of all nodes, which may join and leave."""
        return self._workers or max(1, int(self._ray.cluster_resources().get("CPU", 0)))

    def exchange(self, tasks: Sequence[tuple[int, Task]]) -> tuple[int, Any]:
        for number, task in tasks:
            ref = self._run_task.remote(self._shared, self._notes, number, task)
            self._running[ref] = number

        (ref,), _ = self._ray.wait([*self._running], num_returns=1)
        number = self._running.pop(ref)
        errors = self._ray.exceptions
        try:
            return number, self._ray.get(ref)
        except errors.RayTaskError as error:  # do not show its message, which may contain text
            raise BuildError(
                f"engine 'ray': a node answered with {type(error.cause).__name__}; is mslm-data "
                f"{__version__} on all nodes?"
            ) from None
        except errors.RayError as error:
            note = self._ray.get(self._notes.last.remote(number))
            return number, Died(type(error).__name__, note)

    def cancel(self) -> None:
        """End all running tasks."""
        for ref in self._running:
            with suppress(self._ray.exceptions.RayError):  # the cluster may be lost
                self._ray.cancel(ref, force=True)


class Notes:
    """The last note of each task, in an actor."""

    def __init__(self) -> None:
        self._notes: dict[int, Any] = {}

    def take(self, number: int, value: Any) -> None:
        """Keep the note of a task."""
        self._notes[number] = value

    def last(self, number: int) -> Any:
        """Return the note of a task, and forget it."""
        return self._notes.pop(number, None)


def run_task(
    shared: tuple[Work, tuple[Any, ...], str], notes: Any, number: int, task: Task
) -> Any | MslmDataError:
    """Run a task on a node, and return its answer or a safe error."""
    work, terms, cwd = shared

    def send(value: Any) -> None:
        import ray  # this process is one of Ray's

        ray.get(notes.take.remote(number, value))

    try:
        with _quiet_and_private(cwd):
            check_node(*terms)
            send_notes_to(send)
            return work(task)
    except BaseException as error:  # noqa: BLE001 - panics of Rust libraries are BaseExceptions
        return safe(task.name, error)


@functools.cache  # once in a process
def check_node(
    wanted: tuple[tuple[str, str], ...], paths: tuple[str, ...], preload: Preload | None
) -> None:
    """Check that a node can run tasks, and load the data they need.

    Args:
        wanted: Packages and versions of the leading process.
        paths: Files and folders that the node must see.
        preload: See `Preload`.

    Raises:
        BuildError: The node has another version, or does not see a path.
    """
    node = socket.gethostname()
    here = versions()
    for name, version in wanted:
        if here.get(name, version) != version:
            raise BuildError(
                f"node {node}: expected {name} {version} as where the build was started, got "
                f"{here[name]}; install the same versions on all nodes, as bytes depend on them"
            )

    for path in paths:
        if not os.path.exists(path):
            raise BuildError(
                f"node {node}: expected to see {path}, found no such file; put inputs and the "
                "output folder where all nodes see them under the same path"
            )

    if preload is not None:
        with suppress(Exception):  # tasks meet the same error, and report it
            pkgutil.resolve_name(preload.function)(preload.argument)


@contextmanager
def _quiet_and_private(cwd: str) -> Iterator[None]:
    """Write private files, and discard output, which Ray writes to files that others can read.

    Afterwards all is as before, because other tasks of the user's program may follow.

    Args:
        cwd: Current folder meanwhile, for relative paths. It may be missing on a node.
    """
    mask = os.umask(0o077)
    before = {stream: os.dup(stream) for stream in (1, 2)}
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for stream in before:
            os.dup2(nowhere, stream)
        with chdir(cwd) if os.path.isdir(cwd) else nullcontext():
            yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.umask(mask)
        os.close(nowhere)
        for stream, copy in before.items():
            os.dup2(copy, stream)
            os.close(copy)
