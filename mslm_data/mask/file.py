"""Strategies from tables: of a TOML file, or of the options of a strategy that is made of others.

A table either names a shipped strategy and its options, or spells out a recipe:

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
"""Value of `use` in the table of a pick -> its class. Default: `Pick`."""

PARTS: dict[str, type] = {
    "budget": Budget,
    "eligible": Eligible,
    "order": Order,
    "order.score": Score,
    "units": Listed,
    "rate": Schedule,
    "corruption": Corruption,
}
"""Place of a table within a strategy's -> what it describes."""


def read_table(path: Path) -> dict[str, Any]:
    """Return the table `[mask]` of a TOML file.

    Raises:
        PipelineError: The file is missing, is not TOML, or has no table `[mask]`.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PipelineError(f"{path}: expected a file with a table [mask], found none") from None
    except (OSError, ValueError, RecursionError) as error:
        raise PipelineError(f"{path}: expected TOML: {error}") from None

    mask = tables.get("mask")
    if not isinstance(mask, dict):
        raise PipelineError(f"{path}: expected a table [mask] with 'use' or 'picks', found none")
    return mask


def parse_recipe(table: Mapping[str, Any], *, where: str) -> Recipe:
    """Return the recipe that a table spells out.

    Args:
        table: `picks`, and `corruption` if it is not `mask`.
        where: Start of each message.

    Raises:
        PipelineError: An unknown name at any depth, a wrong type, or a value that a part refuses.
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
    """Return the corruption that a string of shares, or a table, describes.

    Raises:
        PipelineError: Something else, an unknown name, or shares that do not sum to 100.
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
    """Return the picks of a list of tables; picks that are made already pass.

    Raises:
        PipelineError: Not a list of tables, or a table that is not a pick.
    """
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise PipelineError(f"{where}: expected a list of tables, got {type(value).__name__}")
    return tuple(parse_pick(table, where=f"{where}[{n}]") for n, table in enumerate(value))


def parse_pick(table: Any, *, where: str) -> AnyPick:
    """Return the pick that a table describes; a pick that is made already passes.

    Raises:
        PipelineError: Not a table, an unknown name at any depth, or a value that the pick refuses.
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
