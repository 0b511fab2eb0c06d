"""Tiny random masked language models of all listed families, and of two others."""

from __future__ import annotations

from typing import Any

VOCABULARY = 100
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
}
OF_FAMILY: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("bert", {}),
    "roberta": ("roberta", {}),
    "electra": ("electra", {"embedding_size": 8}),
    "modernbert": ("modernbert", {"pad_token_id": 0, "cls_token_id": 1, "sep_token_id": 2}),
    "deberta-v2": (
        "deberta-v2",
        {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8},
    ),
    "deberta-v2-new": ("deberta-v2", {"legacy": False}),
    "deberta-v2-conv": (
        "deberta-v2",
        {
            "relative_attention": True,
            "position_biased_input": False,
            "pos_att_type": ["p2c", "c2p"],
            "share_att_key": True,
            "norm_rel_ebd": "layer_norm",
            "conv_kernel_size": 3,
            "conv_act": "gelu",
        },
    ),
    "deberta": ("deberta", {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}),
    "deberta-new": ("deberta", {"legacy": False}),
    "albert": ("albert", {"embedding_size": 8}),
    "distilbert": ("distilbert", {"dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 32}),
    "camembert": ("camembert", {}),
    "xlm-roberta": ("xlm-roberta", {}),
}
"""Name -> `model_type` and further options of the configuration."""
UNLISTED: dict[str, tuple[str, dict[str, Any]]] = {
    "eurobert": ("eurobert", {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}),
    "mpnet": ("mpnet", {}),
}
"""Families that `MslmModel` does not list: the head of the first is one layer, of the second not."""


def masked_lm(family: str = "bert", **options: Any) -> Any:
    """Return a model with fixed random weights."""
    import torch
    from transformers import AutoConfig, AutoModelForMaskedLM

    kind, more = (OF_FAMILY | UNLISTED)[family]
    torch.manual_seed(0)
    return AutoModelForMaskedLM.from_config(
        AutoConfig.for_model(kind, **(SIZES | more | options))
    ).eval()


def batch(rows: int = 8, width: int = 12, *, types: int = 2, seed: int = 0) -> dict[str, Any]:
    """Return a batch with all columns: rows of different lengths, with two mentions except in the first."""
    import torch

    draw = torch.Generator().manual_seed(seed)
    original = torch.randint(5, VOCABULARY, (rows, width), generator=draw)
    sizes = torch.randint(8, width + 1, (rows, 1), generator=draw)
    there = torch.arange(width) < sizes
    inner = (torch.arange(width) > 0) & (torch.arange(width) < sizes - 1)
    bio = torch.where(inner, 0, -100)
    starts, ends, labels = torch.full((3, rows, 2), -1).unbind()
    for row in range(1, rows):
        for s, (start, end) in enumerate(((1, 3), (4, 6))):
            label = int(torch.randint(0, types, (1,), generator=draw))
            starts[row, s], ends[row, s], labels[row, s] = start, end, label
            bio[row, start], bio[row, start + 1 : end] = 1 + 2 * label, 2 + 2 * label
    kinds = torch.where(bio > 0, 2, torch.rand((rows, width), generator=draw) < 0.3).masked_fill(
        ~inner, 0
    )
    return {
        "input_ids": torch.where(there, original, 0).masked_fill(kinds > 0, 4),
        "attention_mask": there.long(),
        "labels": torch.where(kinds > 0, original, -100),
        "mask_kinds": kinds.to(torch.uint8),
        "bio": bio,
        "span_starts": starts,
        "span_ends": ends,
        "span_labels": labels,
        "keys": torch.arange(rows).to(torch.uint64),
    }


def losses_and_gradients(model: Any, batch: dict[str, Any]) -> tuple[Any, list[Any]]:
    """Return the three losses of a batch, and the gradients of the model's weights."""
    import torch

    model.zero_grad()
    output = model(**batch)
    output.loss.backward()
    losses = [output.mslm_loss, output.detection_loss, output.classification_loss]
    gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    return torch.stack(losses), gradients
