"""Everything that training needs: dataset, loader, collator, loss, heads, model and metrics.

Only this package imports torch. Each name is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mslm_data import _optional

__all__ = [
    "EntityClassificationHead",
    "EntityDetectionHead",
    "LossSum",
    "MaskEpochCallback",
    "MaskSpecificLoss",
    "MaskedDataset",
    "MaskingCollator",
    "MentionConfidence",
    "MslmConfig",
    "MslmModel",
    "MslmTrainer",
    "Perplexity",
    "Prediction",
    "ReleasedLoss",
    "SoftMasks",
    "confidence_heatmap",
    "contrast",
    "count_items",
    "decode_spans",
    "encoder_inputs",
    "evaluate",
    "general_knowledge_loss",
    "head_importance",
    "mention_confidence",
    "perplexity",
    "pool_spans",
]

if TYPE_CHECKING:
    from mslm_data.torch.callbacks import MaskEpochCallback
    from mslm_data.torch.collate import MaskingCollator
    from mslm_data.torch.confidence import MentionConfidence, mention_confidence
    from mslm_data.torch.config import MslmConfig
    from mslm_data.torch.dataset import MaskedDataset
    from mslm_data.torch.general_knowledge import (
        SoftMasks,
        contrast,
        general_knowledge_loss,
        head_importance,
    )
    from mslm_data.torch.heads import EntityClassificationHead, EntityDetectionHead
    from mslm_data.torch.heatmap import confidence_heatmap
    from mslm_data.torch.loss import LossSum, MaskSpecificLoss, ReleasedLoss
    from mslm_data.torch.metrics import Perplexity, evaluate, perplexity
    from mslm_data.torch.model import MslmModel
    from mslm_data.torch.output import Prediction
    from mslm_data.torch.packed import encoder_inputs
    from mslm_data.torch.ranges import decode_spans, pool_spans
    from mslm_data.torch.steps import count_items
    from mslm_data.torch.trainer import MslmTrainer
else:
    # Hidden from type checkers, to whom a module with `__getattr__` has every name, each of type
    # Any.
    _MODULES = {
        "EntityClassificationHead": "mslm_data.torch.heads",
        "EntityDetectionHead": "mslm_data.torch.heads",
        "LossSum": "mslm_data.torch.loss",
        "MaskEpochCallback": "mslm_data.torch.callbacks",
        "MaskSpecificLoss": "mslm_data.torch.loss",
        "MaskedDataset": "mslm_data.torch.dataset",
        "MaskingCollator": "mslm_data.torch.collate",
        "MentionConfidence": "mslm_data.torch.confidence",
        "MslmConfig": "mslm_data.torch.config",
        "MslmModel": "mslm_data.torch.model",
        "MslmTrainer": "mslm_data.torch.trainer",
        "Perplexity": "mslm_data.torch.metrics",
        "Prediction": "mslm_data.torch.output",
        "ReleasedLoss": "mslm_data.torch.loss",
        "SoftMasks": "mslm_data.torch.general_knowledge",
        "confidence_heatmap": "mslm_data.torch.heatmap",
        "contrast": "mslm_data.torch.general_knowledge",
        "count_items": "mslm_data.torch.steps",
        "decode_spans": "mslm_data.torch.ranges",
        "encoder_inputs": "mslm_data.torch.packed",
        "evaluate": "mslm_data.torch.metrics",
        "general_knowledge_loss": "mslm_data.torch.general_knowledge",
        "head_importance": "mslm_data.torch.general_knowledge",
        "mention_confidence": "mslm_data.torch.confidence",
        "perplexity": "mslm_data.torch.metrics",
        "pool_spans": "mslm_data.torch.ranges",
    }

    def __getattr__(name: str) -> Any:
        """Import a public name on first use, or say how to install torch."""
        if name not in _MODULES:
            raise AttributeError(f"module 'mslm_data.torch' has no attribute '{name}'")
        _optional.load("torch", wanted_by=f"mslm_data.torch.{name}")

        value = getattr(importlib.import_module(_MODULES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
