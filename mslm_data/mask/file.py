"""Read strategies from tables: of a TOML file, or nested in the options of another strategy.

A table has the name and options of a shipped strategy, or the parts of a recipe:

    [mask]
    use = "joint"
    elm = 0.5

    [mask]
    corruption = "80-10-10"
    picks = [
        { units = "mentions", budget = { rate = 0.4 }, kind = "entity" },
        { units = "words", budget = { rate = 0.12, rounding = "random" } },
    ]
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from mslm_data.errors import PipelineError
from mslm_data.mask.budget import Budget
from mslm_data.mask.combined_picks import Bernoulli, ByEpoch, Hints, OneOf, WithoutMentions
from mslm_data.mask.corruption import Corruption
from mslm_data.mask.listed_picks import InOrder, Occurrences, Scattered
from mslm_data.mask.orders import Order
from mslm_data.mask.pick import AnyPick, Eligible, Listed, Pick
from mslm_data.mask.rate import Schedule
from mslm_data.mask.score import Score
from mslm_data.mask.span_picks import GrowSpans, PlaceSpans
from mslm_data.mask.strategy import Recipe
from mslm_data.registry import did_you_mean, from_options

PICKS: dict[str, type[AnyPick]] = {
    kind.tag: kind
    for kind in (
        Pick,
        PlaceSpans,
        GrowSpans,
        InOrder,
        Scattered,
        Occurrences,
        OneOf,
        ByEpoch,
        WithoutMentions,
        Hints,
        Bernoulli,
    )
}
"""Value of `use` in the table of a pick -> class. Default: `Pick`."""

PARTS: dict[str, type] = {
    "budget": Budget,
    "eligible": Eligible,
    "order": Order,
    "order.score": Score,
    "units": Listed,
    "rate": Schedule,
    "corruption": Corruption,
}
"""Path of a nested table -> class."""


def read_table(path: Path) -> dict[str, Any]:
    """Read the table `[mask]` of a TOML file.

    Raises:
        PipelineError: The file is missing, is not TOML, or has no table `[mask]`.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PipelineError(f"{path}: file not found; expected TOML with a table [mask]") from None
    except (OSError, ValueError, RecursionError) as error:
        raise PipelineError(f"{path}: expected TOML: {error}") from None

    mask = tables.get("mask")
    if not isinstance(mask, dict):
        raise PipelineError(f"{path}: expected a table [mask] with 'use' or 'picks', got none")
    return mask


def parse_recipe(table: Mapping[str, Any], *, where: str) -> Recipe:
    """Make a recipe from a table.

    Args:
        table: `picks` and `corruption`. Default of `corruption`: `mask`.
        where: Prefix of error messages.

    Raises:
        PipelineError: A name is unknown at any depth, or a value has the wrong type or is invalid.
    """
    for name in table:
        if name not in ("picks", "corruption"):
            near = did_you_mean(name, ["picks", "corruption"])
            raise PipelineError(f"{where}: unknown option '{name}'{near}")

    picks = parse_picks(table.get("picks"), where=f"{where}: picks")
    corruption = parse_corruption(table.get("corruption", "mask"), where=f"{where}: corruption")
    try:
        return Recipe(picks, corruption)
    except ValueError as error:
        raise PipelineError(f"{where}: {error}") from None


def parse_corruption(value: Any, *, where: str) -> Corruption:
    """Make a corruption from a string of percentages or a table.

    Raises:
        PipelineError: The value has another type, a name is unknown, or the percentages do not sum
            to 100.
    """
    if isinstance(value, Corruption):
        return value
    table = {"shares": value} if isinstance(value, str) else value
    if not isinstance(table, Mapping):
        raise PipelineError(
            f"{where}: expected shares such as '80-10-10' or a table, got {value!r}"
        )
    return from_options(Corruption, table, where=where)


def parse_picks(value: Any, *, where: str) -> tuple[AnyPick, ...]:
    """Make picks from a list of tables. `Pick` objects are returned unchanged.

    Raises:
        PipelineError: The value is not a list of tables, or a table is no valid pick.
    """
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise PipelineError(f"{where}: expected a list of tables, got {type(value).__name__}")
    return tuple(parse_pick(table, where=f"{where}[{n}]") for n, table in enumerate(value))


def parse_pick(table: Any, *, where: str) -> AnyPick:
    """Make a pick from a table. A `Pick` object is returned unchanged.

    Raises:
        PipelineError: The value is not a table, a name is unknown at any depth, or a value is
            invalid.
    """
    if isinstance(table, tuple(PICKS.values())):
        return cast(AnyPick, table)
    if not isinstance(table, Mapping):
        raise PipelineError(f"{where}: expected a table, got {type(table).__name__}")

    tag = table.get("use", Pick.tag)
    if tag not in PICKS:
        raise PipelineError(f"{where}: unknown pick {tag!r}{did_you_mean(str(tag), list(PICKS))}")

    # Nested picks are made first. `from_options` accepts values that are made already.
    options = {name: value for name, value in table.items() if name != "use"}
    if "pick" in options:
        options["pick"] = parse_pick(options["pick"], where=f"{where}.pick")
    if isinstance(options.get("ways"), Sequence):
        options["ways"] = tuple(
            parse_picks(way, where=f"{where}.ways[{n}]") for n, way in enumerate(options["ways"])
        )
    return from_options(PICKS[tag], options, where=where, also=["use"])
