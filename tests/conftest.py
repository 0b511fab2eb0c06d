"""Fixtures and settings for all tests."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

import mslm_data as md
from mslm_data.io import remote
from mslm_data.kernels._jit import cache_folder
from tests import made
from tests.support.properties import register_profiles

# Small models lose more time on thread synchronisation than they gain, and tests run in parallel.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Background processes of a shell ignore interrupts, but some tests send them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

register_profiles()

# Collect tests without the garbage collector, and freeze their objects: a Trainer runs the
# collector after each run, which took half a second with thousands of collected tests.
gc.disable()


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def unsynced() -> Iterator[None]:
    """Disable `fsync`, which took more than half of the time of a small build.

    Syncs matter after a loss of power only. tests/faults/power.py models that from the calls, not
    from their effect. Programs started by tests do sync.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def unpaused() -> Iterator[None]:
    """Repeat failed downloads at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote, "PAUSE_S", 0.0)
        yield


@pytest.fixture(scope="session", autouse=True)
def compiled(unsynced: None, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Compile the kernels of builds, batches and masks in one process; the others load them.

    Otherwise all processes of a run, and all programs started by tests, would compile them at the
    same time.
    """
    shared = tmp_path_factory.getbasetemp().parent  # Shared by the processes of a run.
    out = tmp_path_factory.mktemp("compiled") / "ncbi"
    with FileLock(shared / "kernels.lock"):
        cached = cache_folder()
        is_cold = cached is not None and not any(cached.glob("*/*.nbi"))
        made.built(out)
        train = md.load(out)["train"]
        next(iter(md.Batches(train, md.strategy("joint"), batch_size=8)))
        if is_cold:
            next(iter(md.Batches(train, "bert", batch_tokens=512, flat=True)))
            plan_all_strategies()
            find_terms_and_count_masks(out.parent / "notes")


def plan_all_strategies() -> None:
    """Plan and corrupt some rows by each strategy."""
    from tests.mask.contract import OPTIONS
    from tests.mask.test_golden import digests_of

    for name in OPTIONS:
        digests_of(name)


def find_terms_and_count_masks(out: Path) -> None:
    """Build notes with the mentions of terms and their context, and count masked words."""
    from mslm_data.stats import count_masks

    options = {"annotate.context": True, "encode.max_tokens": 64}
    train = md.build("mimic", sample=True, out=out, workers=1, options=options)["train"]
    tally = count_masks(train.chunks, md.strategy("joint"), labels=train.labels, seed=0, epochs=1)
    tally.stats()
    tally.top_words(1)


@pytest.fixture(scope="session")
def real() -> Path:
    """The folder of real corpora. The test is skipped if MSLM_DATA_REAL is not set."""
    folder = os.environ.get("MSLM_DATA_REAL")
    if not folder:
        pytest.skip("MSLM_DATA_REAL is not set: real corpora are not here")
    path = Path(folder)
    assert path.is_dir(), f"MSLM_DATA_REAL: expected a folder, found none at {path}"
    return path
