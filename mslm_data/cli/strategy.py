"""Makes a strategy from the options of a command."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from mslm_data.mask import NO_MASKS, make, options_of

if TYPE_CHECKING:
    from mslm_data.loading import Shards
    from mslm_data.mask.strategy import Strategy


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
        name: A registered name, or a TOML file with a table `[mask]`.
        given: Values of options; None stands for the strategy's own default.
        sets: Further options as `option=value`, or as `NAME.option=value` for the strategy of that name
            only. A value is TOML, or else a bare string.
        shards: Where lexicons and score columns are looked for first.
        several: Whether other strategies are made from the same options. Options that this one does not
            have are then left to them.

    Raises:
        PipelineError: The strategy or an option is unknown, or a value is refused.
        UsageError: One of `sets` is not of that form.
    """
    options = {option: value for option, value in given.items() if value is not None}
    if several and not name.endswith(".toml") and name not in NO_MASKS:
        known = options_of(name)
        options = {option: value for option, value in options.items() if option in known}

    for assignment in sets:
        path, equals, value = assignment.partition("=")
        if not equals:
            raise click.UsageError(f"--set: expected option=value, got '{assignment}'")

        whose, _, option = path.rpartition(".")
        if not whose or whose == name:
            options[option] = _value(value)

    return make(name, options) if shards is None else shards.strategy(name, **options)


def _value(text: str) -> Any:
    """Return a value that was written as TOML, or the text itself if it is not TOML."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text
