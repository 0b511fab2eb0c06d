"""Masking: which tokens are predicted and why, then what the model sees in their place.

`table.py` has the shipped strategies, `recipes/` their picks, `pick.py` says what a pick is, and
`strategy.py` what a strategy is. The function `strategy` is imported from `table.py`: a name here
would be taken by the module.
"""

from mslm_data.mask.table import (
    NO_MASKS,
    SHIPPED,
    STRATEGIES,
    make,
    options_of,
    strategies,
    summary,
)

__all__ = [
    "NO_MASKS",
    "SHIPPED",
    "STRATEGIES",
    "make",
    "options_of",
    "strategies",
    "summary",
]
