"""Masking: choose the tokens to predict, then replace them in the input.

docs/one_row.md follows one sentence through this folder, with numbers. `table.py` lists the shipped
strategies, `recipes/` defines their picks, `pick.py` defines a pick, and `strategy.py` a strategy.
Import the function `strategy` from `table.py`: here its name would clash with the module.

For your own strategy, derive a class from `md.Strategy` that makes a `MaskPlan` of `MaskKind`s, see
docs/own_strategy.md.
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
    # Importing numba takes most of a second. Listing the names of strategies does not need it.
    _MODULES = {
        "RowRng": "mslm_data.mask.rng",
        "MaskKind": "mslm_data.mask.plan",
        "MaskPlan": "mslm_data.mask.plan",
    }

    def __getattr__(name: str) -> Any:
        """Import `RowRng`, `MaskKind` or `MaskPlan` on first use."""
        if name not in _MODULES:
            raise AttributeError(f"module 'mslm_data.mask' has no attribute '{name}'")
        return getattr(importlib.import_module(_MODULES[name]), name)
