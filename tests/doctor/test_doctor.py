"""The whole examination, on machines where something is missing or broken."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from mslm_data import doctor
from mslm_data.doctor import machine
from mslm_data.doctor.children import run as run_child
from mslm_data.doctor.packages import Package
from mslm_data.io import cache
from tests.cli.running import run

NUMPY = Package(name="numpy", extras=[], tested=">=2.0", version="2.4.6")
NUMBA = Package(name="numba", extras=[], tested=">=0.61", version="0.68.1")
GLINER = Package(name="gliner", extras=["gliner"], tested="<0.3", version=None)


def with_packages(monkeypatch: pytest.MonkeyPatch, *packages: Package) -> None:
    """Let the examination know these packages only, as importing all takes long."""
    monkeypatch.setattr(doctor, "known_packages", lambda: list(packages))


def broken(folder: Path, name: str, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a package in the place of the one that is installed."""
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(code)
    monkeypatch.syspath_prepend(str(folder))


def test_doctor__says_that_all_works(monkeypatch: pytest.MonkeyPatch) -> None:
    with_packages(monkeypatch, NUMPY, GLINER)

    done = run("doctor", "--json")
    found = done.json

    assert (done.code, found["ok"], found["problems"]) == (0, True, [])
    assert found["extras"] == {"gliner": ["gliner"]}
    assert found["trial"]["batch_rows"] == 8
    assert 0 < found["trial"]["masked_tokens"] < found["trial"]["batch_tokens"]
    assert found["kernels"]["stored_after"] > 0
    assert "masking a batch" in done.err


def test_doctor__prints_what_is_missing_and_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = Package(name="numpy", extras=[], tested=">=9", version="2.4.6")
    with_packages(monkeypatch, old, GLINER)

    done = run("doctor")

    assert done.code == 0
    assert "core       numpy 2.4.6 (tested: >=9)" in done.out
    assert "gliner     not installed: pip install 'mslm-data[gliner]'" in done.out
    assert (
        "advice     numpy 2.4.6 is not in the tested range >=9; pip install 'numpy>=9'" in done.out
    )
    assert done.out.endswith("all that is needed works\n")
    assert max(map(len, done.out.splitlines())) <= 100


def test_doctor__names_a_package_that_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_packages(monkeypatch, NUMPY, NUMBA)
    broken(tmp_path, "numba", "raise ImportError('Numba needs NumPy 2.3 or less')", monkeypatch)

    done = run("doctor", "--json")
    found = done.json

    assert (done.code, found["ok"], found["trial"]) == (1, False, None)
    assert [package["error"] for package in found["packages"]] == [
        None,
        "ImportError: Numba needs NumPy 2.3 or less",
    ]
    assert found["problems"][0] == {
        "what": "numba 0.68.1 cannot be imported: ImportError: Numba needs NumPy 2.3 or less",
        "do": "pip install --force-reinstall 'numba>=0.61'",
    }
    assert found["problems"][1]["do"] == "mend the packages above first"


@pytest.mark.parametrize("threads", ["0", "-3"])
def test_doctor__names_the_variable_that_leaves_numba_no_thread(
    threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_packages(monkeypatch, NUMBA)
    monkeypatch.setenv("NUMBA_NUM_THREADS", threads)

    found = run("doctor", "--json").json

    assert found["problems"][0]["do"] == "unset NUMBA_NUM_THREADS, or set it to a number above 0"


def test_doctor__names_a_package_that_is_needed_and_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone = Package(name="msgspec", extras=[], tested="<0.24", version=None)
    with_packages(monkeypatch, gone)

    done = run("doctor")

    assert done.code == 1
    assert "problem    msgspec is not installed; pip install 'msgspec<0.24'" in done.out
    assert done.out.endswith("1 problem to mend\n")


def test_doctor__says_what_to_do_about_a_cache_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(**_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    with_packages(monkeypatch)
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(machine, "TemporaryDirectory", read_only)
    monkeypatch.setattr(doctor, "run", lambda *_, **__: run_child("nothing", seconds=60))

    found = run("doctor", "--json").json

    assert not found["cache"]["writable"]
    assert found["locks"] == "not tried"
    assert found["problems"][0]["what"].endswith("cannot be written: Read-only file system")
    assert found["problems"][0]["do"] == "set MSLM_DATA_CACHE to a folder of yours"


def test_doctor__names_neither_user_nor_machine_nor_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_packages(monkeypatch, NUMPY)
    home = tmp_path / "jdoe"
    home.mkdir()
    for name, value in {
        "HOME": str(home),
        "LOGNAME": "jdoe",
        "HF_TOKEN": "hf_secret",
        "OMP_NUM_THREADS": "1",
        cache.VARIABLE: str(home / "cache"),
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(doctor, "run", lambda *_, **__: run_child("nothing", seconds=60))

    said = run("doctor").out + run("doctor", "--json").out

    assert "~/cache (MSLM_DATA_CACHE)" in said
    for word in ("jdoe", "hf_secret", os.uname().nodename):
        assert word not in said


@pytest.mark.parametrize(
    ("given", "limit", "advised"),
    [
        (None, 2.5, True),
        ("64", 2.5, True),
        ("3", 2.5, False),
        (None, 64.0, False),
        (None, None, False),
    ],
)
def test_advice__is_to_limit_threads_where_a_control_group_allows_fewer_cpus(
    given: str | None, limit: float | None, advised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_packages(monkeypatch)
    monkeypatch.setattr(machine, "usable_cpus", lambda: 64)
    monkeypatch.setattr(machine, "cpus_of_group", lambda: limit)
    monkeypatch.setattr(machine, "default_workers", lambda: 3)
    monkeypatch.setattr(doctor, "run", lambda *_, **__: run_child("nothing", seconds=60))
    if given is None:
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    else:
        monkeypatch.setenv("OMP_NUM_THREADS", given)

    found = run("doctor", "--json").json

    assert [advice["do"] for advice in found["advice"]] == ["set OMP_NUM_THREADS=3"] * advised


def test_doctor__says_how_many_workers_a_limit_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    with_packages(monkeypatch)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(machine, "usable_cpus", lambda: 64)
    monkeypatch.setattr(machine, "cpus_of_group", lambda: 0.5)
    monkeypatch.setattr(machine, "default_workers", lambda: 1)
    monkeypatch.setattr(doctor, "run", lambda *_, **__: run_child("nothing", seconds=60))

    said = " ".join(run("doctor").out.split())

    assert (
        "64 of 64 can be used, limited to the time of 0.5 by a control group, builds start 1 worker"
        in said
    )


def test_doctor__breaks_lines_where_a_narrow_terminal_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_packages(monkeypatch, NUMPY, GLINER)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(machine, "usable_cpus", lambda: 1)
    monkeypatch.setattr(machine, "default_workers", lambda: 1)
    monkeypatch.setattr(doctor, "run", lambda *_, **__: run_child("nothing", seconds=60))

    lines = run("doctor").out.splitlines()

    assert all(len(line) <= 40 or len(line.split()) == 1 for line in lines)
    assert "builds start 1 worker," in " ".join(" ".join(lines).split())


def test_advice__removes_the_kernels_of_versions_that_nobody_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_packages(monkeypatch)
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "my cache"))
    kernels = tmp_path / "my cache" / "kernels"
    for name, days in (("0" * 16, 40), ("1" * 16, 32), ("2" * 16, 20)):
        (kernels / name / "draws").mkdir(parents=True)
        (kernels / name / "draws" / "a.nbi").write_bytes(bytes(1_500_000))
        used = time.time() - days * 24 * 60 * 60
        os.utime(kernels / name, (used, used))
    (kernels / "of others").mkdir()
    kernels.chmod(0o700)
    monkeypatch.setattr(
        doctor,
        "run",
        lambda name, *_, **__: run_child("kernels" if name == "kernels" else "nothing", seconds=60),
    )

    found = run("doctor", "--json").json
    said = " ".join(run("doctor").out.split())

    assert found["kernels"]["others"] == {"folders": 3, "bytes": 4_500_000}
    assert found["kernels"]["unused"] == {"folders": 2, "bytes": 3_000_000}
    assert "; 3 folders of other versions: 4.5 MB" in said
    (advice,) = [one for one in found["advice"] if "kernels" in one["what"]]
    assert "folders that were not used for 30 days (2), take 3.0 MB" in advice["what"]

    subprocess.run(["bash", "-c", advice["do"]], check=True)

    # Left are the folder of this version, the one that was used, and what is not ours.
    left = {path.name for path in kernels.iterdir()}
    assert len(left) == 3
    assert {"2" * 16, "of others"} < left


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("raise ImportError('libx.so: not found')", "ImportError: libx.so: not found"),
        ("import os; os._exit(3)", "its process ended with code 3"),
        ("import os; os.kill(os.getpid(), 9)", "its process was ended by signal 9 (Killed)"),
        ("import time; time.sleep(60)", "no answer after 2 seconds"),
        ("raise ValueError('first\\nsecond')", "ValueError: first"),
        ("import sys; sys.exit('no licence')", "no licence"),
    ],
)
def test_imported__survives_whatever_an_import_does(
    code: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(tmp_path, "wordfreq", code, monkeypatch)

    assert run_child("imported", "wordfreq", seconds=2) == (None, expected)


def test_imported__ignores_what_a_package_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import atexit\nprint('hello')\natexit.register(print, 'bye')"
    broken(tmp_path, "wordfreq", code, monkeypatch)

    assert run_child("imported", "wordfreq", seconds=60) == (None, None)


def test_imported__takes_no_file_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise ImportError('not me')")
    monkeypatch.chdir(tmp_path)

    assert run_child("imported", "numpy", seconds=60).error is None


def test_imported__says_what_torch_can_use() -> None:
    pytest.importorskip("torch")

    devices: Any = run_child("imported", "torch", seconds=180).value

    assert devices["threads"] >= 1
    assert json.dumps(devices["devices"])
