"""The Ray engine: tasks on nodes that all see the inputs and the output folder.

Messages contain byte ranges, receipts and our own errors, never text. Tasks print nothing, because
Ray writes their output to files that other users can read.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mslm_data._optional import load
from mslm_data._version import __version__
from mslm_data.data.columns import FORMAT
from mslm_data.engine import Crew, Died, Preload, Task, Work, safe, sending_notes
from mslm_data.errors import BuildError
from mslm_data.plugins import plugin_versions

_PATIENCE_S = 10.0
"""Timeout for connecting to the cluster, in seconds."""
_SHORT_S = 1.0
"""Time in which tasks may end before they are cancelled, in seconds."""
_WRITERS = (
    *("numpy", "pyarrow", "tokenizers"),
    *("medcat", "rensa", "spacy", "torch", "transformers"),
)
"""Packages besides this one whose versions can change bytes."""


@contextmanager
def start(
    work: Work, workers: int | None, preload: Preload | None, paths: Sequence[str | Path]
) -> Iterator[Crew]:
    """Run tasks on a Ray cluster; see `engine.start` and `connected`.

    Raises:
        BuildError: There is no cluster, its object store is full, or it is lost.
    """
    terms = (versions(), str(Path.cwd()), tuple(map(os.path.abspath, paths)), preload)
    with connected() as (ray, stays_connected):
        cluster = _Cluster(ray, workers)
        try:
            cluster.shared = ray.put((work, terms))  # sent once per node, not with each task
            yield cluster
        except ray.exceptions.RayError as error:
            raise BuildError(
                f"engine 'ray': {type(error).__name__}; see `ray status` and `ray memory`. What is "
                "finished is kept, so run the same command again"
            ) from None
        finally:
            if stays_connected:  # otherwise Ray ends them
                cluster.end_tasks()


@contextmanager
def connected() -> Iterator[tuple[Any, bool]]:
    """Connect to the Ray cluster of RAY_ADDRESS.

    A program that is connected already stays connected. Otherwise the address is required: without
    one, or with "auto", Ray uses any cluster of this machine. It may belong to another user, and
    must not receive notes.

    Yields:
        The package `ray`, and whether the program stays connected.

    Raises:
        BuildError: RAY_ADDRESS names no cluster that answers, or the cluster cannot be joined.
        MissingExtraError: Ray is not installed.
    """
    ray: Any = load("ray", wanted_by="engine 'ray'")
    if ray.is_initialized():
        yield ray, True
        return

    address = os.environ.get("RAY_ADDRESS", "")
    if not _answers(address):
        raise BuildError(
            "RAY_ADDRESS: expected the host:port of a Ray cluster that answers, got "
            f"'{address}'; start one with `ray start --head` and set RAY_ADDRESS to the address "
            "that it prints, or pass --engine local"
        )

    try:
        try:
            _join(ray, address)
        except SystemExit:  # from Ray's handler of SIGTERM
            signal.raise_signal(signal.SIGTERM)
            raise
        yield ray, False
    finally:
        with _holding_signals():
            ray.shutdown()


def _join(ray: Any, address: str) -> None:
    """Join a cluster, and keep a handler of SIGTERM, which Ray replaces in the main thread."""
    on_term = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address, log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # noqa: BLE001 - Ray raises many kinds
        first_line = str(error).partition("\n")[0]
        raise BuildError(
            f"RAY_ADDRESS: cannot join the Ray cluster at {address}: "
            f"{type(error).__name__} ({first_line}); see `ray status`"
        ) from None
    finally:
        # Without a handler of its own, a program keeps Ray's, which ends it cleanly.
        if callable(on_term) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, on_term)


@contextmanager
def _holding_signals() -> Iterator[None]:
    """Hold SIGINT and SIGTERM until the end of the block, if this thread handles signals.

    After a shutdown that was interrupted, Ray ends the program with exit code 1.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    held: list[int] = []
    before = {
        name: handler
        for name in (signal.SIGINT, signal.SIGTERM)
        # Python cannot restore a handler that is not its own, such as R's.
        if (handler := signal.getsignal(name)) is not None
    }
    for name in before:
        signal.signal(name, lambda number, _: held.append(number))
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
        for number in held:
            signal.raise_signal(number)


def _answers(address: str) -> bool:
    """Return whether something listens at `host:port`; Ray itself would retry for 15 minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE_S).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True


class _Cluster:
    """Runs tasks on the nodes of a cluster; see `Crew`.

    Attributes:
        size: Maximum number of tasks at the same time. Default: the number of CPUs of all nodes.
        shared: The work and the terms of `run_task`, in Ray's object store.
    """

    def __init__(self, ray: Any, workers: int | None) -> None:
        # Without any CPU, a task waits until a node joins.
        self.size = workers or max(1, int(ray.cluster_resources().get("CPU", 0)))
        self.shared: Any = None
        self._ray = ray
        self._running: dict[Any, int] = {}
        self._noted: dict[int, Any] = {}
        self._run_task = ray.remote(run_task).options(
            num_cpus=1,
            max_retries=0,  # `died` of `Run` counts deaths
            scheduling_strategy="SPREAD",  # models are large
            # Processes of their own: they are silent, and have another current folder.
            runtime_env={"env_vars": {"MSLM_DATA_ENGINE": "ray"}},
        )

        # A node may be lost with its tasks, so notes go to a queue on this one.
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        options = {"num_cpus": 0, "scheduling_strategy": here}
        queues: Any = load("ray.util.queue", wanted_by="engine 'ray'")
        self._notes = queues.Queue(actor_options=options)

    def exchange(self, tasks: Sequence[tuple[int, Task]]) -> tuple[int, Any]:
        for number, task in tasks:
            ref = self._run_task.remote(self.shared, self._notes, number, task)
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
            self._noted.update(self._notes.get_nowait_batch(self._notes.size()))
            return number, Died(type(error).__name__, self._noted.get(number))

    def end_tasks(self) -> None:
        """Wait for short tasks, and cancel the others.

        Ray aborts the program if it cancels a task while the answer of that task comes in.
        """
        refs = [*self._running]
        with suppress(self._ray.exceptions.RayError):  # the cluster may be lost
            _, late = self._ray.wait(refs, num_returns=len(refs), timeout=_SHORT_S)
            for ref in late:
                self._ray.cancel(ref, force=True)


# On a node ----------------------------------------------------------------------------------------


def run_task(shared: tuple[Work, tuple[Any, ...]], notes: Any, number: int, task: Task) -> Any:
    """Run a task on a node, and return its answer or a safe error."""
    work, terms = shared
    try:
        prepare_process(*terms)
        with sending_notes(lambda value: notes.put((number, value))):
            return work(task)
    except BaseException as error:  # noqa: BLE001 - panics of Rust libraries are BaseExceptions
        return safe(f"node {socket.gethostname()}: {task.name}", error)


@functools.cache  # once in a process
def prepare_process(
    wanted: frozenset[tuple[str, str]], cwd: str, paths: tuple[str, ...], preload: Preload | None
) -> None:
    """Make this process private and silent, check its node, and load the data of tasks.

    Args:
        wanted: Packages and versions of the leading process.
        cwd: Current folder of the leading process, for relative paths.
        paths: Files and folders that the node must see.
        preload: See `Preload`.

    Raises:
        BuildError: The node has another version, or does not see a path.
    """
    os.umask(0o077)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    with suppress(OSError):
        os.chdir(cwd)

    node = socket.gethostname()
    here = dict(versions())
    for name, version in sorted(wanted):
        if here.get(name, version) != version:
            raise BuildError(
                f"node {node}: expected {name} {version} as where the build was started, got "
                f"{here[name]}; install the same versions on all nodes, as bytes depend on them"
            )
    for path in paths:
        if not os.path.exists(path):
            raise BuildError(
                f"node {node}: expected to see {path}, found no such file; put inputs where all "
                "nodes see them under the same path"
            )

    if preload is not None:
        preload.load()


def versions() -> frozenset[tuple[str, str]]:
    """Return the versions of all installed packages that decide bytes."""
    installed = {"mslm-data": __version__, "folder format": str(FORMAT)}
    for name in _WRITERS:
        with suppress(importlib.metadata.PackageNotFoundError):
            installed[name] = importlib.metadata.version(name)
    return frozenset((installed | plugin_versions()).items())
