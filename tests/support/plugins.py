"""Make plug-ins discoverable in a folder, without installing them."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples" / "plugins"


def put(
    into: Path, name: str, entry_points: dict[str, dict[str, str]], version: str = "1.0"
) -> None:
    """Write the metadata of an installed package to a folder.

    Args:
        into: The folder, to be added to the Python path.
        name: Name of the package.
        entry_points: Group -> name -> object, such as "module:Class".
        version: Version of the package. Default: "1.0".
    """
    info = into / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = []
    for group, targets in entry_points.items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in targets.items())]
    (info / "entry_points.txt").write_text("\n".join([*lines, ""]))


def put_example(name: str, into: Path) -> None:
    """Copy a package of `examples/plugins/`, and write the metadata of its `pyproject.toml`."""
    folder = EXAMPLES / name
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    put(into, project["name"], project["entry-points"], project["version"])
    for module in folder.glob("*.py"):
        shutil.copy(module, into)
