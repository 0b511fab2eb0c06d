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
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from mslm_data.errors import PipelineError
from mslm_data.mask.budget import Budget
from mslm_data.mask.corruption import Corruption
from mslm_data.mask.orders import Order
from mslm_data.mask.pick import Eligible, Listed
from mslm_data.mask.rate import Cosine, Linear, Phases, Uniform
from mslm_data.mask.score import Score
from mslm_data.mask.strategy import ShippedPick
from mslm_data.registry import Options

PICKS: dict[str, type[Options]] = {
    str(kind.__struct_config__.tag): kind for kind in get_args(ShippedPick)
}
"""Value of `use` in the table of a pick -> class. Default of `use`: `units`."""

PARTS: dict[str, type[Options]] = {
    "budget": Budget,
    "eligible": Eligible,
    "order": Order,
    "order.score": Score,
    "units": Listed,
    **{
        f'rate = {{shape = "{shape.__struct_config__.tag}"}}': shape
        for shape in (Linear, Cosine, Uniform, Phases)
    },
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


def complete_recipe(table: Mapping[str, Any]) -> dict[str, Any]:
    """Write out what a table of a recipe may leave out, as the options of `Recipe`.

    A pick without `use` is a pick of units. A corruption may be its shares alone.
    """
    completed = dict(table)
    picks = table.get("picks")
    if isinstance(picks, list | tuple):
        completed["picks"] = [
            {"use": "units", **pick} if isinstance(pick, Mapping) else pick for pick in picks
        ]
    if isinstance(table.get("corruption"), str):
        completed["corruption"] = {"shares": table["corruption"]}
    return completed
