r"""Train a small masked diffusion model on notes, and compare its bound on -log p with a unigram's.

    mslm-data build --source mimic --sample --out shards/notes
    python examples/masked_diffusion.py shards/notes mentions model

A mask rate is drawn for each row and epoch, and the loss is divided by it. Units are `tokens`,
`words` or `mentions`. The program prints nats per token on the validation split, over all tokens,
over tokens in mentions, and over the others.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import torch
from transformers import ModernBertConfig, ModernBertForMaskedLM

import mslm_data as md
from mslm_data.torch import MaskedDataset, MslmModel, diffusion_bound


def main(folder: str, units: Any, out: str = "", epochs: str = "40") -> None:
    """Train, and print the bounds as JSON.

    Args:
        folder: Shard folder with the splits train and validation.
        units: Masking units: "tokens", "words" or "mentions".
        out: Folder to save the model to. Default: not saved.
        epochs: Number of epochs. Default: 40.
    """
    # [start:batches]
    shards = md.load(folder)
    strategy = md.strategy("diffusion", units=units, complement=True)
    rows = MaskedDataset(shards["train"], strategy, seed=7)
    loader = rows.loader(batch_tokens=1024)
    # [end:batches]

    # [start:model]
    torch.manual_seed(7)
    model = MslmModel.wrap(
        small_modernbert(shards),
        tokenizer=shards.tokenizer,
        w_elm=1.0,
        w_blm=1.0,
        per_rate=True,
        protected=shards.manifest.protected,
    )
    model.train()
    # [end:model]

    # [start:train]
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    warm_up = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=50)
    for epoch in range(int(epochs)):
        loader.set_epoch(epoch)
        for batch in loader:
            # Each loss is divided by its row's rate, their sum by the tokens of the batch.
            loss = model(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            warm_up.step()
    # [end:train]

    # [start:bound]
    held_out = shards["validation"]
    bound = diffusion_bound(model, held_out, units=units, samples=16)
    # [end:bound]
    print(json.dumps({"bound": bound, "unigram": unigram(shards["train"], held_out)}))
    if out:
        model.save_pretrained(out)


def unigram(train: md.Split, held_out: md.Split) -> dict[str, Any]:
    """Return nats per token of a unigram model with add-one smoothing."""
    rows = train.examples()
    words = rows.input_ids.values[rows.word_ids.values >= 0]
    counts = np.bincount(words, minlength=train.token_ids.size) + 1
    costs = -np.log(counts / counts.sum())

    rows = held_out.examples()
    is_word = rows.word_ids.values >= 0
    is_term = is_word & (rows.bio.values > 0)
    nats = costs[rows.input_ids.values]
    return {
        "nats": nats[is_word].mean(),
        "terms": nats[is_term].mean(),
        "others": nats[is_word & ~is_term].mean(),
    }


def small_modernbert(shards: md.Shards) -> ModernBertForMaskedLM:
    """Make a small ModernBERT with random weights."""
    ids = shards.manifest.token_ids
    config = ModernBertConfig(
        vocab_size=ids.size,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=192,
        local_attention=64,
        max_position_embeddings=512,
        pad_token_id=ids.pad,
        bos_token_id=None,
        eos_token_id=None,
        cls_token_id=None,
        sep_token_id=None,
    )
    return ModernBertForMaskedLM(config)


if __name__ == "__main__":
    main(*sys.argv[1:])
