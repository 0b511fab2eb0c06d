"""A command group that imports each command when it is called, so that `--help` is instant."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """A group with a module per command, whose function is `command`."""

    def __init__(
        self, *args: Any, package: str, commands: Mapping[str, str], **kwargs: Any
    ) -> None:
        """Keep the table of commands without importing any.

        Args:
            *args: For `click.Group`.
            package: Package of the modules.
            commands: Name -> its line in `--help`.
            **kwargs: For `click.Group`.
        """
        super().__init__(*args, **kwargs)
        self._package = package
        self._table = commands

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of the table."""
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
        """Return the command to call; for an unknown name, fail with the nearest one."""
        if args and args[0] not in self._table and not args[0].startswith("-"):
            from mslm_data.registry import did_you_mean

            ctx.fail(f"no command '{args[0]}'{did_you_mean(args[0], self._table)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._table.items()))
