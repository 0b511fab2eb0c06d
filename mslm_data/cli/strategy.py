"""A strategy from the options of a command."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from mslm_data.mask import NO_MASKS, STRATEGIES, Strategy, make

if TYPE_CHECKING:
    from mslm_data.loading import Shards


def of_options(
    name: str,
    given: Mapping[str, Any],
    sets: Sequence[str],
    *,
    shards: Shards | None = None,
    several: bool = False,
) -> Strategy:
    """Make a strategy.

    Args:
        name: Its name, or a TOML file with a table `[mask]`.
        given: Options, None where the strategy's own default is wanted.
        sets: Further ones as `option=value`, or `NAME.option=value` for the strategy of that name only; the value is
            TOML, or else a bare string.
        shards: Where its lexicons and score columns are looked for first.
        several: Whether other strategies are made of the same options: what this one does not have is for them.

    Raises:
        PipelineError: No such strategy or option, or a value that it refuses.
    """
    options = {option: value for option, value in given.items() if value is not None}
    if several and not name.endswith(".toml") and name not in NO_MASKS:
        known = {field.name for field in dataclasses.fields(STRATEGIES.load(name))}
        options = {option: value for option, value in options.items() if option in known}
    for assignment in sets:
        path, equals, value = assignment.partition("=")
        if not equals:
            raise click.UsageError(f"--set: expected option=value, got '{assignment}'")
        whose, _, option = path.rpartition(".")
        if whose and whose != name:
            continue
        try:
            options[option] = tomllib.loads(f"value = {value}")["value"]
        except (ValueError, RecursionError):
            options[option] = value
    return make(name, options) if shards is None else shards.strategy(name, **options)
