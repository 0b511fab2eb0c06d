"""Train with PyTorch: loader, collator, loss, model, trainer and metrics.

Only this package imports torch. Names that need transformers are imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mslm_data import _optional

# Without torch, says how to install it.
_optional.load("torch", wanted_by="mslm_data.torch")

from mslm_data.torch.data.collator import MaskingCollator
from mslm_data.torch.data.loader import MaskedDataset
from mslm_data.torch.model.heads import EntityClassificationHead, EntityDetectionHead
from mslm_data.torch.model.loss import MaskSpecificLoss
from mslm_data.torch.model.steps import count_tokens, loss_weights
from mslm_data.torch.predict.bound import diffusion_bound
from mslm_data.torch.predict.confidence import mention_confidence
from mslm_data.torch.predict.metrics import evaluate, perplexity

if TYPE_CHECKING:
    from mslm_data.torch.model.callbacks import MaskEpochCallback
    from mslm_data.torch.model.flat import encoder_inputs
    from mslm_data.torch.model.model import MslmModel
    from mslm_data.torch.model.trainer import MslmTrainer
else:
    # Hidden from type checkers, to whom a module with `__getattr__` has every name.
    _WITH_TRANSFORMERS = {
        "MaskEpochCallback": "callbacks",
        "MslmModel": "model",
        "MslmTrainer": "trainer",
        "encoder_inputs": "flat",
    }

    def __getattr__(name: str) -> Any:
        if name not in _WITH_TRANSFORMERS:
            raise AttributeError(f"module 'mslm_data.torch' has no attribute '{name}'")
        module = importlib.import_module(f"mslm_data.torch.model.{_WITH_TRANSFORMERS[name]}")
        return getattr(module, name)


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
]
