"""A host process, which forks the workers of the local engine, and the workers.

```text
    leader ── a pipe ──→ host ── forks, a pipe each ──→ worker, worker, …
```

Workers are not forked by the leader itself, for four reasons:

* The host loads a model of many gigabytes once, and all workers share its pages.
* The host loads while the leader scans the input.
* The host has no threads when it forks; the user's program may have some.
* The host has its own main module, so scripts need no `if __name__ == "__main__":`.

A worker has one task at a time and a pipe of its own, so a death belongs to a known task.

No process is left behind. The host kills its workers on SIGTERM, or when the leader's end of the
pipe is closed. Workers exit when the host is gone. All of them hold the host's end of the pipe, so
the leader reads the end of file only after all of them are gone.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import pkgutil
import signal
import threading
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe, wait
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

from mslm_data.engine import Died, Preload, Task, Work, cannot_start, safe, sending_notes
from mslm_data.engine.memory import keep_freed_memory
from mslm_data.errors import BuildError, MslmDataError
from mslm_data.log import LOGGER


def serve(handle: int) -> None:
    """Load the preload, then run tasks in workers until the leader is gone.

    Args:
        handle: File descriptor of the pipe to the leader.
    """
    # The leader may ignore SIGTERM, and blocks it while it starts this process.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    os.umask(0o077)
    os.set_inheritable(handle, False)
    keep_freed_memory()
    LOGGER.disabled = True  # only the leader logs

    leader = Connection(handle)
    try:
        _load(leader.recv())
        # A worker that is being forked has this handler for a moment, and no workers of its own.
        host = os.getpid()
        signal.signal(signal.SIGTERM, lambda *_: _leave() if os.getpid() == host else os._exit(0))
        _serve(leader)
    except (EOFError, OSError):  # the leader is gone
        pass
    finally:
        _leave()


def _load(preload: Preload | None) -> None:
    # A garbage collection writes into the pages of all objects, and would copy them into each
    # worker. Freeze the loaded objects, so that collections ignore them.
    gc.disable()
    if preload is not None:
        with suppress(Exception):  # workers meet the same error, and report it
            pkgutil.resolve_name(preload.function)(preload.argument)
    gc.freeze()
    gc.enable()


def _leave() -> None:
    """Kill all workers, wait for them so that their CPU time is counted, and exit."""
    workers = multiprocessing.active_children()
    for worker in workers:
        worker.kill()
    for worker in workers:
        worker.join()
    os._exit(0)


def _serve(leader: Connection) -> None:
    """Answer each message of the leader, a list of tasks, with one outcome."""
    try:
        workers = _Workers(leader.recv())
        while True:
            for number, task in leader.recv():
                workers.give(number, task)
            leader.send(workers.next_outcome(leader))
    except (EOFError, OSError):
        raise
    except MslmDataError as error:
        leader.send((-1, error))
    except Exception as error:  # noqa: BLE001 - unpickling may raise any class
        reason = BuildError(
            f"engine 'local': a worker could not read its work ({type(error).__name__}); define it "
            "in a module that can be imported, as workers do not import the main module, or pass "
            "--workers 1"
        )
        leader.send((-1, reason))
    while True:
        leader.recv_bytes()  # until the leader ends this process


class _Worker(NamedTuple):
    process: BaseProcess
    pipe: Connection


class _Workers:
    def __init__(self, work: Work) -> None:
        self._work = work
        self._idle: list[_Worker] = []
        self._running: dict[Connection, tuple[int, _Worker]] = {}
        self._notes: dict[int, Any] = {}

    def give(self, number: int, task: Task) -> None:
        """Send a task to an idle worker, or to a new one."""
        self._idle = [worker for worker in self._idle if worker.process.is_alive()]
        worker = self._idle.pop() if self._idle else self._fork()
        with suppress(OSError):  # it has just died: its pipe will say so
            worker.pipe.send(task)
        self._running[worker.pipe] = number, worker

    def _fork(self) -> _Worker:
        ours, theirs = Pipe()
        fork = multiprocessing.get_context("fork")
        process = fork.Process(target=_work_off, args=(self._work, theirs))
        try:
            process.start()
        except OSError as error:
            raise cannot_start(error) from None
        # Only the worker keeps its end, so that the pipe ends with it. Workers that are forked
        # later have copies of `ours` alone.
        theirs.close()
        return _Worker(process, ours)

    def next_outcome(self, leader: Connection) -> tuple[int, Any]:
        """Wait for an answer or a death, and return the number of its task with it.

        Raises:
            EOFError: The leader is gone.
        """
        while True:
            pipe = wait([leader, *self._running])[0]
            if pipe is leader:  # it sends nothing while it waits
                raise EOFError

            number, worker = self._running[pipe]
            try:
                is_note, value = pipe.recv()
            except (EOFError, OSError):
                worker.process.join()
                pipe.close()
                value = Died(_describe_end(worker.process), self._notes.get(number))
            else:
                if is_note:
                    self._notes[number] = value
                    continue
                self._idle.append(worker)
            del self._running[pipe]
            self._notes.pop(number, None)
            return number, value


def _describe_end(process: BaseProcess) -> str:
    code = process.exitcode or 0
    return f"signal {-code}" if code < 0 else f"exit code {code}"


# A worker's side ----------------------------------------------------------------------------------


def _work_off(work: Work, pipe: Connection) -> None:
    """Answer each task, until the host is gone."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_leave_with_host, daemon=True).start()

    with suppress(EOFError, OSError), sending_notes(lambda value: pipe.send((True, value))):
        while True:
            task = pipe.recv()
            try:
                # An answer that cannot be pickled is an error of the task.
                pipe.send((False, work(task)))
            except BaseException as error:  # noqa: BLE001 - panics of Rust libraries
                pipe.send((False, safe(task.name, error)))


def _leave_with_host() -> None:
    # The pipe does not tell: workers that are forked later keep copies of the host's end.
    host = multiprocessing.parent_process()
    if host is not None:
        wait([host.sentinel])
        os._exit(1)
