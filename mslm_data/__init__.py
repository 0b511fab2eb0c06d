"""Preprocessing and masking for Mask-Specific Language Modeling (Abaho et al., NAACL 2024).

Each public name is imported when it is first used, so that `import mslm_data` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mslm_data._version import __version__

__all__ = [
    "Batches",
    "MslmDataError",
    "Shards",
    "Split",
    "Strategy",
    "__version__",
    "build",
    "build_part",
    "examples",
    "load",
    "mask_specific_weights",
    "mix",
    "scaled_weights",
    "show",
    "strategies",
    "strategy",
]

if TYPE_CHECKING:
    from mslm_data.api.building import build, build_part
    from mslm_data.api.loading import Shards, load
    from mslm_data.api.mixing import mix
    from mslm_data.api.showing import show
    from mslm_data.batches.batches import Batches
    from mslm_data.data.examples import examples
    from mslm_data.errors import MslmDataError
    from mslm_data.mask.strategy import Strategy
    from mslm_data.mask.table import strategies, strategy
    from mslm_data.shard.split import Split
    from mslm_data.stats import mask_specific_weights, scaled_weights
else:
    # Hidden from type checkers, to whom a module with `__getattr__` has every name, each of type
    # Any.
    _MODULES = {
        "Batches": "mslm_data.batches.batches",
        "MslmDataError": "mslm_data.errors",
        "Shards": "mslm_data.api.loading",
        "Split": "mslm_data.shard.split",
        "Strategy": "mslm_data.mask.strategy",
        "build": "mslm_data.api.building",
        "build_part": "mslm_data.api.building",
        "examples": "mslm_data.data.examples",
        "load": "mslm_data.api.loading",
        "mask_specific_weights": "mslm_data.stats",
        "mix": "mslm_data.api.mixing",
        "scaled_weights": "mslm_data.stats",
        "show": "mslm_data.api.showing",
        "strategies": "mslm_data.mask.table",
        "strategy": "mslm_data.mask.table",
    }

    def __getattr__(name: str) -> Any:
        """Import a public name on first use."""
        if name not in _MODULES:
            raise AttributeError(f"module 'mslm_data' has no attribute '{name}'")

        value = getattr(importlib.import_module(_MODULES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
