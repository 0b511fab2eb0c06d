"""Generate the page of supported versions from `pyproject.toml` and `tools/constraints.txt`."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from _site.links import ROOT

PYTHONS = {
    "3.11": "all tests, with each change",
    "3.12": "a part of the tests, before a release",
    "3.13": "a part of the tests, before a release",
    "3.14": "a part of the tests, before a release",
}
"""Python version -> tests run with it. The classifiers of `pyproject.toml` list the same ones."""

SHOWN = (
    "numpy",
    "numba",
    "pyarrow",
    "tokenizers",
    "datasets",
    "transformers",
    "torch",
    "spacy",
    "medcat",
    "ray",
)
"""Packages in the table, required ones first."""

LOWEST = {
    "numpy": "2.0.0",
    "numba": "0.61.0",
    "pyarrow": "20.0.0",
    "tokenizers": "0.22.1",
    "datasets": "4.0.0",
    "transformers": "5.0.0",
    "torch": "2.4.0",
    "spacy": "3.8.2",
    "medcat": "2.9.0",
}
"""Package -> lowest tested version; all were tested together, with Python 3.11."""

_PAGE = """\
# Compatibility

## Python

| Python | tested with |
|---|---|
{pythons}

All four use the same package versions, pinned in `tools/constraints.txt`; the packages have files
for each Python. The tests run on Linux with x86-64. macOS, Windows and ARM are not tested.

From Python 3.14 on, workers of torch's `DataLoader` are not forked by default. Pass
`multiprocessing_context="fork"` to fork them.

## Packages

| package | range | tested with | lowest tried | comes with |
|---|---|---|---|---|
{packages}

`pip install --constraint tools/constraints.txt mslm-data` installs the tested versions. The lowest
versions were tested together, with a part of the tests and Python 3.11. Versions in between were
not tested.

## Extras

| extra | brings |
|---|---|
{extras}
"""


def page() -> str:
    """Render the page."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    extras = {
        name: [Requirement(one) for one in wanted]
        for name, wanted in project["optional-dependencies"].items()
        if name not in ("all", "test", "docs", "fuzz", "bench")
    }
    core = {one.name: one for one in map(Requirement, project["dependencies"])}
    pins = pinned((ROOT / "tools" / "constraints.txt").read_text(encoding="utf-8"))

    packages = []
    for name in SHOWN:
        extra_names = [
            extra for extra, wanted in extras.items() if any(one.name == name for one in wanted)
        ]
        wanted = core.get(name) or next(one for one in extras[extra_names[0]] if one.name == name)
        installed_by = (
            "always" if name in core else ", ".join(f"`{extra}`" for extra in extra_names)
        )
        cells = (f"`{_range(wanted)}`", pins[name], LOWEST.get(name, ""), installed_by)
        packages.append(f"| {name} | {' | '.join(cells)} |")
    return _PAGE.format(
        pythons="\n".join(f"| {version} | {tested} |" for version, tested in PYTHONS.items()),
        packages="\n".join(packages),
        extras="\n".join(
            f"| `{extra}` | {', '.join(f'`{one}`' for one in wanted)} |"
            for extra, wanted in extras.items()
        ),
    )


def pinned(constraints: str) -> dict[str, str]:
    """Parse a constraints file to package -> version."""
    pins = re.findall(r"^([\w.-]+)==(\S+)$", constraints, re.MULTILINE)
    return {canonicalize_name(name): version for name, version in pins}


def _range(wanted: Requirement) -> str:
    """Return the version range of a requirement, lower bound first."""
    return ", ".join(sorted(map(str, wanted.specifier), reverse=True))
