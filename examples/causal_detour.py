r"""Adapt a ModernBERT by a causal detour: a causal phase, then a short masked one.

    mslm-data build --source mimic --sample --out shards/long \
        --set encode.join=document --set encode.max_tokens=512
    python examples/causal_detour.py shards/long out/detour 80_000 20_000 \
        answerdotai/ModernBERT-base

This is the recipe of Touchent and de la Clergerie (arXiv 2605.12438) over one loader with one
state: the encoder becomes a decoder of the same architecture, learns from each token of 80,000,
becomes an encoder again, and learns from masked terms and words of 20,000 more. Run the same
command again to resume. Default model: a new ModernBERT of three small layers.
"""

from __future__ import annotations

import json
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import (
    AutoTokenizer,
    ModernBertConfig,
    ModernBertDecoderConfig,
    ModernBertDecoderForCausalLM,
    ModernBertForMaskedLM,
)

import mslm_data as md
from mslm_data.torch import MaskedDataset


def main(
    folder: str, out: str, causal: str = "80_000", masked: str = "20_000", name: str = ""
) -> None:
    """Train on a number of tokens in each phase, and print each step as JSON.

    Args:
        folder: Shard folder with a split train.
        out: Folder for the encoder, and for the checkpoint to resume from.
        causal: Number of tokens of the causal phase. Default: 80,000.
        masked: Number of tokens of the masked phase. Default: 20,000.
        name: Model on the hub, or a folder. Default: a small new model.
    """
    checkpoint = Path(out, "checkpoint.pt")
    checkpoint.parent.mkdir(parents=True, exist_ok=True)

    # [start:batches]
    shards = md.load(folder)
    strategy = md.strategy(
        "curriculum",
        tokens=[int(causal)],
        parts=[{"use": "causal"}, {"use": "joint", "elm": 0.5, "blm": 0.15}],
    )
    loader = MaskedDataset(shards["train"], strategy, seed=7).loader(batch_tokens=1_024)
    # [end:batches]

    torch.manual_seed(7)
    encoder = ModernBertForMaskedLM.from_pretrained(name) if name else small_modernbert(shards)
    config = encoder.config
    seen, state = 0, None
    if checkpoint.exists():
        state = torch.load(checkpoint)
        encoder.load_state_dict(state["encoder"])
        loader.load_state_dict(state["loader"])
        seen = state["seen"]

    # [start:train]
    model: Any = encoder
    optimizer: Any = None
    is_decoder = False
    while seen < int(causal) + int(masked):
        for batch in loader:
            # A batch says its objective, where it is not masked tokens.
            if optimizer is None or ("objective" in batch) != is_decoder:
                if "objective" in batch:
                    model = as_decoder(model)
                elif is_decoder:
                    model = as_encoder(model, config)
                is_decoder = "objective" in batch
                model.train()
                optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
                if state is not None and state["is_decoder"] == is_decoder:
                    optimizer.load_state_dict(state["optimizer"])

            inputs = {key: batch[key] for key in ("input_ids", "attention_mask", "labels")}
            loss = model(**inputs).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

            seen += int(batch["attention_mask"].sum())
            print(json.dumps({"seen": seen, "causal": is_decoder, "loss": loss.item()}))
            if seen >= int(causal) + int(masked):
                break
    # [end:train]

    encoder = as_encoder(model, config) if is_decoder else model
    state = {
        "encoder": encoder.state_dict(),
        "optimizer": optimizer.state_dict() if optimizer else None,
        "is_decoder": is_decoder,
        "loader": loader.state_dict(),
        "seen": seen,
    }
    torch.save(state, checkpoint)
    # The encoder alone, for AutoModel.
    encoder.model.save_pretrained(Path(out, "encoder"))
    AutoTokenizer.from_pretrained(folder).save_pretrained(Path(out, "encoder"))


# [start:map]
def as_decoder(encoder: ModernBertForMaskedLM) -> ModernBertDecoderForCausalLM:
    """Return the decoder with the weights of an encoder.

    Both have the same layers under other names. In layers with a window, the encoder's reaches
    `local_attention // 2` tokens to each side; the decoder's counts the token itself too.
    """
    config = encoder.config
    shared = {
        field.name for field in fields(ModernBertDecoderConfig) if hasattr(config, field.name)
    }
    options = {name: getattr(config, name) for name in shared - {"architectures"}}
    # The decoder wants ids of special tokens, which training does not use.
    options |= {name: 0 for name in options if name.endswith("_token_id") and not options[name]}
    options["local_attention"] = 2 * (config.local_attention // 2 + 1)
    decoder = ModernBertDecoderForCausalLM(ModernBertDecoderConfig(**options))

    weights: dict[str, Tensor] = {}
    for name, values in encoder.state_dict().items():
        renamed = f"lm_{name}" if name.startswith("head.") else name
        if ".Wqkv." in name:
            for letter, part in zip("qkv", values.chunk(3), strict=True):
                weights[renamed.replace("Wqkv", f"{letter}_proj")] = part
        else:
            weights[renamed] = values
    decoder.load_state_dict(weights)
    return decoder


def as_encoder(
    decoder: ModernBertDecoderForCausalLM, config: ModernBertConfig
) -> ModernBertForMaskedLM:
    """Return the encoder with the weights of a decoder; the inverse of `as_decoder`."""
    given = decoder.state_dict()
    weights: dict[str, Tensor] = {}
    for name, values in given.items():
        if ".q_proj." in name:
            parts = [given[name.replace("q_proj", f"{letter}_proj")] for letter in "qkv"]
            weights[name.replace("q_proj", "Wqkv")] = torch.cat(parts)
        elif ".k_proj." not in name and ".v_proj." not in name:
            weights[name.removeprefix("lm_") if name.startswith("lm_head.") else name] = values
    encoder = ModernBertForMaskedLM(config)
    encoder.load_state_dict(weights)
    return encoder


# [end:map]


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
