"""Train with PyTorch: loader, collator, loss, heads, model, trainer and metrics.

Only this package imports torch. Each name is imported when it is first used, since the command
reads the options of annotators in `predict/` without torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mslm_data import _optional

__all__ = [
    "EntityClassificationHead",
    "EntityDetectionHead",
    "MaskEpochCallback",
    "MaskSpecificLoss",
    "MaskedDataset",
    "MaskingCollator",
    "MslmModel",
    "MslmTrainer",
    "count_tokens",
    "diffusion_bound",
    "encoder_inputs",
    "evaluate",
    "loss_weights",
    "mention_confidence",
    "perplexity",
    "weighted_loss",
]

if TYPE_CHECKING:
    from mslm_data.torch.data.collator import MaskingCollator
    from mslm_data.torch.data.loader import MaskedDataset
    from mslm_data.torch.model.callbacks import MaskEpochCallback
    from mslm_data.torch.model.flat import encoder_inputs
    from mslm_data.torch.model.heads import EntityClassificationHead, EntityDetectionHead
    from mslm_data.torch.model.loss import MaskSpecificLoss, weighted_loss
    from mslm_data.torch.model.model import MslmModel
    from mslm_data.torch.model.steps import count_tokens, loss_weights
    from mslm_data.torch.model.trainer import MslmTrainer
    from mslm_data.torch.predict.bound import diffusion_bound
    from mslm_data.torch.predict.confidence import mention_confidence
    from mslm_data.torch.predict.metrics import evaluate, perplexity
else:
    # Hidden from type checkers, to whom a module with `__getattr__` has every name.
    _MODULES = {
        "EntityClassificationHead": "mslm_data.torch.model.heads",
        "EntityDetectionHead": "mslm_data.torch.model.heads",
        "MaskEpochCallback": "mslm_data.torch.model.callbacks",
        "MaskSpecificLoss": "mslm_data.torch.model.loss",
        "MaskedDataset": "mslm_data.torch.data.loader",
        "MaskingCollator": "mslm_data.torch.data.collator",
        "MslmModel": "mslm_data.torch.model.model",
        "MslmTrainer": "mslm_data.torch.model.trainer",
        "count_tokens": "mslm_data.torch.model.steps",
        "diffusion_bound": "mslm_data.torch.predict.bound",
        "encoder_inputs": "mslm_data.torch.model.flat",
        "evaluate": "mslm_data.torch.predict.metrics",
        "loss_weights": "mslm_data.torch.model.steps",
        "mention_confidence": "mslm_data.torch.predict.confidence",
        "perplexity": "mslm_data.torch.predict.metrics",
        "weighted_loss": "mslm_data.torch.model.loss",
    }

    def __getattr__(name: str) -> Any:
        """Import a public name on first use; without torch, say how to install it."""
        if name not in _MODULES:
            raise AttributeError(f"module 'mslm_data.torch' has no attribute '{name}'")
        _optional.load("torch", wanted_by=f"mslm_data.torch.{name}")

        value = getattr(importlib.import_module(_MODULES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
