"""Preprocessing and masking for Mask-Specific Language Modeling (Abaho et al., NAACL 2024)."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "Batches": "mslm_data.batches.batches:Batches",
    "examples": "mslm_data.data.examples:examples",
    "load": "mslm_data.loading:load",
    "strategy": "mslm_data.mask:strategy",
    "strategies": "mslm_data.mask:strategies",
    "mask_specific_weights": "mslm_data.stats:mask_specific_weights",
    "MslmDataError": "mslm_data.errors:MslmDataError",
}

__all__ = [
    "Batches",
    "MslmDataError",
    "__version__",
    "examples",
    "load",
    "mask_specific_weights",
    "strategies",
    "strategy",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for on first use, so that `import mslm_data` costs nothing."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'mslm_data' has no attribute '{name}'")
    module, attribute = _PUBLIC[name].split(":")
    value = getattr(importlib.import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
