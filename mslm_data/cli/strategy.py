"""Makes strategies from the options that `cli.options.strategy_options` declares."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mslm_data.errors import PipelineError
from mslm_data.mask.table import NO_MASKS, default_options
from mslm_data.pipeline import parse_value
from mslm_data.registry import did_you_mean, from_options

if TYPE_CHECKING:
    from mslm_data.api.loading import Shards
    from mslm_data.mask.strategy import Strategy


def make_strategies(
    shards: Shards,
    names: Sequence[str],
    *,
    elm: float | None,
    blm: float | None,
    sets: Sequence[str],
) -> dict[str, Strategy]:
    """Make the strategies of a command, by name.

    Args:
        shards: The folder whose `vocab/` is searched first for lexicons and score columns.
        names: See `options_by_strategy`, as for `elm`, `blm` and `sets`.
        elm: See `names`.
        blm: See `names`.
        sets: See `names`.

    Raises:
        PipelineError: A strategy or option is unknown, a value is wrong, or a rate depends on the
            training step, which commands do not know.
        UsageError: See `options_by_strategy`.
    """
    strategies = {}
    for name, options in options_by_strategy(names, elm=elm, blm=blm, sets=sets).items():
        if _is_own(name):
            strategies[name] = shards.strategy(_made(name, _own(name), options))
        else:
            strategies[name] = shards.strategy(name, **options)
        if strategies[name].follows_training:
            raise PipelineError(
                f"strategy '{name}': its masks depend on the training step or on the tokens seen, "
                "which a command does not know; set a rate to a number, such as that of one phase, "
                "and count the parts of a curriculum one by one"
            )

    return strategies


def options_by_strategy(
    names: Sequence[str], *, elm: float | None, blm: float | None, sets: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Return the options that a command sets for each of its strategies.

    With several strategies, `elm` and `blm` are passed to those that have the option. A single
    strategy without it raises an error when it is made.

    Args:
        names: Registered names, TOML files with a table `[mask]`, or `module:name` of the user's
            own functions or classes.
        elm: Value of the option `elm`; None for the default of each strategy.
        blm: Value of the option `blm`; None for the default of each strategy.
        sets: Other options, `option=value` for all strategies or `NAME.option=value` for one. A
            value is TOML, otherwise a string.

    Raises:
        PipelineError: A strategy is unknown.
        UsageError: A value of `sets` is malformed, names another strategy, or repeats `elm` or
            `blm`.
    """
    rates = {name: value for name, value in (("elm", elm), ("blm", blm)) if value is not None}
    assignments = [_parsed(assignment, names) for assignment in sets]
    for _, option, _ in assignments:
        if option in rates:
            raise click.UsageError(f"--set {option}: cannot be combined with --{option}")

    options: dict[str, dict[str, Any]] = {}
    for name in names:
        known = _known_options(name) if rates and len(names) > 1 else rates
        options[name] = {option: value for option, value in rates.items() if option in known}
        options[name] |= {
            option: value for whose, option, value in assignments if whose in ("", name)
        }
    return options


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


def _own(name: str) -> Any:
    """Import a function or class by `module:name`, also from the working directory.

    Only command-line options can name code. Files cannot, because they may come from others.

    Raises:
        PipelineError: The module or name does not exist, cannot be imported, or is not callable.
    """
    module, _, attribute = name.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        made = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # the user's code may raise anything
        raise PipelineError(
            f"strategy '{name}': expected `module:name` of a function or class that can be "
            f"imported from here, got {type(error).__name__}: {error}"
        ) from error
    finally:
        sys.path.remove(os.getcwd())
    if not callable(made):
        raise PipelineError(
            f"strategy '{name}': expected a function or class that makes a strategy, got "
            f"{type(made).__name__}"
        )
    return made


def _made(name: str, own: Any, options: Mapping[str, Any]) -> Strategy:
    """Call the user's function or class with the options of the command.

    Raises:
        PipelineError: An option is unknown, a value is wrong, or it returns no strategy.
    """
    from mslm_data.mask.strategy import Strategy

    try:
        made: Any = from_options(own, options, where=f"strategy '{name}'")
    except (NameError, TypeError) as error:  # its annotations and its body are the user's
        raise PipelineError(f"strategy '{name}': {error}") from None
    if not isinstance(made, Strategy):
        raise PipelineError(
            f"strategy '{name}': expected a strategy, as md.strategy(...) makes one or a class of "
            f"md.Strategy, got {type(made).__name__}"
        )
    return made


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
