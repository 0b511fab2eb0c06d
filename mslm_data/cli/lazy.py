"""A group of commands that imports each when it is called, so that `--help` is instant."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """A group whose commands lie in modules of the same name, each in a function `command`."""

    def __init__(
        self, *args: Any, package: str, commands: Mapping[str, str], **kwargs: Any
    ) -> None:
        """Keep the table of commands; nothing is imported.

        Args:
            *args: Passed to `click.Group`.
            package: The package that the modules are in.
            commands: Name -> its line in `--help`.
            **kwargs: Passed to `click.Group`.
        """
        super().__init__(*args, **kwargs)
        self._package = package
        self._table = commands

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the table's order."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; None for an unknown name."""
        if cmd_name not in self._table:
            return None

        module = importlib.import_module(f"{self._package}.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the words call; an unknown one is answered with the nearest."""
        if args and args[0] not in self._table and not args[0].startswith("-"):
            from mslm_data.registry import did_you_mean

            ctx.fail(f"no command '{args[0]}'{did_you_mean(args[0], self._table)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table without importing what it names."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._table.items()))
