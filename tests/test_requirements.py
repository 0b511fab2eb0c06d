"""Requirements files, with all dependencies in the constraints' versions; the versions page; workflows."""

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
    """Return the pin of each package in a requirements file; pip checks the hashes below it."""
    text = (TOOLS / "requirements" / name).read_text(encoding="utf-8")
    found = map(Requirement, re.findall(r"^(\w[^\\\n]*?) \\$", text, re.MULTILINE))
    return {canonicalize_name(requirement.name): requirement for requirement in found}


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


def test_versions_page__names_pythons_and_versions_that_pyproject_allows() -> None:
    page = (TOOLS / "requirements" / "README.md").read_text(encoding="utf-8")
    project = PROJECT["project"]
    table = re.search(r"^\| (numpy.*) \|\n.*\n\| (.*) \|$", page, re.MULTILINE)
    assert table is not None
    lowest = dict(zip(table[1].split(" | "), table[2].split(" | "), strict=True))
    listed = [project["dependencies"], *project["optional-dependencies"].values()]

    for python in re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"])):
        assert python in page.partition("## Packages")[0], python
    for requirement in (Requirement(one) for packages in listed for one in packages):
        if requirement.name in lowest:
            assert requirement.specifier.contains(lowest[requirement.name]), requirement


def test_workflows__pin_actions_by_commit_and_test_claimed_pythons() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / ".github").rglob("*.yml")]
    used = re.findall(r"uses: (\S+)", "\n".join(texts))
    tests = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")

    assert used
    for action in used:
        # `$/` is this repository.
        assert re.fullmatch(r"\$/\S+|[\w./-]+@[0-9a-f]{40}", action), action
    for python in re.findall(r'"(3\.\d+)"', tests):
        assert f"Programming Language :: Python :: {python}" in PROJECT["project"]["classifiers"]
