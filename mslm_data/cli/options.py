"""Arguments and options shared by several commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


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


folder_argument = click.argument("folder", type=FileOrFolder(), metavar="DIR")
"""A built folder on this machine, as a `Path`."""

folder_or_url_argument = click.argument("folder", type=FolderOrUrl(), metavar="DIR")
"""A built folder as a `Path`, or its fsspec URL as text."""

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object instead of text."
)

epoch_option = click.option(
    "--epoch",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    show_default=True,
    help="Epoch of the masks, counted from 0.",
)

show_text_option = click.option(
    "--show-text",
    is_flag=True,
    help="Show patients' text, which is hidden by default.",
)


def strategy_options(*, several: bool = True) -> Callable[[F], F]:
    """Add `--strategy`, `--elm`, `--blm`, `--set` and `--seed` to a command.

    The command receives them as `names`, `elm`, `blm`, `sets` and `seed`.
    `cli.strategy.make_strategies` makes strategies of the first four.

    Args:
        several: Whether the command compares strategies, if `--strategy` is repeated.
    """
    options = (
        click.option(
            "--strategy",
            "names",
            multiple=True,
            default=["joint"],
            show_default=True,
            metavar="NAME|FILE.toml|MODULE:NAME",
            help="Masking strategy: a name from `mslm-data recipes --strategies`, a TOML file with "
            "a table [mask], or your own function or class, whose module is imported."
            + (" Can be repeated to compare strategies." if several else ""),
        ),
        click.option(
            "--elm",
            type=click.FloatRange(0, 1),
            metavar="RATE",
            help="Share of a row's mentions to mask as a whole.  [default: the strategy's; joint: "
            "0.5]",
        ),
        click.option(
            "--blm",
            type=click.FloatRange(0, 1),
            metavar="RATE",
            help="Share of a row's tokens to mask besides.  [default: the strategy's; joint: 0.15]",
        ),
        click.option(
            "--set",
            "sets",
            multiple=True,
            metavar="[NAME.]OPTION=VALUE",
            help="Another option of all strategies, or only of the strategy NAME. Can be repeated.",
        ),
        click.option(
            "--seed",
            type=click.IntRange(0, 2**63 - 1),
            default=0,
            show_default=True,
            help="Seed of the masks, as in training.",
        ),
    )

    def add(command: F) -> F:
        # Decorators apply in reverse: the option added last is the first one in the help.
        for option in reversed(options):
            command = option(command)
        return command

    return add


def split_option(purpose: str, note: str = "") -> Callable[[F], F]:
    """Add `--split`, by default the training split.

    Args:
        purpose: Ends the help text, such as "to show".
        note: A sentence after the help text. Default: none.
    """
    return click.option(
        "--split",
        default="train",
        show_default=True,
        metavar="NAME",
        help=f"Name of the split {purpose}.{f' {note}' if note else ''}",
    )


def splits_option(purpose: str, *, default: str) -> Callable[[F], F]:
    """Add `--split`, which can be repeated. The command receives the names as `splits`.

    Args:
        purpose: Ends the help text, such as "to count".
        default: Default splits, for the help text.
    """
    return click.option(
        "--split",
        "splits",
        multiple=True,
        metavar="NAME",
        help=f"Name of a split {purpose}. Can be repeated.  [default: {default}]",
    )
