"""CPUs available to a process, with fake control groups."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mslm_data.engine.cpus import cgroup_cpus, cpus


def group(folder: Path, **files: str) -> None:
    """Create the files of a control group; `__` in a name stands for a dot."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_cgroup_cpus__is_the_minimum_of_a_group_and_its_parents(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("0::/pods/mine\n")
    group(tmp_path / "groups" / "pods", cpu__max="150000 100000\n")
    group(tmp_path / "groups" / "pods" / "mine", cpu__max="max 100000\n")

    assert cgroup_cpus(tmp_path / "groups", tmp_path / "own") == 1.5


def test_cgroup_cpus__finds_the_group_of_a_container_by_its_outer_name(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("0::/system.slice/docker-0123.scope\n")
    group(tmp_path / "groups", cpu__max="200000 100000\n")

    assert cgroup_cpus(tmp_path / "groups", tmp_path / "own") == 2


def test_cgroup_cpus__reads_no_groups_of_version_1(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("4:cpu,cpuacct:/job\n0::/mine\n")
    group(tmp_path / "groups" / "cpu" / "job", cpu__cfs_quota_us="400000\n")
    group(tmp_path / "groups" / "job", cpu__max="400000 100000\n")
    group(tmp_path / "groups" / "mine", cpu__max="200000 100000\n")

    assert cgroup_cpus(tmp_path / "groups", tmp_path / "own") == 2


@pytest.mark.parametrize("own", ["0::/mine\n", "0::/../other\n", "0::/a\0b", "nonsense\n", ""])
def test_cgroup_cpus__is_none_without_a_limit(own: str, tmp_path: Path) -> None:
    (tmp_path / "own").write_text(own)

    assert cgroup_cpus(tmp_path / "groups", tmp_path / "own") is None
    assert cgroup_cpus(tmp_path / "groups", tmp_path / "nothing") is None


@pytest.mark.parametrize(
    "text", ["max 100000", "max", "", "0 100000", "200000 0", "many few", "-1 1"]
)
def test_cgroup_cpus__ignores_invalid_files(text: str, tmp_path: Path) -> None:
    (tmp_path / "own").write_text("0::/\n")
    group(tmp_path / "groups", cpu__max=text)

    assert cgroup_cpus(tmp_path / "groups", tmp_path / "own") is None


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("200000 100000", 2),
        ("250000 100000", 3),
        ("50000 100000", 1),
        ("12800000 100000", 64),
        ("max 100000", 64),
    ],
)
def test_cpus__round_the_limit_up(
    limit: str, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    (tmp_path / "own").write_text("0::/\n")
    group(tmp_path / "groups", cpu__max=limit)

    assert cpus(tmp_path / "groups", tmp_path / "own") == expected


def test_cpus__default_to_the_cpus_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 12)

    assert cpus(tmp_path / "groups", tmp_path / "own") == 12
