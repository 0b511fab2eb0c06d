"""Help texts of all commands: runnable examples, and a description for each option."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import click
import pytest

from mslm_data.cli import cli as program
from mslm_data.mask.table import default_options
from tests.cli.running import run


def commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    if path:
        yield path, group
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from commands(found, f"{path} {name}".strip())
        else:
            yield f"{path} {name}".strip(), found


COMMANDS = dict(commands(program, ""))


def examples(command: click.Command) -> list[list[str]]:
    """Return the arguments of each example in a help text."""
    _, found, lines = (command.help or "").partition("Example:\n")
    assert found, "expected an example"
    lines = lines.replace("\\\n", "")
    calls = [shlex.split(line) for line in lines.splitlines() if line.strip()]
    return [words[: words.index(">")] if ">" in words else words for words in calls]


@pytest.mark.parametrize("name", COMMANDS)
def test_help__examples_are_accepted_by_the_parser(name: str) -> None:
    found = examples(COMMANDS[name])

    assert any(" ".join(words).startswith(f"mslm-data {name}") for words in found)
    for _, *words in found:
        command: click.Command | None = program
        while isinstance(command, click.Group):
            command = command.get_command(click.Context(command), words.pop(0))
        assert command is not None
        command.make_context("x", words)  # Raises for unknown options.


@pytest.mark.parametrize("name", COMMANDS)
def test_help__each_option_has_a_complete_description(name: str) -> None:
    options = [one for one in COMMANDS[name].params if isinstance(one, click.Option)]

    for option in options:
        assert option.help, option.name
        assert len(option.help.split()) > 3, option.name
        assert option.help[0].isupper(), option.name


def test_help__has_the_default_rates_of_joint() -> None:
    text = " ".join(run("mask-stats", "--help").out.split())

    for name in ("elm", "blm"):
        assert f"[default: the strategy's; joint: {default_options('joint')[name]}; " in text
