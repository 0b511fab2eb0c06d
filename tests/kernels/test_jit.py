from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from mslm_data.kernels import _jit
from tests.support.terminal import shown_at_terminal

ROOT = Path(__file__).parents[2]
NO_JIT = bool(numba.config.DISABLE_JIT)


@pytest.fixture(autouse=True)
def _fresh_cache():
    _jit.cache_folder.cache_clear()
    yield
    _jit.cache_folder.cache_clear()


def test_cache_folder__is_ours_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("MSLM_DATA_CACHE", str(tmp_path / "new"))
    folder = _jit.cache_folder()

    assert folder == tmp_path / "new" / "kernels" / _jit.sources_digest(
        ROOT / "mslm_data" / "kernels"
    )
    assert folder.stat().st_mode & 0o777 == folder.parent.stat().st_mode & 0o777 == 0o700


def test_cache_folder__others_may_write_there(tmp_path, monkeypatch):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels").chmod(0o777)
    monkeypatch.setenv("MSLM_DATA_CACHE", str(tmp_path))

    assert _jit.cache_folder() is None


@pytest.mark.parametrize(("mode", "is_safe"), [(0o755, True), (0o777, False), (0o1777, True)])
def test_cache_folder__others_could_put_another_in_its_place(mode, is_safe, tmp_path, monkeypatch):
    """Renaming a folder needs permission for the folder above it only."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(mode)
    monkeypatch.setenv("MSLM_DATA_CACHE", str(shared / "mine" / "cache"))

    folder = _jit.cache_folder()

    assert (folder is not None) is is_safe


def test_cache_folder__cannot_be_made(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("MSLM_DATA_CACHE", str(tmp_path / "file"))

    assert _jit.cache_folder() is None
    assert _jit.kernel(lambda x: x + 1)(1) == 2


def test_cache_folder__has_the_time_of_its_last_use(tmp_path, monkeypatch):
    monkeypatch.setenv("MSLM_DATA_CACHE", str(tmp_path))
    folder = _jit.cache_folder()
    os.utime(folder, (1, 1))
    _jit.cache_folder.cache_clear()

    _jit.cache_folder()

    assert folder.stat().st_mtime > 1


def test_sources_digest__follows_every_source(tmp_path):
    (tmp_path / "a.py").write_text("x = 1")
    first = _jit.sources_digest(tmp_path)
    (tmp_path / "b.py").write_text("")
    second = _jit.sources_digest(tmp_path)
    (tmp_path / "a.py").write_text("x = 2")

    assert len({first, second, _jit.sources_digest(tmp_path)}) == 3


def test_kernel__leaves_numbas_own_settings(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", "/users/own")
    monkeypatch.setenv("MSLM_DATA_CACHE", str(tmp_path))
    _jit.kernel(lambda x: x + 1)

    assert numba.config.CACHE_DIR == "/users/own"


def run_python(code, cache):
    env = {**os.environ, "MSLM_DATA_CACHE": str(cache), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


CALLED = """
import logging, sys, numpy as np
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
from mslm_data.kernels.rng import name_streams
out = np.empty(2, np.uint64)
name_streams(np.arange(2, dtype=np.uint64), 0, 0, 0, out)
name_streams(np.arange(2, dtype=np.uint64), np.uint64(1), 0, 0, out)
"""


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """Return a cache that has the code of `CALLED`, and what the process that filled it said."""
    cache = tmp_path_factory.mktemp("cache")
    return cache, run_python(CALLED, cache)


@pytest.mark.skipif(NO_JIT, reason="nothing is compiled without the JIT")
def test_kernel__logs_compilation_once(filled):
    cache, first = filled
    second = run_python(CALLED, cache)

    assert first == "compiling kernels, once after an installation; this takes some seconds"
    assert second == ""


@pytest.mark.long
@pytest.mark.skipif(NO_JIT, reason="nothing is compiled without the JIT")
@pytest.mark.parametrize(
    ("begin", "times"),
    [
        ("import sys", 1),
        ("import sys, logging; logging.basicConfig(filename=sys.argv[1])", 0),
        ("import sys; from mslm_data.log import LOGGER; LOGGER.disabled = True", 0),
    ],
)
def test_kernel__prints_at_a_terminal_without_logging(tmp_path, begin, times):
    code = CALLED.replace("import logging, sys, numpy as np", f"{begin}\nimport numpy as np")
    code = re.sub("logging.basicConfig.level.*", "", code)
    env = {**os.environ, "MSLM_DATA_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}

    shown = shown_at_terminal([sys.executable, "-c", code, str(tmp_path / "log")], env)

    assert shown.count("mslm-data: compiling kernels, once after") == times


@pytest.mark.skipif(NO_JIT, reason="nothing is compiled without the JIT")
def test_kernel__logs_that_there_is_no_cache_folder(tmp_path):
    (tmp_path / "file").touch()

    message = run_python(CALLED, tmp_path / "file")

    assert message.startswith(
        "compiling kernels, which takes some seconds in each run, since there"
    )
    assert message.count("\n") == 0


@pytest.mark.skipif(NO_JIT, reason="nothing is compiled without the JIT")
def test_log_compilation__is_silent_with_a_full_cache(filled, tmp_path):
    code = CALLED.partition("from mslm")[0] + (
        "from mslm_data.kernels import _jit\n_jit.log_compilation()"
    )

    before = run_python(code, tmp_path)
    after = run_python(code, filled[0])

    assert before.startswith("compiling kernels, once after an installation")
    assert after == ""


FIRST_COMMANDS = """
import os
from numba.core import event as events

class Listener(events.Listener):
    def on_start(self, event):
        function = event.data["dispatcher"].py_func
        print(function.__module__, function.__name__)

    def on_end(self, event):
        pass

events.register("numba:compile", Listener())
import mslm_data as md
from mslm_data.stats import mask_stats

shards = md.build("blurb/ncbi-disease", sample=True, out=os.environ["OUT"], workers=1)
mask_stats(shards["train"].chunks, md.strategy("joint"), labels=shards.labels)
next(iter(md.Batches(shards["train"], md.strategy("joint"), batch_size=4)))
"""


@pytest.mark.long
@pytest.mark.skipif(NO_JIT, reason="nothing is compiled without the JIT")
def test_kernels__first_commands_compile_few_functions(tmp_path, monkeypatch):
    """Each function costs seconds of waiting; a NumPy sort or a second type of arrays adds many."""
    monkeypatch.setenv("OUT", str(tmp_path / "out"))
    monkeypatch.setenv("NUMBA_OPT", "0")  # as many functions, sooner
    compiled = run_python(FIRST_COMMANDS, tmp_path / "cache").splitlines()

    kernels = [name for name in compiled if name.startswith("mslm_data.")]
    twice = {name for name in kernels if kernels.count(name) > 1}
    # For bytes, characters and ids; mixes; columns of 16 and 32 bits; all columns of a batch.
    several = {"hashing find_slot", "rng name_streams", "gather gather", "pad pad"}
    assert twice <= {f"mslm_data.kernels.{name}" for name in several}
    assert len(kernels) <= 42
    assert len(compiled) < 50


TOTAL = """
import os, subprocess, sys
import numpy as np
from numba.core.caching import IndexDataCacheFile
from mslm_data.kernels._jit import kernel

@kernel
def total(values):
    found = values[0] - values[0]
    for value in values:
        found += value
    return found
"""
FIRST = """
from total import *
save_data = IndexDataCacheFile._save_data

def save_late(self, name, data):
    subprocess.run([sys.executable, "-c", os.environ["SECOND"]], check=True)
    save_data(self, name, data)

IndexDataCacheFile._save_data = save_late
total(np.ones(3, np.int64))
"""
SECOND = """
from total import *
IndexDataCacheFile._load_index = lambda self: {}  # it has looked before the first process wrote
total(np.ones(3, np.float64))
"""
THIRD = """
from total import *
print(total(np.full(3, 1.5)), total(np.full(3, 2)))
"""


@pytest.mark.long
@pytest.mark.skipif(NO_JIT, reason="nothing is compiled without the JIT")
def test_kernel__does_not_confuse_code_of_two_types(tmp_path, monkeypatch):
    """Two processes store code of the same kernel for two types at the same time."""
    (tmp_path / "total.py").write_text(TOTAL)
    monkeypatch.setenv("SECOND", SECOND)
    monkeypatch.setattr(sys.modules[__name__], "ROOT", f"{ROOT}{os.pathsep}{tmp_path}")
    run_python(FIRST, tmp_path / "cache")

    assert run_python(THIRD, tmp_path / "cache") == "4.5 6"


@pytest.mark.long
@pytest.mark.skipif(NO_JIT, reason="this is the inner run")
def test_kernels__without_the_jit():
    """Run these tests as Python, in which integers of NumPy behave like those of numba."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-W",
        "error::RuntimeWarning",
    ]
    targets = ["tests/kernels", "tests/mask/test_golden.py"]
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [*command, *targets], cwd=ROOT, env=env, check=False, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.skipif(not NO_JIT, reason="plain Python only")
def test_kernel__sums_wrap_in_silence():
    double = _jit.kernel(lambda x: x + x)

    assert double(np.uint64(2**63)) == 0
