"""Shards into any trainer: dataset, collator, the weighted loss, the heads and the metrics.

The only place that imports torch.
"""

from __future__ import annotations

import importlib
from typing import Any

from mslm_data import _optional

_PUBLIC: dict[str, str] = {
    "MaskedDataset": "mslm_data.torch.dataset:MaskedDataset",
    "MaskedLoader": "mslm_data.torch.loader:MaskedLoader",
    "MaskingCollator": "mslm_data.torch.collate:MaskingCollator",
    "MaskEpochCallback": "mslm_data.torch.callbacks:MaskEpochCallback",
    "ShardSampler": "mslm_data.torch.sampler:ShardSampler",
    "evaluate": "mslm_data.torch.metrics:evaluate",
    "perplexity": "mslm_data.torch.metrics:perplexity",
    "Perplexity": "mslm_data.torch.metrics:Perplexity",
    "mention_confidence": "mslm_data.torch.confidence:mention_confidence",
    "MentionConfidence": "mslm_data.torch.confidence:MentionConfidence",
    "confidence_heatmap": "mslm_data.torch.heatmap:confidence_heatmap",
    "MaskSpecificLoss": "mslm_data.torch.loss:MaskSpecificLoss",
    "ReleasedLoss": "mslm_data.torch.loss:ReleasedLoss",
    "EntityDetectionHead": "mslm_data.torch.heads:EntityDetectionHead",
    "EntityClassificationHead": "mslm_data.torch.heads:EntityClassificationHead",
    "decode_spans": "mslm_data.torch.spans:decode_spans",
    "pool_spans": "mslm_data.torch.spans:pool_spans",
    "MslmConfig": "mslm_data.torch.config:MslmConfig",
    "MslmModel": "mslm_data.torch.model:MslmModel",
    "Prediction": "mslm_data.torch.output:Prediction",
    "MslmTrainer": "mslm_data.torch.trainer:MslmTrainer",
    "count_items": "mslm_data.torch.steps:count_items",
}
"""Name -> "module:attribute"."""

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'mslm_data.torch' has no attribute '{name}'")
    _optional.load("torch", wanted_by=f"mslm_data.torch.{name}")
    module, attribute = _PUBLIC[name].split(":")
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(_PUBLIC)
