"""Masking: choose the tokens to predict, then replace them in the input.

docs/one_row.md follows one sentence through this folder, with numbers. `table.py` lists the shipped
strategies, `recipes/` defines their picks, `pick.py` defines a pick, and `strategy.py` a strategy.

For your own strategy, derive a class from `md.Strategy` that makes a `MaskPlan` of `MaskKind`s, see
docs/masking.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mslm_data.mask.plan import MaskKind, MaskPlan
    from mslm_data.mask.rng import RowRng

__all__ = ["MaskKind", "MaskPlan", "RowRng"]

if not TYPE_CHECKING:
    # Importing numba takes most of a second. Listing the names of strategies does not need it.
    def __getattr__(name: str) -> Any:
        """Import `RowRng`, `MaskKind` or `MaskPlan` on first use."""
        if name not in __all__:
            raise AttributeError(f"module 'mslm_data.mask' has no attribute '{name}'")
        module = "rng" if name == "RowRng" else "plan"
        return getattr(importlib.import_module(f"mslm_data.mask.{module}"), name)
