"""Give an encoder of Hugging Face packed rows so that no row sees another.

An encoder that is given packed rows as they are lets them attend to each other, and counts their
positions as if they were one. It has to be told, and each family wants to be told otherwise. A
family or a form of attention that is not known here is refused.

Dimensions: B packed rows, L tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from mslm_data.torch.by_row import BY_ROW, row_groups

_COLUMNS = ("input_ids", "attention_mask")
"""Columns of a batch that is not packed which an encoder takes."""
_FLASH = ("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k")
"""Columns of a flat row for FlashAttention, by the names that transformers documents."""

OF_PACKED_ROWS = ("position_ids", "sequence_ids", *_FLASH)
"""Columns that only batches of packed rows have."""

_FROM_ZERO = ("albert", "bert", "distilbert", "electra", "modernbert")
"""Families whose positions begin at 0."""
_AFTER_PADDING = ("camembert", "roberta", "xlm-roberta")
"""Families whose positions begin after that of padding: at 2, as a rule."""


def encoder_inputs(batch: Mapping[str, Tensor], model: Any) -> dict[str, Any]:
    """Return what an encoder takes of a batch, so that packed rows are as if they were alone.

    With attention by row (`model.set_attn_implementation(BY_ROW)`) it is the rows themselves. With
    `eager` and `sdpa` it is a mask of all pairs of tokens, whose memory grows with the square of a
    packed row's length. With FlashAttention it is where each row of a flat batch begins; its
    arguments are those that transformers documents.

    Args:
        batch: A batch of `md.Batches` as tensors, or of a loader; packed or not.
        model: A model of Hugging Face, or an `MslmModel`, which calls this itself.

    Returns:
        Arguments of the encoder's `forward`, by name.

    Raises:
        ValueError: The rows are packed, and the model's family, or its attention, is not one that
            can be told.
    """
    inputs: dict[str, Any] = {name: batch[name] for name in _COLUMNS if name in batch}
    if "sequence_ids" not in batch:
        return inputs

    config = getattr(model.config, "masked_lm", model.config)
    inputs["position_ids"] = _positions(batch["position_ids"], config)

    attention = config._attn_implementation
    if attention == BY_ROW:
        inputs["row_groups"] = row_groups(batch["sequence_ids"])
        inputs["attention_mask"] = _unused(batch["sequence_ids"], config)
    elif attention in ("eager", "sdpa"):
        inputs["attention_mask"] = _masks(batch["sequence_ids"], config, model.dtype)
    elif attention.startswith("flash_attention"):
        inputs |= _bounds(batch, attention)
    else:
        raise ValueError(
            f"packed rows: expected a model whose attention is '{BY_ROW}', eager, sdpa or "
            f"FlashAttention, got '{attention}'; load it with attn_implementation='sdpa'"
        )
    return inputs


def _positions(positions_BL: Tensor, config: Any) -> Tensor:
    """Return the positions of tokens as the model's family counts them.

    Raises:
        ValueError: The family is not known.
    """
    if config.model_type in _FROM_ZERO:
        return positions_BL
    if config.model_type in _AFTER_PADDING:
        after_padding: Tensor = positions_BL + config.pad_token_id + 1
        return after_padding

    known = ", ".join(sorted([*_FROM_ZERO, *_AFTER_PADDING]))
    raise ValueError(
        f"packed rows: expected a model of {known}, got '{config.model_type}', whose rows would "
        "see each other; leave out row_tokens and flat (batch_tokens with bucketed=True pads next "
        "to nothing)"
    )


def _masks(sequences_BL: Tensor, config: Any, dtype: torch.dtype) -> Tensor | dict[str, Tensor]:
    """Return which tokens attend to which, `[B, 1, L, L]`, as the model's layers take it."""
    # Padding is a sequence of its own, so each token attends to one at least: a softmax over none
    # is not a number.
    together_BLL = sequences_BL[:, :, None] == sequences_BL[:, None, :]
    if config.model_type != "modernbert":
        return _as_attention_takes_it(together_BLL, config, dtype)

    # In a row, tokens are as far apart as in its packed row.
    places_L = torch.arange(sequences_BL.shape[1], device=sequences_BL.device)
    near_LL = (places_L[:, None] - places_L[None, :]).abs() <= config.sliding_window
    return {
        "full_attention": _as_attention_takes_it(together_BLL, config, dtype),
        "sliding_attention": _as_attention_takes_it(together_BLL & near_LL, config, dtype),
    }


def _as_attention_takes_it(may_BLL: Tensor, config: Any, dtype: torch.dtype) -> Tensor:
    may_BHLL = may_BLL[:, None]
    if config._attn_implementation == "sdpa":
        return may_BHLL

    # `eager` adds the mask to the scores.
    forbidden = torch.finfo(dtype).min
    return torch.zeros(may_BHLL.shape, dtype=dtype, device=may_BHLL.device).masked_fill(
        ~may_BHLL, forbidden
    )


def _unused(sequences_BL: Tensor, config: Any) -> Tensor | dict[str, Tensor]:
    """Return a mask that nobody looks at: models make one of all pairs if they are given none."""
    one = torch.ones((1, 1, 1, 1), dtype=torch.bool, device=sequences_BL.device)
    if config.model_type == "modernbert":
        return {"full_attention": one, "sliding_attention": one}
    return one


def _bounds(batch: Mapping[str, Tensor], attention: str) -> dict[str, Any]:
    """Return where the rows of a flat batch begin.

    Raises:
        ValueError: The batch is not flat.
    """
    if "cu_seq_lens_q" not in batch:
        raise ValueError(
            f"packed rows: expected a flat row for '{attention}', got rows of row_tokens; pass "
            "flat=True, or load the model with attn_implementation='sdpa'"
        )
    bounds: dict[str, Any] = {name: batch[name] for name in _FLASH}
    for name in ("max_length_q", "max_length_k"):
        bounds[name] = int(bounds[name])
    return bounds | {"attention_mask": None}
