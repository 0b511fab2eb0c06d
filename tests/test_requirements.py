"""Requirements files: all dependencies, in the constraints' versions, with hashes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
TOOLS = ROOT / "tools"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def pins(name: str) -> dict[str, Requirement]:
    """Return the pin of each package in a requirements file.

    Each pin must have hashes, and the file has no other lines.
    """
    text = (TOOLS / "requirements" / name).read_text(encoding="utf-8")
    without_comments = re.sub(r"^ *#.*\n", "", text, flags=re.MULTILINE)

    found = {}
    for line in without_comments.replace(" \\\n    ", "\t").splitlines():
        pin, *hashes = line.split("\t")
        assert hashes, pin
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes), pin
        requirement = Requirement(pin)
        assert re.fullmatch(r"==[0-9][^*,]*", str(requirement.specifier)), pin
        found[canonicalize_name(requirement.name)] = requirement
    return found


def wanted(name: str) -> list[Requirement]:
    """Return the dependencies of pyproject.toml in the environment of a requirements file."""
    if name == "test.txt":
        extras = PROJECT["project"]["optional-dependencies"]["test"]
        return [Requirement(one) for one in [*PROJECT["project"]["dependencies"], *extras]]
    group = PROJECT["dependency-groups"][name.removesuffix(".txt")]
    return [Requirement(one) for one in group if isinstance(one, str)]


@pytest.mark.parametrize("name", ["build.txt", "test.txt", "release.txt"])
def test_requirements__pin_all_dependencies_to_the_constraints(name: str) -> None:
    lines = (TOOLS / "constraints.txt").read_text(encoding="utf-8").splitlines()
    constraints = dict(line.split("==") for line in lines if not line.startswith("#"))
    versions = {canonicalize_name(package): version for package, version in constraints.items()}

    pinned = pins(name)

    for one in wanted(name):
        if one.name != "torch":
            pin = pinned.get(canonicalize_name(one.name))
            assert pin is not None, f"{one}: run `make lock`"
            version = str(pin.specifier).removeprefix("==")
            assert one.specifier.contains(version, prereleases=True), f"{one}: run `make lock`"
    for package, pin in pinned.items():
        if package in versions:
            assert str(pin.specifier) == f"=={versions[package]}", f"{package}: run `make lock`"


def test_requirements__leave_torch_and_its_gpu_packages_to_the_constraints() -> None:
    pinned = pins("test.txt")

    assert [name for name in pinned if re.match(r"torch$|triton|cuda|nvidia", name)] == []
    assert re.search(
        r"^torch==", (TOOLS / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE
    )
