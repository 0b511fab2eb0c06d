"""Makes strategies from the options that `cli.options.StrategyOptions` declares."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mslm_data.cli.own import describe_own_error, import_own
from mslm_data.errors import MslmDataError, PipelineError
from mslm_data.mask.table import NO_MASKS, default_options
from mslm_data.pipeline import parse_value
from mslm_data.registry import did_you_mean, from_options

if TYPE_CHECKING:
    from mslm_data.api.loading import Shards
    from mslm_data.cli.options import StrategyOptions
    from mslm_data.mask.strategy import Strategy


def make_strategies(shards: Shards, options: StrategyOptions) -> dict[str, Strategy]:
    """Make the strategies of a command, by name.

    Args:
        shards: The folder whose `vocab/` is searched first for lexicons and score columns.
        options: Options of the command.

    Raises:
        PipelineError: A strategy or option is unknown, a value is wrong, or a rate depends on the
            training step, which commands do not know.
        UsageError: See `options_by_strategy`.
    """
    strategies = {}
    for name, own_options in options_by_strategy(options).items():
        if _is_own(name):
            strategies[name] = shards.strategy(_call_own(name, own_options))
        else:
            strategies[name] = shards.strategy(name, **own_options)
        if strategies[name].follows_training:
            raise PipelineError(
                f"strategy '{name}': its masks depend on the training step or on the tokens seen, "
                "which a command does not know; set a rate to a number, such as that of one phase, "
                "and count the parts of a curriculum one by one"
            )

    return strategies


def options_by_strategy(options: StrategyOptions) -> dict[str, dict[str, Any]]:
    """Return the options that a command sets for each of its strategies.

    With several strategies, `elm` and `blm` are passed to those that have the option. A single
    strategy without it raises an error when it is made.

    Args:
        options: Options of the command. Names are registered ones, TOML files with a table
            `[mask]`, or `module:name` of the user's own functions or classes. `set` has other
            options, `option=value` for all strategies or `NAME.option=value` for one. A value is
            TOML, otherwise a string.

    Raises:
        PipelineError: A strategy is unknown.
        UsageError: A value of `set` is malformed, names another strategy, or repeats `elm` or
            `blm`.
    """
    names = options.strategy
    given = {"elm": options.elm, "blm": options.blm}
    rates = {name: value for name, value in given.items() if value is not None}
    assignments = [_parsed(assignment, names) for assignment in options.set]
    for _, option, _ in assignments:
        if option in rates:
            raise click.UsageError(f"--set {option}: cannot be combined with --{option}")

    by_strategy: dict[str, dict[str, Any]] = {}
    for name in names:
        known = _known_options(name) if rates and len(names) > 1 else rates
        by_strategy[name] = {option: value for option, value in rates.items() if option in known}
        by_strategy[name] |= {
            option: value for whose, option, value in assignments if whose in ("", name)
        }
    return by_strategy


def asked_options(
    options: StrategyOptions, strategies: Mapping[str, Strategy]
) -> dict[str, Mapping[str, Any]]:
    """Return the options of each strategy, with defaults.

    Of a strategy that was not made by name, these are the options of the command.
    """
    given = options_by_strategy(options)
    return {
        name: given[name] if strategy.origin is None else strategy.origin.options
        for name, strategy in strategies.items()
    }


def _known_options(name: str) -> Collection[str]:
    """Return the options of a strategy.

    Raises:
        PipelineError: The strategy is unknown.
    """
    from mslm_data.mask.file import read_table

    if _is_own(name):
        return inspect.signature(_own(name)).parameters
    if name.endswith(".toml"):
        name = str(read_table(Path(name)).get("use", "picks"))
    return () if name in NO_MASKS else default_options(name)


def _is_own(name: str) -> bool:
    """Return whether a name is `module:name` of the user's own code."""
    return ":" in name and not name.endswith(".toml")


def _own(name: str) -> Callable[..., Any]:
    return import_own(name, where=f"strategy '{name}'")


def _call_own(name: str, options: Mapping[str, Any]) -> Strategy:
    """Call the user's function or class with the options of the command.

    Raises:
        PipelineError: An option is unknown, a value is wrong, the call fails, or it returns no
            strategy.
    """
    from mslm_data.mask.strategy import Strategy

    own = _own(name)
    try:
        strategy: Any = from_options(own, options, where=f"strategy '{name}'")
    except MslmDataError:
        raise
    except Exception as error:  # the user's code may raise anything
        raise PipelineError(f"strategy '{name}': {describe_own_error(error, own)}") from error
    if not isinstance(strategy, Strategy):
        raise PipelineError(
            f"strategy '{name}': expected a strategy, as md.strategy(...) makes one or a class of "
            f"md.Strategy, got {type(strategy).__name__}"
        )
    return strategy


def _parsed(assignment: str, names: Sequence[str]) -> tuple[str, str, Any]:
    """Return the strategy to set an option of ("" for all), the option, and the value.

    Raises:
        UsageError: The assignment is malformed, or names a strategy that is not in `names`.
    """
    path, equals, text = assignment.partition("=")
    if not equals:
        raise click.UsageError(f"--set: expected option=value, got '{assignment}'")

    whose, _, option = path.rpartition(".")  # the last dot: `my.module:name.option`
    if whose and whose not in names:
        raise click.UsageError(
            f"--set: expected an option of {' or '.join(names)}, got one of '{whose}'"
            f"{did_you_mean(whose, names)}"
        )
    return whose, option, parse_value(text)
