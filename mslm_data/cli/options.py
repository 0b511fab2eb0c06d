"""Types of values, and options shared by several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import click
from msgspec import Meta

from mslm_data.cli.command import argument, option
from mslm_data.registry import Options


class FileOrFolder(click.Path):
    """A file or a folder as a `Path`.

    An empty name is an error. It would mean the current folder, but usually comes from an unset
    shell variable. A URL is an error too: as a path it would name a folder such as `s3:` here.
    """

    def __init__(self, **settings: Any) -> None:
        """Create the type, with the settings of `click.Path`."""
        super().__init__(path_type=Path, **settings)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if value == "":
            problem = "expected a path, got an empty one; is a shell variable unset?"
            self.fail(problem, param, ctx)
        if "://" in str(value):
            problem = "expected a path of this machine, got a URL; copy the files from or to there"
            self.fail(problem, param, ctx)
        return super().convert(value, param, ctx)


class FolderOrUrl(FileOrFolder):
    """A folder as a `Path`, or a URL as text, because `Path` merges the slashes of a URL."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a URL unchanged, otherwise a `Path`."""
        if "://" in str(value):
            return value
        return super().convert(value, param, ctx)


LocalFolder = Annotated[Path, argument("DIR", type=FileOrFolder())]
"""Option: a built folder on this machine."""

AnyFolder = Annotated[Path | str, argument("DIR", type=FolderOrUrl())]
"""Option: a built folder, or its fsspec URL as text."""

Positive = Annotated[int, Meta(ge=1)]

Count = Annotated[int, Meta(ge=0)]

Rate = Annotated[float, Meta(ge=0, le=1)]

Seed = Annotated[int, Meta(ge=0, le=2**63 - 1)]

Epoch = Annotated[Seed, option("Epoch of the masks, counted from 0.", metavar="N")]

ShowText = Annotated[bool, option("Show patients' text, which is hidden by default.")]


class StrategyOptions(Options, frozen=True, kw_only=True):
    """Options of strategies; `cli.strategy.make_strategies` makes the strategies."""

    strategy: Annotated[
        tuple[str, ...],
        option(
            "Masking strategy: a name from `mslm-data recipes --strategies`, a TOML file with a "
            "table [mask], or your own function or class, whose module is imported. Can be "
            "repeated to compare strategies.",
            metavar="NAME|FILE.toml|MODULE:NAME",
        ),
    ] = ("joint",)
    elm: Annotated[
        Rate | None,
        option(
            "Share of a row's mentions to mask as a whole.",
            metavar="RATE",
            default="the strategy's; joint: 0.5",
        ),
    ] = None
    blm: Annotated[
        Rate | None,
        option(
            "Share of a row's tokens to mask besides.",
            metavar="RATE",
            default="the strategy's; joint: 0.15",
        ),
    ] = None
    set: Annotated[
        tuple[str, ...],
        option(
            "Another option of all strategies, or only of the strategy NAME. Can be repeated.",
            metavar="[NAME.]OPTION=VALUE",
        ),
    ] = ()
    seed: Annotated[Seed, option("Seed of the masks, as in training.", metavar="N")] = 0
