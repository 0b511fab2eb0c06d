r"""Continue pretraining a ModernBERT on notes, with flat rows and a falling mask rate.

    mslm-data build --source mimic --sample --out shards/long \
        --set encode.join=document --set encode.max_tokens=512
    python examples/continued_pretraining.py shards/long out/notes 100_000 \
        answerdotai/ModernBERT-base

Each step has one flat row of whole notes, up to 1,024 tokens, without padding. The mask rate falls
from 30 % to 15 % over 100,000 tokens; evaluation uses fixed masks at 15 %. Run the same command
again to resume. Default model: a new ModernBERT of three small layers.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from transformers import ModernBertConfig, ModernBertForMaskedLM

import mslm_data as md
from mslm_data.torch import MaskedDataset, MslmModel, perplexity


def main(folder: str, out: str, tokens: str = "100_000", name: str = "") -> None:
    """Train on a number of tokens, and print each step and the perplexities as JSON.

    Args:
        folder: Shard folder with the splits train and validation.
        out: Folder for the encoder, and for the checkpoint to resume from.
        tokens: Number of tokens to train on. Default: 100,000.
        name: Model on the hub, or a folder. Default: a small new model.
    """
    num_tokens = int(tokens)
    checkpoint = Path(out, "checkpoint.pt")
    checkpoint.parent.mkdir(parents=True, exist_ok=True)

    # [start:batches]
    shards = md.load(folder)
    falling = {
        "shape": "linear",
        "start": 0.30,
        "stop": 0.15,
        "over": num_tokens,
        "per": "tokens",
    }
    strategy = md.strategy("modernbert", rate=falling)
    train = MaskedDataset(shards["train"], strategy, seed=7)
    loader = train.loader(batch_tokens=1_024, flat=True)

    strategy = md.strategy("modernbert", rate=0.15)
    fixed = MaskedDataset(shards["validation"], strategy, seed=7, static=True)
    held_out = fixed.loader(batch_tokens=1_024, shuffle=False)
    # [end:batches]

    # [start:model]
    torch.manual_seed(7)
    model = MslmModel.wrap(
        name or small_modernbert(shards),
        tokenizer=shards.tokenizer,
        w_elm=1.0,
        w_blm=1.0,
        protected=shards.manifest.protected,
    )
    # from_pretrained leaves a model in evaluation mode, without dropout.
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    # [end:model]

    # [start:resume]
    seen = 0
    if checkpoint.exists():
        state = torch.load(checkpoint)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        loader.load_state_dict(state["loader"])
        seen = state["seen"]
    # [end:resume]

    print(json.dumps({"before": perplexity(model, held_out)["perplexity"]}))
    # [start:train]
    while seen < num_tokens:
        # Each pass is a new epoch, with new masks. No row sees another.
        for batch in loader:
            with torch.autocast("cpu", torch.bfloat16):
                loss = model(**batch).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

            step_tokens = int(batch["attention_mask"].sum())
            masked = int((batch["labels"] != -100).sum()) / step_tokens
            seen += step_tokens
            print(json.dumps({"seen": seen, "masked": masked, "loss": loss.item()}))
            if seen >= num_tokens:
                break
    # [end:train]
    print(json.dumps({"after": perplexity(model, held_out)["perplexity"]}))

    # [start:save]
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "loader": loader.state_dict(),
        "seen": seen,
    }
    torch.save(state, checkpoint)
    # The encoder alone, for AutoModel.
    model.save_encoder(Path(out, "encoder"))
    # [end:save]


def small_modernbert(shards: md.Shards) -> ModernBertForMaskedLM:
    """Make a small ModernBERT with random weights."""
    ids = shards.manifest.token_ids
    config = ModernBertConfig(
        vocab_size=ids.size,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=64,
        local_attention=64,
        pad_token_id=ids.pad,
        bos_token_id=None,
        eos_token_id=None,
        cls_token_id=None,
        sep_token_id=None,
    )
    return ModernBertForMaskedLM(config)


if __name__ == "__main__":
    main(*sys.argv[1:])
