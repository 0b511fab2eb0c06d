from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from mslm_data.kernels import _jit

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


def test_cache_folder__cannot_be_made(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("MSLM_DATA_CACHE", str(tmp_path / "file"))

    assert _jit.cache_folder() is None
    assert _jit.kernel(lambda x: x + 1)(1) == 2


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
    _jit.kernel(_jit._is_ours)

    assert numba.config.CACHE_DIR == "/users/own"


@pytest.mark.skipif(NO_JIT, reason="nothing is compiled without the JIT")
def test_kernel__keeps_what_it_compiled(tmp_path):
    code = (
        "import numpy as np; from mslm_data.kernels.draws import name_streams as f; "
        "out = np.empty(2, np.uint64); "
        "f(np.arange(2, dtype=np.uint64), 0, 0, 0, out); print(sum(f.stats.cache_hits.values()))"
    )
    env = {**os.environ, "MSLM_DATA_CACHE": str(tmp_path), "PYTHONPATH": str(ROOT)}
    hits = [
        subprocess.run(
            [sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True
        ).stdout.strip()
        for _ in range(2)
    ]

    assert hits == ["0", "1"]


@pytest.mark.skipif(NO_JIT, reason="this is the inner run")
def test_kernels__without_the_jit():
    """Run these tests as plain Python: NumPy's integers behave like numba's there too."""
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
