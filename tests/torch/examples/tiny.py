"""A model that is quick to train, for the examples beside this file; put your own in its place."""

from __future__ import annotations

from transformers import BertConfig, BertForMaskedLM

import mslm_data as md
from mslm_data.torch import MslmModel


def tiny_model(shards: md.Shards, strategy: md.Strategy) -> MslmModel:
    """Return a small BERT over the shards' vocabulary, with the loss weights that follow from what is masked."""
    config = BertConfig(
        vocab_size=shards.manifest.token_ids.size,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
    )
    masked = strategy.plan(shards["train"].examples()).counts()
    w_elm, w_blm = md.mask_specific_weights(*masked)
    return MslmModel.wrap(
        BertForMaskedLM(config), labels=shards.labels, w_elm=w_elm, w_blm=w_blm, two_views=True
    )
