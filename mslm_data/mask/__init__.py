"""Masking: which tokens are predicted and why, then what the model sees in their place.

docs/one_row.md follows one sentence through this folder, with the numbers of each step.
`table.py` has the shipped strategies, `recipes/` their picks, `pick.py` says what a pick is, and
`strategy.py` what a strategy is. The function `strategy` is imported from `table.py`: a name here
would be taken by the module. A strategy of your own is a class derived from `md.Strategy`, which
makes a `MaskPlan` of `MaskKind`s: docs/own_strategy.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mslm_data.mask.table import (
    NO_MASKS,
    SHIPPED,
    STRATEGIES,
    default_options,
    make,
    strategies,
    summary,
)

if TYPE_CHECKING:
    from mslm_data.mask.plan import MaskKind, MaskPlan
    from mslm_data.mask.rng import RowRng

__all__ = [
    "NO_MASKS",
    "SHIPPED",
    "STRATEGIES",
    "MaskKind",
    "MaskPlan",
    "RowRng",
    "default_options",
    "make",
    "strategies",
    "summary",
]

if not TYPE_CHECKING:
    # Numba takes most of a second to import, which a listing of names does not need.
    _MODULES = {
        "RowRng": "mslm_data.mask.rng",
        "MaskKind": "mslm_data.mask.plan",
        "MaskPlan": "mslm_data.mask.plan",
    }

    def __getattr__(name: str) -> Any:
        """Import the parts of a strategy of one's own on first use."""
        if name not in _MODULES:
            raise AttributeError(f"module 'mslm_data.mask' has no attribute '{name}'")
        return getattr(importlib.import_module(_MODULES[name]), name)
