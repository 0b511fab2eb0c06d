"""Fast path of the most common picks: kernels that do all steps in one pass over the rows.

A function here runs a pick if its kernel applies, and returns whether it did. Otherwise the pick
lists the eligible units, and its order takes units from the list. Both paths mask the same tokens
with the same random numbers. The fast path takes 0.7 of the time, as it writes no intermediate
arrays.

| kernel | order | budget | eligible |
|---|---|---|---|
| `mask_tokens` | uniform | of tokens or units, exact | tokens that no pick has masked |
| `mask_units` | uniform | of units, exact, no minimum | all units, in the first pick |
| `mask_weighted` | weighted | of units | any |

A budget is exact if its rate is a single number and it has no random rounding, gate or `total`.
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

    # `mask_units` checks no eligibility, so every unit must be eligible.
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
    """Draw units by weight and mask them if each costs 1, and return whether it did.

    Args:
        pick: The pick.
        examples: N rows.
        units: The pick's units, or None for single tokens.
        eligible: uint8 `[U]`, 1 for eligible units.
        score: float64 `[U]`, the weights.
        budget: int64 `[N]`, reduced to the unspent budget.
        rng: Random numbers of the pick.
        builder: Written: kinds and unspent budget.
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
