r"""Continued pretraining of a ModernBERT on notes, as encoders are trained today.

    python examples/continued_pretraining.py shards/long checkpoint.pt 100_000 \
        answerdotai/ModernBERT-base

Rows are whole notes, packed, so that every step has the same number of tokens. The rate of masking
falls from 30 to 15 % while 100,000 tokens go by; masks for evaluation stay, at 15 %. Without a
model's name it trains a new one of three small layers.
"""

from __future__ import annotations

import json
import os
import sys

import torch
from transformers import ModernBertConfig, ModernBertForMaskedLM

import mslm_data as md
from mslm_data.torch import MaskedDataset, MslmModel, perplexity

ROWS, ROW_TOKENS = 2, 512


def main(folder: str, checkpoint: str, tokens: str = "100_000", name: str = "") -> None:
    """Train until so many tokens were seen; say the perplexity before and after."""
    shards = md.load(folder)
    falling = {"shape": "linear", "start": 0.30, "stop": 0.15, "over": int(tokens), "per": "tokens"}
    train = MaskedDataset(shards["train"], md.strategy("modernbert", rate=falling), seed=7)
    fixed = MaskedDataset(
        shards["validation"], md.strategy("modernbert", rate=0.15), seed=7, static=True
    )
    loader = train.loader(batch_size=ROWS, row_tokens=ROW_TOKENS)
    held_out = fixed.loader(batch_tokens=ROWS * ROW_TOKENS, shuffle=False)

    torch.manual_seed(7)
    masked_lm = name or small_modernbert(shards)
    model = MslmModel.wrap(masked_lm, tokenizer=shards.tokenizer, w_elm=1.0, w_blm=1.0)
    model.train()  # from_pretrained leaves a model in evaluation mode, without dropout
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    seen = epoch = 0
    if os.path.exists(checkpoint):
        state = torch.load(checkpoint)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        loader.load_state_dict(state["loader"])
        seen, epoch = state["seen"], state["loader"]["epoch"]

    before = perplexity(model, held_out)["perplexity"]
    steps = []
    while seen < int(tokens):
        loader.set_epoch(epoch)
        for batch in loader:
            with torch.autocast("cpu", torch.bfloat16):
                loss = model(**batch).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

            present = int(batch["attention_mask"].sum())
            seen += present
            hidden = int((batch["labels"] != -100).sum())
            steps.append({"tokens": present, "hidden": hidden, "loss": loss.item()})
            if seen >= int(tokens):
                break
        else:
            epoch += 1

    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "seen": seen}
    torch.save(state | {"loader": loader.state_dict()}, checkpoint + ".part")
    os.replace(checkpoint + ".part", checkpoint)  # whole or not at all
    after = perplexity(model, held_out)["perplexity"]
    print(json.dumps({"seen": seen, "before": before, "after": after, "steps": steps}))


def small_modernbert(shards: md.Shards) -> ModernBertForMaskedLM:
    """Return a ModernBERT that is quick to train."""
    ids = shards.manifest.token_ids
    config = ModernBertConfig(
        vocab_size=ids.size,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=64,
        pad_token_id=ids.pad,
        bos_token_id=None,
        eos_token_id=None,
        cls_token_id=None,
        sep_token_id=None,
        global_attn_every_n_layers=3,
        local_attention=64,
    )
    return ModernBertForMaskedLM(config)


if __name__ == "__main__":
    main(*sys.argv[1:])
