"""Kernels that do all steps of the most common picks in one pass over the rows.

A function here runs a pick if its kernel applies, and returns whether it did. Otherwise the pick
lists the eligible units, and its order takes from the list. Both ways mask the same tokens with the
same random numbers; the single pass takes 0.7 of the time, as it writes no arrays in between.

| kernel | order | budget | eligible |
|---|---|---|---|
| `mask_tokens` | uniform | of tokens or units, exact | tokens that no pick has masked |
| `mask_units` | uniform | of units, exact, no minimum | all units, in the first pick |
| `mask_weighted` | weighted | of units | any |

A budget is exact if its rate is one number, and neither random rounding, a gate nor `total` changes
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array
from mslm_data.kernels.mask_units import mask_tokens, mask_units, mask_weighted
from mslm_data.mask.plan import PlanBuilder
from mslm_data.mask.rate import rate_at
from mslm_data.mask.rng import RowRng
from mslm_data.mask.units import Units

if TYPE_CHECKING:
    from mslm_data.mask.pick import Pick


def mask_uniform(
    pick: Pick, examples: Examples, units: Units | None, rng: RowRng, builder: PlanBuilder
) -> bool:
    """Mask units in uniform order if a kernel applies, and return whether it did."""
    budget = pick.budget
    is_exact = budget.gate == 1 and budget.rounding != "random" and not budget.total
    if pick.order.by != "uniform" or pick.eligible.where != "any" or not is_exact:
        return False
    rate = rate_at(budget.rate, rng)
    if not isinstance(rate, float | int):
        return False

    if units is None and budget.counts != "all tokens":
        _mask_tokens(pick, examples, rate, rng, builder)
        return True

    # The kernel can take every unit, so none may be masked or excluded.
    all_free = (
        builder.untouched and pick.eligible.excludes_nothing and builder.continues_unit is None
    )
    is_plain = budget.counts == "units" and not budget.min_masked and builder.continues_unit is None
    if units is not None and all_free and is_plain:
        _mask_units(pick, examples, units, rate, rng, builder)
        return True
    return False


def _mask_tokens(
    pick: Pick, examples: Examples, rate: float, rng: RowRng, builder: PlanBuilder
) -> None:
    ids = examples.input_ids
    budgets = pick.budget.table(rate, int(ids.lengths.max(initial=0)))
    mask_tokens(
        ids.offsets,
        examples.word_ids.values,
        ids.values,
        -1 if pick.eligible.unknown else examples.ids.unk,
        budgets,
        rng.streams(),
        pick.mask_kind,
        np.empty(len(budgets), np.uint8),
        np.empty(len(budgets), np.int32),
        builder.kinds,
        builder.unspent,
    )


def _mask_units(
    pick: Pick, examples: Examples, units: Units, rate: float, rng: RowRng, builder: PlanBuilder
) -> None:
    starts = units.starts
    budgets = pick.budget.table(rate, int(starts.lengths.max(initial=0)))
    mask_units(
        examples.input_ids.offsets,
        starts.offsets,
        starts.values,
        units.ends.values,
        budgets,
        rng.streams(),
        pick.mask_kind,
        np.empty(len(budgets), np.int32),
        builder.kinds,
    )


def mask_weighted_units(
    pick: Pick,
    examples: Examples,
    units: Units | None,
    eligible: Array,
    score: Array | None,
    budget: Array,
    rng: RowRng,
    builder: PlanBuilder,
) -> bool:
    """Draw units by weight and mask them if each costs one, and return whether it did.

    Args:
        pick: The pick.
        examples: N rows.
        units: Its units; None where it masks single tokens.
        eligible: uint8 `[U]`, which of them can be masked.
        score: float64 `[U]`, their weights.
        budget: int64 `[N]`; reduced to the unspent rest.
        rng: Draws for the pick.
        builder: Updated.
    """
    draws_units = pick.order.by == "weighted" and pick.budget.counts == "units"
    if units is None or score is None or not draws_units or builder.continues_unit is not None:
        return False

    mask_weighted(
        examples.input_ids.offsets,
        units.starts.offsets,
        units.starts.values,
        units.ends.values,
        eligible,
        score,
        budget,
        rng.streams(),
        pick.mask_kind,
        builder.kinds,
    )
    builder.unspent += budget
    return True
