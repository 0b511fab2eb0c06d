"""What `mslm-data doctor` lists, and what it does where something is missing or broken."""

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


def test_doctor__lists_versions_and_masks_a_batch() -> None:
    done = run("doctor", "--json")
    found = done.json

    assert (done.code, found["ok"], found["error"]) == (0, True, None)
    assert found["version"] == md.__version__
    assert found["packages"]["numpy"] == importlib.metadata.version("numpy")
    assert found["extras"]["hf"].keys() == {"accelerate", "torch", "transformers"}
    assert not {"test", "docs", "all"} & found["extras"].keys()
    assert 1 <= found["cpus"]["workers"] <= found["cpus"]["usable"]
    assert found["batch"]["rows"] == 8
    assert 0 < found["batch"]["masked_tokens"] < found["batch"]["tokens"]


def test_doctor__says_how_to_install_an_extra_that_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed = importlib.metadata.version

    def version(name: str) -> str:
        if name == "ray":
            raise importlib.metadata.PackageNotFoundError(name)
        return installed(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    fail_to_build(monkeypatch)

    lines = run("doctor").out.splitlines()

    assert "ray        ray (missing); pip install 'mslm-data[ray]'" in lines
    assert f"vocab      wordfreq {installed('wordfreq')}" in lines


def test_doctor__says_why_no_batch_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_to_build(monkeypatch)

    done = run("doctor")

    assert done.code == 1
    assert done.out.endswith("batch      failed: ImportError: Numba needs NumPy 2.3 or less\n")


def test_doctor__says_what_to_do_about_a_cache_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "file" / "cache"))

    done = run("doctor")

    assert done.code == 1
    assert "/file/cache, cannot be written: " in done.out
    assert "set MSLM_DATA_CACHE to another folder" in done.out


def test_doctor__does_not_name_the_home_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jdoe").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "jdoe"))
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "jdoe" / "cache"))
    fail_to_build(monkeypatch)

    done = run("doctor", "--json")

    assert done.json["cache"] == {"folder": "~/cache", "error": None}
    assert "jdoe" not in done.out


def test_doctor__knows_no_packages_where_it_was_only_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def requires(name: str) -> NoReturn:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", requires)
    fail_to_build(monkeypatch)

    found = run("doctor", "--json").json

    assert found["packages"] == found["extras"] == {}
