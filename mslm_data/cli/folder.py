"""A built folder as commands take it: here, or at a URL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


class FolderOrUrl(click.Path):
    """The path of a folder as a `Path`; a URL stays text, as a `Path` would lose one of its slashes."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return what was given; see `click.ParamType`."""
        return value if "://" in str(value) else super().convert(value, param, ctx)
