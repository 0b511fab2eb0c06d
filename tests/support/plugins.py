"""Plug-ins for tests: put where Python finds installed packages, without installing them."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples" / "plugins"


def put(
    into: Path, name: str, entry_points: dict[str, dict[str, str]], version: str = "1.0"
) -> None:
    """Write what an installer writes of a package: its name, version and entry points."""
    info = into / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = []
    for group, of_group in entry_points.items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in of_group.items())]
    (info / "entry_points.txt").write_text("\n".join([*lines, ""]))


def put_example(name: str, into: Path) -> None:
    """Put a package of `examples/plugins/`, by its `pyproject.toml`."""
    folder = EXAMPLES / name
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    put(into, project["name"], project["entry-points"], project["version"])
    for module in folder.glob("*.py"):
        shutil.copy(module, into)
