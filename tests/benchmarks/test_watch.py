"""Measurements of commands, and reports of failing commands."""

from __future__ import annotations

import sys

import pytest

from benchmarks import watch
from benchmarks.watch import watched

_BURN = "import time\nwhile time.process_time() < 0.3: pass\n"
_ORPHAN = f"import os\nif os.fork() == 0:\n if os.fork() == 0:\n  exec({_BURN!r})\n os._exit(0)\n"
_HOLD = "import time\nheld = b'x' * (64 << 20)\ntime.sleep(1)\n"

linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux says this of its processes")


def test_watched__returns_the_output_and_accepts_variables() -> None:
    figure = watched(["-c", "import os; print(os.environ['OF'])"], env={"OF": "theirs"})

    assert figure.printed == "theirs\n"
    assert figure.seconds > 0


def test_watched__lets_python_cache_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")

    figure = watched(["-c", "import sys; print(sys.dont_write_bytecode)"])

    assert figure.printed == "False\n"


@pytest.mark.long
@pytest.mark.parametrize("code", [_BURN, pytest.param(_ORPHAN, marks=linux)])
def test_watched__counts_cpu_time_of_the_command_and_its_orphans(code: str) -> None:
    assert watched(["-c", code]).cpu >= 0.3


@linux
@pytest.mark.parametrize(
    ("forks", "least", "most"), [("", 64, 120), ("import os; os.fork()", 128, 190)]
)
def test_watched__sums_the_memory_of_all_processes(forks: str, least: int, most: int) -> None:
    figure = watched(["-c", f"{forks}\n{_HOLD}"])

    assert least <= figure.mib < most


@linux
def test_watched__counts_shared_pages_once() -> None:
    code = _HOLD.replace("time.sleep", "import os; os.fork(); time.sleep")

    assert 64 <= watched(["-c", code]).mib < 120


@pytest.mark.long
@linux
@pytest.mark.parametrize(
    ("code", "alone"),
    [
        (_BURN, True),
        (f"import os; os.fork(); exec({_BURN!r})", False),
    ],
)
def test_watched__separates_parallel_from_sequential_processes(code: str, alone: bool) -> None:
    figure = watched(["-c", code.replace("0.3", "0.8")])

    assert (figure.alone == pytest.approx(figure.seconds)) == alone


@pytest.mark.parametrize(
    ("first", "parallel", "disk"),
    [
        (watch._Observed(cpu=0, runs=False, waits=True), 0, 1),
        (watch._Observed(cpu=0, runs=False, waits=False), 0, 0),
        (watch._Observed(cpu=0, runs=True, waits=False), 1, 0),
    ],
)
def test_sampler__separates_waiting_for_disk_from_waiting_for_a_process(
    first: watch._Observed, parallel: int, disk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    observed = {1: first, 2: watch._Observed(cpu=0, runs=True, waits=False)}
    monkeypatch.setattr(watch, "descendants", lambda _: iter(observed))
    monkeypatch.setattr(watch, "_observe", observed.__getitem__)
    monkeypatch.setattr(watch, "memory", lambda _: 0)
    monkeypatch.setattr(watch.time, "perf_counter", lambda: 1.0)
    sampler = watch._Sampler(start=0.0)

    sampler._sample()

    assert (sampler.parallel, sampler.disk) == (parallel, disk)


def test_watched__reports_the_last_lines_of_a_failed_command() -> None:
    with pytest.raises(
        RuntimeError, match=r"expected it to succeed, got exit code 3:\nout of rows"
    ):
        watched(["-c", "import sys; print('out of rows', file=sys.stderr); sys.exit(3)"])
