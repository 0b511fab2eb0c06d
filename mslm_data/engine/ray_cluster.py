"""Finds the Ray cluster that runs the tasks: an existing one, or one that lasts as long as a build.

Ray's folders and logs are open to all users of a machine, and its ports to the network. A cluster
that is started here lies in a private folder, and listens on this machine only.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from mslm_data._optional import load
from mslm_data.engine.cpus import cpus
from mslm_data.errors import BuildError

_QUIET = {"log_to_driver": False, "logging_level": "ERROR"}
_ALONE = {
    # As by default on those systems, ports are open to this machine only.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # Even with usage reports off, Ray 2.60 asks three clouds' metadata services where it runs.
    # Nobody answers at this address.
    "http_proxy": "http://127.0.0.1:9",
}
"""Environment of a cluster that is started here."""
_STORE_BYTES = 100 << 20
"""Memory for objects. It holds the work, whose tokenizer has some megabytes at most."""
_PATH_CHARACTERS = 20
"""Sockets' paths hold about 100 characters, and Ray takes 80 of them."""
_PATIENCE_S = 10.0
"""How long a cluster may take to answer; Ray itself asks for more than five minutes."""


@contextmanager
def connected(workers: int | None) -> Iterator[Any]:
    """Give the package `ray`, connected to a cluster, and restore the connection of before.

    A program that is connected stays connected. Otherwise the cluster is the one that RAY_ADDRESS
    names, or that this user's `ray start` has left here. If there is neither, a cluster is started,
    and ended at the end.

    Args:
        workers: CPUs of a cluster that is started; None: those that this process may use.

    Raises:
        BuildError: There is no such cluster, or it cannot be joined or started.
        MissingExtraError: Ray is not installed.
    """
    joins = _joins()
    with ExitStack() as undo:
        with _environment({} if joins else _ALONE):
            ray = load("ray", wanted_by="engine 'ray'")
            if not ray.is_initialized():
                options = {} if joins else undo.enter_context(_private(workers))
                undo.callback(ray.shutdown)
                _connect(ray, options)
        yield ray


def _connect(ray: Any, options: Mapping[str, Any]) -> None:
    umask = os.umask(0o077)
    on_term = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(**_QUIET, **options)
        if callable(on_term) and threading.current_thread() is threading.main_thread():
            # Ray has put its own handler in the place of the command's. In other threads it cannot.
            signal.signal(signal.SIGTERM, on_term)
    except Exception as error:  # noqa: BLE001 - Ray raises many kinds, some of no class of its own
        said = str(error).partition("\n")[0]
        raise BuildError(
            f"ray: expected a cluster, got {type(error).__name__} ({said}); see RAY_ADDRESS"
        ) from None
    finally:
        os.umask(umask)


@contextmanager
def _private(workers: int | None) -> Iterator[dict[str, Any]]:
    """Give the options of a new cluster, and remove its files afterwards."""
    base = tempfile.gettempdir()
    if len(base) > _PATH_CHARACTERS:
        base = "/tmp"  # noqa: S108 - the folder in it is private
    folder = tempfile.mkdtemp(prefix="mslm-", dir=base)
    try:
        yield {
            "address": "local",
            "num_cpus": workers or cpus(),
            "include_dashboard": False,
            "object_store_memory": _STORE_BYTES,
            "_temp_dir": f"{folder}/r",  # in a folder, as Ray opens this one to all
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _joins() -> bool:
    """Return whether there is a cluster to join.

    It is the one that RAY_ADDRESS names, or this user's own on this machine.

    Raises:
        BuildError: RAY_ADDRESS names one that does not answer.
    """
    named = os.environ.get("RAY_ADDRESS", "")
    if named == "local":
        return False

    if named and named != "auto":
        if "://" in named or not _answers(named):
            raise BuildError(
                "RAY_ADDRESS: expected host:port of a cluster that this machine belongs to, got "
                f"{named}, where none answers; start it, or unset RAY_ADDRESS to run on this "
                "machine alone"
            )
        return True

    found = _left_by_start()
    if named and not found:
        raise BuildError(
            "RAY_ADDRESS: expected a cluster here for 'auto', found none; call `ray start`, or "
            "unset it"
        )
    return found


def _left_by_start() -> bool:
    """Return whether this user's `ray start` left an address here that answers.

    Another user's cluster is not used, as notes must not reach it.
    """
    # In the order in which Ray looks.
    base = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"  # noqa: S108
    note = Path(base) / "ray" / "ray_current_cluster"
    try:
        return note.stat().st_uid == os.getuid() and _answers(note.read_text("utf-8").strip())
    except OSError:
        return False


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE_S).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True
