"""Makes strategies from the options of a command; `cli.options.strategy_options` declares them."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from mslm_data.errors import PipelineError
from mslm_data.mask import NO_MASKS, default_options
from mslm_data.pipeline import parse_value
from mslm_data.registry import did_you_mean

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
    """Make the strategies that a command's options ask for, by their names.

    Where there are several, `elm` and `blm` go to those that have such an option.

    Args:
        shards: Where lexicons and score columns are looked for first.
        names: Registered names, TOML files with a table `[mask]`, or `module:name` of functions or
            classes of the user's own.
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
        own = _own(name) if _is_own(name) else None
        if len(names) > 1 and not name.endswith(".toml") and name not in NO_MASKS:
            known = default_options(name) if own is None else inspect.signature(own).parameters
            options = {option: value for option, value in options.items() if option in known}

        for whose, option, value in assignments:
            if whose in ("", name):
                options[option] = value

        if own is None:
            strategies[name] = shards.strategy(name, **options)
        else:
            strategies[name] = shards.strategy(_made(name, own, options))
        if strategies[name].follows_training:
            raise PipelineError(
                f"strategy '{name}': expected rates that stay or follow the epoch, got one that "
                "follows the steps or tokens of training, which a command does not know; set it to "
                "a number, such as the rate of one phase"
            )

    return strategies


def _is_own(name: str) -> bool:
    """Return whether a name is `module:name`, of code that the user names."""
    return ":" in name and not name.endswith(".toml")


def _own(name: str) -> Any:
    """Import a function or class by `module:name`; modules in the working folder are found too.

    Only a command's own option can name one. Files cannot, as they may come from others.

    Raises:
        PipelineError: No such module or name in it, or one that cannot be called.
    """
    module, _, attribute = name.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        made = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise PipelineError(
            f"strategy '{name}': expected `module:name` of a function or class that can be "
            f"imported from here, got {type(error).__name__}: {error}"
        ) from None
    finally:
        sys.path.remove(os.getcwd())
    if not callable(made):
        raise PipelineError(
            f"strategy '{name}': expected a function or class that makes a strategy, got "
            f"{type(made).__name__}"
        )
    return made


def _made(name: str, own: Any, options: Mapping[str, Any]) -> Strategy:
    """Call a function or class of the user's own with the options of the command.

    Raises:
        PipelineError: An option is unknown, a value is refused, or it returns something else.
    """
    from mslm_data.mask.strategy import Strategy

    known = inspect.signature(own).parameters
    for option in options:
        if option not in known:
            raise PipelineError(
                f"strategy '{name}': unknown option '{option}'{did_you_mean(option, known)}"
            )
    try:
        made = own(**options)
    except (TypeError, ValueError) as error:
        raise PipelineError(f"strategy '{name}': {error}") from None
    if not isinstance(made, Strategy):
        raise PipelineError(
            f"strategy '{name}': expected a strategy, as md.strategy(...) makes one or a class of "
            f"md.Strategy, got {type(made).__name__}"
        )
    return made


def _parsed(assignment: str, names: Sequence[str]) -> tuple[str, str, Any]:
    """Return whose option is set ("" for all), the option, and the value.

    Raises:
        UsageError: Not of that form, or of a strategy that is not among `names`.
    """
    path, equals, text = assignment.partition("=")
    if not equals:
        raise click.UsageError(f"--set: expected option=value, got '{assignment}'")

    whose, _, option = path.rpartition(".")  # of `my.module:name.option` too
    if whose and whose not in names:
        raise click.UsageError(
            f"--set: expected an option of {' or '.join(names)}, got one of '{whose}'"
            f"{did_you_mean(whose, names)}"
        )
    return whose, option, parse_value(text)
