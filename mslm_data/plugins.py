"""Finds plug-ins: sources, annotators, segmenters and strategies of other packages.

A package registers them as entry points in `pyproject.toml`:

    [project.entry-points."mslm_data.sources"]
    gate = "mslm_data_gate:Gate"

Searching installed packages takes milliseconds, so registries search only for names that are not
shipped, and to list all names.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple

from mslm_data.errors import PipelineError

GROUPS = (
    "mslm_data.sources",
    "mslm_data.annotators",
    "mslm_data.segmenters",
    "mslm_data.strategies",
)
"""Groups of entry points, one per kind of plug-in."""


class Plugin(NamedTuple):
    """An entry point of an installed package.

    Attributes:
        distribution: Name of the package, as in `pip list`.
        version: Version of the package.
        entry_point: The entry point, with its name and `module:attribute`.
        rival: Name of another package with an entry point of this name; "" for none.
    """

    distribution: str
    version: str
    entry_point: EntryPoint
    rival: str = ""

    def __str__(self) -> str:
        return (
            f"entry point '{self.entry_point.name}' of {self.entry_point.group}, from "
            f"{self.distribution} {self.version}"
        )

    def load(self) -> Any:
        """Import the plug-in.

        Raises:
            PipelineError: It cannot be imported, is neither a class nor a function, or another
                package has one of this name. Messages of other exceptions are left out, because
                they may contain text.
        """
        if self.rival:
            raise PipelineError(
                f"{self}: {self.rival} has an entry point of the same name; uninstall one of both"
            )
        try:
            loaded = self.entry_point.load()
        except PipelineError as error:  # an incomplete class
            raise PipelineError(f"{self}: {error}") from None
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything
            missing = f" of {error.name}" if isinstance(error, ModuleNotFoundError) else ""
            raise PipelineError(
                f"{self}: expected {self.entry_point.value} to be imported, got "
                f"{type(error).__name__}{missing}; install what it needs, or uninstall it"
            ) from None

        if not callable(loaded):
            raise PipelineError(
                f"{self}: expected a class or a function, got {type(loaded).__name__}"
            )
        return loaded


@cache
def find_plugins(group: str) -> Mapping[str, Plugin]:
    """Return name -> plug-in for a group of entry points of installed packages."""
    plugins: dict[str, Plugin] = {}
    for entry_point in entry_points(group=group):
        package = entry_point.dist
        if package is None:  # it has no version to record
            continue
        first = plugins.get(entry_point.name)
        rival = "" if first is None else first.distribution
        plugins[entry_point.name] = Plugin(package.name, package.version, entry_point, rival)
    return plugins


def plugin_versions() -> dict[str, str]:
    """Return package -> version for all packages with plug-ins."""
    plugins = [plugin for group in GROUPS for plugin in find_plugins(group).values()]
    return {plugin.distribution: plugin.version for plugin in plugins}
