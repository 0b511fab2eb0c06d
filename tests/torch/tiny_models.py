"""Checkpoints that train quickly, instead of downloads from the hub."""

from __future__ import annotations

from pathlib import Path

from transformers import BertConfig, BertForMaskedLM

import mslm_data as md


def save_tiny_bert(shards: md.Shards, folder: Path) -> Path:
    """Save a small BERT with the shards' vocabulary, for `from_pretrained`."""
    config = BertConfig(
        vocab_size=shards.manifest.token_ids.size,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
    )
    BertForMaskedLM(config).save_pretrained(folder)
    return folder
