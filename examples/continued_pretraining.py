r"""Continue pretraining a ModernBERT on notes, with flat rows and a falling mask rate.

    python examples/continued_pretraining.py shards/long checkpoint.pt 100_000 \
        answerdotai/ModernBERT-base

Each step has one flat row of whole notes, up to 1,024 tokens, without padding. The mask rate falls
from 30 % to 15 % over 100,000 tokens; evaluation uses fixed masks at 15 %. Run the same command
again to resume. Default model: a new ModernBERT of three small layers.
"""

from __future__ import annotations

import json
import os
import sys

import torch
from transformers import ModernBertConfig, ModernBertForMaskedLM

import mslm_data as md
from mslm_data.torch import MaskedDataset, MslmModel, perplexity

BATCH_TOKENS = 1_024


def main(folder: str, checkpoint: str, tokens: str = "100_000", name: str = "") -> None:
    """Train on a number of tokens, and print perplexities before and after as JSON.

    Args:
        folder: Shard folder with the splits train and validation.
        checkpoint: File to write, and to resume from if it exists.
        tokens: Number of tokens to train on. Default: 100,000.
        name: Model on the hub, or a folder. Default: a small new model.
    """
    shards = md.load(folder)
    falling = {"shape": "linear", "start": 0.30, "stop": 0.15, "over": int(tokens), "per": "tokens"}
    train = MaskedDataset(shards["train"], md.strategy("modernbert", rate=falling), seed=7)
    fixed = MaskedDataset(
        shards["validation"], md.strategy("modernbert", rate=0.15), seed=7, static=True
    )
    loader = train.loader(batch_tokens=BATCH_TOKENS, flat=True)
    held_out = fixed.loader(batch_tokens=BATCH_TOKENS, shuffle=False)

    torch.manual_seed(7)
    masked_lm = name or small_modernbert(shards)
    model = MslmModel.wrap(masked_lm, tokenizer=shards.tokenizer, w_elm=1.0, w_blm=1.0)
    model.train()  # from_pretrained returns a model in evaluation mode, without dropout
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

            num_tokens = int(batch["attention_mask"].sum())
            seen += num_tokens
            num_masked = int((batch["labels"] != -100).sum())
            steps.append({"tokens": num_tokens, "hidden": num_masked, "loss": loss.item()})
            if seen >= int(tokens):
                break
        else:
            epoch += 1

    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "seen": seen}
    torch.save(state | {"loader": loader.state_dict()}, checkpoint + ".part")
    os.replace(checkpoint + ".part", checkpoint)  # atomic
    after = perplexity(model, held_out)["perplexity"]
    print(json.dumps({"seen": seen, "before": before, "after": after, "steps": steps}))


def small_modernbert(shards: md.Shards) -> ModernBertForMaskedLM:
    """Make a small ModernBERT with random weights."""
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
