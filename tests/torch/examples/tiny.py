"""A model that trains quickly, for the examples in this folder. Replace it by your own."""

from __future__ import annotations

from transformers import BertConfig, BertForMaskedLM

import mslm_data as md
from mslm_data.torch import MslmModel


def tiny_model(shards: md.Shards, strategy: md.Strategy, *, dropout: float = 0.1) -> MslmModel:
    """Return a small BERT with the shards' vocabulary, and the loss weights of Eq. 5.

    It is in training mode. Models loaded by `from_pretrained` are not: call `train()`.
    """
    config = BertConfig(
        vocab_size=shards.manifest.token_ids.size,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    masked = strategy.plan(shards["train"].examples()).counts()
    w_elm, w_blm = md.mask_specific_weights(*masked)
    model = MslmModel.wrap(
        BertForMaskedLM(config), labels=shards.labels, w_elm=w_elm, w_blm=w_blm, dropout=dropout
    )
    return model.train()
