"""Finds plug-ins: sources, annotators, segmenters and strategies of other packages.

A package names them as entry points, in its `pyproject.toml`:

    [project.entry-points."mslm_data.sources"]
    gate = "mslm_data_gate:Gate"

Looking through what is installed costs milliseconds, so a registry asks only for a name that is not
shipped, or when it lists its names.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Collection, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple

from mslm_data.errors import PipelineError

GROUPS = (
    "mslm_data.sources",
    "mslm_data.annotators",
    "mslm_data.segmenters",
    "mslm_data.strategies",
)
"""The groups of entry points, one for each kind of plug-in."""


class Plugin(NamedTuple):
    """An entry point of an installed package.

    Attributes:
        distribution: The package's name, as `pip list` has it.
        version: The package's version.
        entry_point: The name, and the `module:attribute` that it stands for.
    """

    distribution: str
    version: str
    entry_point: EntryPoint

    def __str__(self) -> str:
        return (
            f"entry point '{self.entry_point.name}' of {self.entry_point.group}, from "
            f"{self.distribution} {self.version}"
        )


def find_plugins(group: str) -> Mapping[str, Plugin]:
    """Return name -> plug-in for one group of entry points.

    Raises:
        PipelineError: Two packages have the same name.
    """
    return _find_plugins(group, tuple(sys.path))


@functools.lru_cache(maxsize=16)
def _find_plugins(group: str, path: tuple[str, ...]) -> Mapping[str, Plugin]:  # noqa: ARG001
    """Look through the packages on `sys.path`, which is a part of the cache's key."""
    found: dict[str, Plugin] = {}
    for entry_point in entry_points(group=group):
        dist = entry_point.dist
        if dist is None:
            continue
        plugin = Plugin(dist.name, dist.version, entry_point)
        other = found.setdefault(entry_point.name, plugin)
        if other is not plugin:
            raise PipelineError(
                f"{plugin}: {other.distribution} {other.version} has the same name; uninstall one "
                "of them"
            )
    return found


def plugin_versions() -> dict[str, str]:
    """Return the version of each installed package that has plug-ins."""
    plugins = [plugin for group in GROUPS for plugin in find_plugins(group).values()]
    return {plugin.distribution: plugin.version for plugin in plugins}


def load_plugin(plugin: Plugin, attributes: Collection[str]) -> Any:
    """Import and return what a plug-in stands for.

    Args:
        plugin: The plug-in.
        attributes: What it must have, if it must be a dataclass; otherwise any callable will do.

    Raises:
        PipelineError: It cannot be imported, or is something else. The message of another
            exception is left out, as it may hold anything.
    """
    try:
        made = plugin.entry_point.load()
    except Exception as error:  # noqa: BLE001 - code of others
        missing = f" of {error.name}" if isinstance(error, ModuleNotFoundError) else ""
        raise PipelineError(
            f"{plugin}: expected {plugin.entry_point.value} to be imported, got "
            f"{type(error).__name__}{missing}; install what it needs, or uninstall it"
        ) from None

    if not callable(made):
        raise PipelineError(f"{plugin}: expected a class or a function, got {type(made).__name__}")
    if attributes:
        missing = ", ".join(name for name in attributes if not hasattr(made, name))
        if missing or not dataclasses.is_dataclass(made):
            raise PipelineError(
                f"{plugin}: expected a dataclass with {', '.join(attributes)}, got one without "
                f"{missing}"
                if missing
                else f"{plugin}: expected a dataclass, got {plugin.entry_point.value}"
            )
    return made
