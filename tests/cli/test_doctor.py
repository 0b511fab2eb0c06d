"""Output of `mslm-data doctor`, also for missing packages and broken caches."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import NoReturn

import pytest

import mslm_data as md
from mslm_data.io import cache
from tests.cli.running import run


def fail_to_build(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(*_: object, **__: object) -> NoReturn:
        raise ImportError("Numba needs NumPy 2.3 or less")

    monkeypatch.setattr(md, "build", build)


def test_doctor__lists_versions_and_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_to_build(monkeypatch)

    found = run("doctor", "--json").json

    assert found["version"] == md.__version__
    assert found["packages"]["numpy"] == importlib.metadata.version("numpy")
    assert found["extras"]["hf"].keys() == {"accelerate", "torch", "transformers"}
    assert not {"test", "docs", "all"} & found["extras"].keys()


def test_doctor__explains_how_to_install_a_missing_extra_and_why_no_batch_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed = importlib.metadata.version

    def version(name: str) -> str:
        if name == "ray":
            raise importlib.metadata.PackageNotFoundError(name)
        return installed(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    fail_to_build(monkeypatch)

    done = run("doctor")

    lines = [line.split() for line in done.out.splitlines()]
    assert done.code == 1
    assert ["ray", "ray", "(missing);", "pip", "install", "'mslm-data[ray]'"] in lines
    assert ["vocab", "wordfreq", installed("wordfreq")] in lines
    assert done.out.endswith("  failed: ImportError: Numba needs NumPy 2.3 or less\n")


def test_doctor__explains_how_to_fix_an_unwritable_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "file" / "cache"))

    done = run("doctor")

    assert done.code == 1
    assert "/file/cache, cannot be written: " in done.out
    assert "set MSLM_DATA_CACHE to another folder" in done.out


def test_doctor__does_not_show_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jdoe").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "jdoe"))
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "jdoe" / "cache"))
    fail_to_build(monkeypatch)

    done = run("doctor", "--json")

    assert done.json["cache"] == {"folder": "~/cache", "error": None}
    assert "jdoe" not in done.out


def test_doctor__works_without_package_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    def requires(name: str) -> NoReturn:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", requires)
    fail_to_build(monkeypatch)

    found = run("doctor", "--json").json

    assert found["packages"] == found["extras"] == {}
