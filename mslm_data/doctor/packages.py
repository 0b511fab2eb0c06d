"""Finds which packages are installed, and whether their versions are those that are tested.

The ranges are those that this package's own metadata ask for. They are compared by the numbers of
a release alone, so this needs no package that may be missing.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Sequence
from dataclasses import dataclass

from mslm_data._optional import EXTRAS

_NAME = "mslm-data"
_REQUIREMENT = re.compile(r"([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?\s*([^;]*)(?:;(.*))?")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")
_BOUND = re.compile(r"(>=|<=|==|!=|~=|<|>)\s*([\w.]+)")
_RELEASE = re.compile(r"v?(\d+(?:\.\d+)*)")


@dataclass(slots=True, kw_only=True)
class Package:
    """A package that this one needs, or that one of its extras brings.

    Attributes:
        name: As the index has it.
        extras: The extras that bring it; empty for one that is always needed.
        tested: The range of versions, such as `<3,>=2.0`.
        version: The one that is installed; None for none.
        error: Why it cannot be imported; None where it can be, or is not installed.
    """

    name: str
    extras: list[str]
    tested: str
    version: str | None
    error: str | None = None

    @property
    def imports(self) -> str:
        """Return the name that it is imported by."""
        return self.name.replace("-", "_")

    @property
    def in_range(self) -> bool:
        """Return whether the version that is installed is one of those."""
        return self.version is not None and is_in_range(self.version, self.tested)

    @property
    def is_core(self) -> bool:
        """Return whether nothing works without it."""
        return not self.extras


def known_packages() -> list[Package]:
    """Return the packages that are always needed, then those of extras.

    Where this package was copied and not installed, nobody knows what it needs: there are none.
    """
    found: dict[str, Package] = {}
    for requirement in _requirements():
        match = _REQUIREMENT.match(requirement)
        if match is None:
            continue
        name, tested, marker = match[1], match[2].strip(), match[3] or ""
        extra = _EXTRA.search(marker)
        if extra is not None and extra[1] not in EXTRAS:
            continue

        package = found.setdefault(
            name, Package(name=name, extras=[], tested="", version=version_of(name))
        )
        # Several extras may bring a package; what is tested is what all of them ask for.
        bounds = [*package.tested.split(","), *tested.split(",")]
        package.tested = ",".join(dict.fromkeys(filter(None, map(str.strip, bounds))))
        if extra is not None:
            package.extras.append(extra[1])
    return sorted(found.values(), key=lambda package: (not package.is_core, package.name))


def extras(of: Sequence[Package]) -> dict[str, list[str]]:
    """Return each extra -> the names of its packages that are not installed."""
    named = {extra for package in of for extra in package.extras}
    return {
        extra: [
            package.name for package in of if extra in package.extras and package.version is None
        ]
        for extra in EXTRAS
        if extra in named
    }


def version_of(name: str) -> str | None:
    """Return the version of an installed package, None where there is none."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def python_range() -> str:
    """Return the versions of Python that this package is for; "" where nobody knows."""
    try:
        return importlib.metadata.metadata(_NAME)["Requires-Python"] or ""
    except importlib.metadata.PackageNotFoundError:
        return ""


def _requirements() -> list[str]:
    try:
        return importlib.metadata.requires(_NAME) or []
    except importlib.metadata.PackageNotFoundError:
        return []


def is_in_range(version: str, tested: str) -> bool:
    """Return whether a version's release is within all bounds of a range; "" has none."""
    release = _release(version)
    for bound, text in _BOUND.findall(tested):
        limit = _release(text)
        width = max(len(release), len(limit))
        left = (*release, *[0] * (width - len(release)))
        right = (*limit, *[0] * (width - len(limit)))
        within = {
            ">=": left >= right,
            "<=": left <= right,
            "==": left == right,
            "!=": left != right,
            "~=": left >= right and release[: len(limit) - 1] == limit[:-1],
            "<": left < right,
            ">": left > right,
        }
        if not within[bound]:
            return False
    return True


def _release(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, without what may follow them, such as `rc1` or `+cu128`."""
    match = _RELEASE.match(version)
    return tuple(map(int, match[1].split("."))) if match else ()
