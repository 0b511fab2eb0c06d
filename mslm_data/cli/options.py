"""Arguments and options that several commands share, each declared and explained once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


class FileOrFolder(click.Path):
    """A file or a folder as a `Path`.

    An empty name is refused. As a path it would be the current folder, and where it comes from is
    a variable of the shell that is not set.
    """

    def __init__(self, **settings: Any) -> None:
        """Make the type, with settings of `click.Path`."""
        super().__init__(path_type=Path, **settings)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if value == "":
            problem = "expected a path, got an empty one; is a shell variable unset?"
            self.fail(problem, param, ctx)
        return super().convert(value, param, ctx)


class FolderOrUrl(FileOrFolder):
    """A folder as a `Path`, or a URL as text: a `Path` would lose one of the URL's slashes."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a URL as it is, anything else as a `Path`."""
        if "://" in str(value):
            return value
        return super().convert(value, param, ctx)


folder_argument = click.argument("folder", type=FileOrFolder(), metavar="DIR")
"""A built folder on this machine, as a `Path`."""

folder_or_url_argument = click.argument("folder", type=FolderOrUrl(), metavar="DIR")
"""A built folder on this machine or at a URL that fsspec knows, as a `Path` or text."""

folders_or_urls_argument = click.argument(
    "folders", type=FolderOrUrl(), nargs=-1, required=True, metavar="DIR..."
)
"""One or more built folders, as `folder_or_url_argument` takes one."""

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object instead of text for people."
)

show_text_option = click.option(
    "--show-text",
    is_flag=True,
    help="Show patients' text. Without this option it is not shown.",
)


def strategy_options(command: F) -> F:
    """Add `--strategy`, `--elm`, `--blm`, `--set` and `--seed`.

    The command gets them as `names`, `elm`, `blm`, `sets` and `seed`;
    `cli.strategy.make_strategies` makes strategies of the first four.
    """
    options = (
        click.option(
            "--strategy",
            "names",
            multiple=True,
            default=["joint"],
            show_default=True,
            metavar="NAME|FILE.toml|MODULE:NAME",
            help="Mask with this strategy: a name (`mslm-data recipes --strategies` lists them), a "
            "TOML file with a table [mask], or a function or class of your own, whose module is "
            "imported. Repeat it to compare several.",
        ),
        click.option(
            "--elm",
            type=click.FloatRange(0, 1),
            metavar="RATE",
            help="Mask this share of a row's mentions whole.  [default: the strategy's; joint: "
            "0.5]",
        ),
        click.option(
            "--blm",
            type=click.FloatRange(0, 1),
            metavar="RATE",
            help="Mask this share of a row's tokens besides.  [default: the strategy's; joint: "
            "0.15]",
        ),
        click.option(
            "--set",
            "sets",
            multiple=True,
            metavar="[NAME.]OPTION=VALUE",
            help="Change another option of every strategy, or with NAME of that one only. Repeat "
            "it for further options.",
        ),
        click.option(
            "--seed",
            type=click.IntRange(0, 2**63 - 1),
            default=0,
            show_default=True,
            help="Draw the masks from this seed, as training with the same seed does.",
        ),
    )

    # The option that is added last stands first in the help.
    for option in reversed(options):
        command = option(command)
    return command


def split_option(verb: str, why: str = "") -> Callable[[F], F]:
    """Add `--split`, the training split by default.

    Args:
        verb: What the command does with the split, such as "Show".
        why: A sentence to end the help with.
    """
    return click.option(
        "--split",
        default="train",
        show_default=True,
        metavar="NAME",
        help=f"{verb} this split.{f' {why}' if why else ''}",
    )
