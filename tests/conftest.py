"""What all tests share."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

import mslm_data as md
from tests import made
from tests.support.properties import register_profiles

# Threads wait for each other longer than models this small compute, and tests run side by side.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# What a shell runs in its background ignores interrupts, and the tests of interrupts send some.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

register_profiles()

# Tests are collected without the garbage collector, and are none of its business afterwards: a
# Trainer collects garbage at the end of each run, for half a second where thousands of tests wait.
gc.disable()


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def unsynced() -> Iterator[None]:
    """Let no test wait for the disk, which took more than half of a small build's time.

    Only a loss of power shows what a sync does; tests/faults/power.py has a model of that, which
    needs the calls and not their effect. Programs that tests start do sync.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def compiled(unsynced: None, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let one process compile the kernels of a build and of joint masking; the others load them.

    Otherwise each process of a run compiles the same kernels at the same time, and so does each
    program that a test starts.
    """
    shared = tmp_path_factory.getbasetemp().parent  # by the processes of a run
    out = tmp_path_factory.mktemp("compiled") / "ncbi"
    with FileLock(shared / "kernels.lock"):
        made.built(out)
        next(iter(md.Batches(md.load(out)["train"], md.strategy("joint"), batch_size=8)))


@pytest.fixture(scope="session")
def real() -> Path:
    """The folder of real corpora; where it is not set, the test says so and is skipped."""
    folder = os.environ.get("MSLM_DATA_REAL")
    if not folder:
        pytest.skip("MSLM_DATA_REAL is not set: real corpora are not here")
    path = Path(folder)
    assert path.is_dir(), f"MSLM_DATA_REAL: expected a folder, found none at {path}"
    return path
