"""Which packages are there, and whether their versions are those that are tested."""

from __future__ import annotations

import importlib.metadata

import pytest

from mslm_data.doctor import packages

METADATA = [
    "numpy<3,>=2.0",
    "medcat[spacy]<3,>=2.9; extra == 'mimic'",
    "torch>=2.4; extra == 'hf'",
    "transformers>=5; extra == 'gliner'",
    "transformers<6,>=5; extra == 'hf'",
    "sphinx<10,>=9; extra == 'docs'",
    "torch>=2.4; extra == 'all'",
]
VERSIONS = {"numpy": "2.4.6", "torch": "2.3.1+cu121", "sphinx": "9.0"}


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that is written down here."""

    def version(name: str) -> str:
        if name not in VERSIONS:
            raise importlib.metadata.PackageNotFoundError(name)
        return VERSIONS[name]

    monkeypatch.setattr(importlib.metadata, "requires", lambda _: METADATA)
    monkeypatch.setattr(importlib.metadata, "version", version)


@pytest.mark.parametrize(
    ("version", "tested", "expected"),
    [
        ("2.0", "<3,>=2.0", True),
        ("2", "<3,>=2.0", True),
        ("3.0.0", "<3,>=2.0", False),
        ("3.0.0rc1", "<3,>=2.0", False),
        ("1.26.4", "<3,>=2.0", False),
        ("2.13.0+cu128", ">=2.4", True),
        ("0.9", "<0.70,>=0.61", False),
        ("2.9.4", "~=2.9.1", True),
        ("2.10", "~=2.9.1", False),
        ("2.9", "!=2.9.0", False),
        ("7", "", True),
    ],
)
def test_is_in_range__compares_numbers(version: str, tested: str, expected: bool) -> None:
    assert packages.is_in_range(version, tested) is expected


@pytest.mark.usefixtures("installed")
def test_known_packages__are_those_of_users_with_what_all_extras_ask_for() -> None:
    found = {package.name: package for package in packages.known_packages()}

    assert list(found) == ["numpy", "medcat", "torch", "transformers"]
    assert (found["numpy"].is_core, found["numpy"].in_range) == (True, True)
    assert (found["torch"].version, found["torch"].in_range) == ("2.3.1+cu121", False)
    assert (found["medcat"].version, found["medcat"].extras) == (None, ["mimic"])
    assert found["transformers"].tested == ">=5,<6"


@pytest.mark.usefixtures("installed")
def test_extras__name_the_packages_that_are_missing() -> None:
    assert packages.extras(packages.known_packages()) == {
        "mimic": ["medcat"],
        "hf": ["transformers"],
        "gliner": ["transformers"],
    }


def test_known_packages__of_a_package_that_was_only_copied_are_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", none)
    monkeypatch.setattr(importlib.metadata, "metadata", none)

    assert packages.known_packages() == []
    assert packages.python_range() == ""
