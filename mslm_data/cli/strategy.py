"""Makes strategies from the options of a command; `cli.options.strategy_options` declares them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from mslm_data.errors import PipelineError
from mslm_data.mask import NO_MASKS, options_of
from mslm_data.pipeline import value_of
from mslm_data.registry import did_you_mean

if TYPE_CHECKING:
    from mslm_data.loading import Shards
    from mslm_data.mask.strategy import Strategy


def make_strategies(
    shards: Shards,
    names: Sequence[str],
    *,
    elm: float | None,
    blm: float | None,
    sets: Sequence[str],
) -> dict[str, Strategy]:
    """Make the strategies that a command's options ask for, by their names.

    Where there are several, `elm` and `blm` go to those that have such an option.

    Args:
        shards: Where lexicons and score columns are looked for first.
        names: Registered names, or TOML files with a table `[mask]`.
        elm: Value of the option `elm`; None for each strategy's own.
        blm: Value of the option `blm`; None for each strategy's own.
        sets: Further options, as `option=value` for all or as `NAME.option=value` for one. A value
            is TOML, or else a bare string.

    Raises:
        PipelineError: A strategy or an option is unknown, a value is refused, or a rate follows
            training, which no command knows the place of.
        UsageError: One of `sets` is not of that form, of another strategy, or sets what `elm` or
            `blm` sets.
    """
    rates = {name: value for name, value in (("elm", elm), ("blm", blm)) if value is not None}
    assignments = [_parsed(assignment, names) for assignment in sets]
    for _, option, _ in assignments:
        if option in rates:
            raise click.UsageError(f"--set: expected no {option} beside --{option}, got both")
    strategies = {}

    for name in names:
        options: dict[str, Any] = dict(rates)
        if len(names) > 1 and not name.endswith(".toml") and name not in NO_MASKS:
            known = options_of(name)
            options = {option: value for option, value in options.items() if option in known}

        for whose, option, value in assignments:
            if whose in ("", name):
                options[option] = value

        strategies[name] = shards.strategy(name, **options)
        if strategies[name].follows_training:
            raise PipelineError(
                f"strategy '{name}': expected rates that stay or follow the epoch, got one that "
                "follows the steps or tokens of training, which a command does not know; set it to "
                "a number, such as the rate of one phase"
            )

    return strategies


def _parsed(assignment: str, names: Sequence[str]) -> tuple[str, str, Any]:
    """Return whose option is set ("" for all), the option, and the value.

    Raises:
        UsageError: Not of that form, or of a strategy that is not among `names`.
    """
    path, equals, text = assignment.partition("=")
    if not equals:
        raise click.UsageError(f"--set: expected option=value, got '{assignment}'")

    whose, _, option = path.rpartition(".")
    if whose and whose not in names:
        raise click.UsageError(
            f"--set: expected an option of {' or '.join(names)}, got one of '{whose}'"
            f"{did_you_mean(whose, names)}"
        )
    return whose, option, value_of(text)
