"""Run Hugging Face models on packed rows, with attention within each row only.

Given packed rows alone, an encoder would attend across rows, and count positions from the start of
the packed row. `encoder_inputs` makes the arguments that prevent this, which differ by model family
and attention. For encoders without support, `run_packed` unpacks the rows.

Dimensions: B packed rows, L tokens; R rows in a group, M tokens of its longest row; X features;
T tokens of all rows; H heads, of which a mask has 1, for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from mslm_data.torch.model.by_row import BY_ROW, row_groups
from mslm_data.torch.model.varlen import VARLEN, can_use_varlen, row_bounds

_COLUMNS = ("input_ids", "attention_mask")
"""Columns of an unpacked batch that encoders take."""
_FLASH = ("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k")
"""Columns of a flat row for FlashAttention, named as in the documentation of transformers."""

PACKED_COLUMNS = ("position_ids", "sequence_ids", *_FLASH)
"""Columns that only packed batches have."""
ENCODER_COLUMNS = (*_COLUMNS, *PACKED_COLUMNS)
"""Columns from which the encoder's arguments are made."""

_ATTENTIONS = (BY_ROW, VARLEN, "eager", "sdpa")
"""Attention implementations that can be restricted to rows, besides FlashAttention."""

_FROM_ZERO = ("albert", "bert", "distilbert", "electra", "modernbert")
"""Model families with position ids from 0."""
_AFTER_PADDING = ("camembert", "roberta", "xlm-roberta")
"""Model families with position ids after the padding id: usually from 2."""


def run_packed(
    run: Callable[[dict[str, Any]], tuple[Tensor, ...]], batch: Mapping[str, Any], model: Any
) -> tuple[Tensor, ...]:
    """Run any model on packed rows as if each row were alone.

    Supported encoders get the packed rows. Others get the rows unpacked, padded and in a few groups
    of similar length; their outputs are packed again.

    Args:
        run: Called with the model's arguments by name; returns tensors `[B, L, X]`.
        batch: A packed batch without columns for losses, and further arguments of the model.
        model: The Hugging Face model called by `run`.

    Returns:
        The outputs of `run`, `[B, L, X]`, for the tokens of the packed rows.
    """
    if _find_obstacle(batch, model.config) is not None:
        return _run_unpacked(run, batch, model.config)

    others = {name: x for name, x in batch.items() if name not in PACKED_COLUMNS}
    with _attending_within_rows(batch, model):
        return run(others | encoder_inputs(batch, model))


@contextmanager
def _attending_within_rows(batch: Mapping[str, Any], model: Any) -> Iterator[None]:
    """Replace `sdpa` attention by attention within rows; other attentions stay.

    With gradient checkpointing, the replacement is permanent, since the backward pass recomputes
    the layers. Unpacked batches get `sdpa` attention either way.
    """
    config = model.config
    before = config._attn_implementation
    if before != "sdpa":
        yield
        return

    config._attn_implementation = VARLEN if can_use_varlen(batch, model) else BY_ROW
    try:
        yield
    finally:
        # Ask the modules: the property of the model is named differently in versions of
        # transformers.
        is_checkpointing = any(
            getattr(module, "gradient_checkpointing", False) for module in model.modules()
        )
        if not is_checkpointing:
            config._attn_implementation = before


def _run_unpacked(
    run: Callable[[dict[str, Any]], tuple[Tensor, ...]], batch: Mapping[str, Any], config: Any
) -> tuple[Tensor, ...]:
    """Run a model on the unpacked rows of a batch, padded and grouped by length."""
    ids_BL = batch["input_ids"]
    inputs = {name: x for name, x in batch.items() if name not in PACKED_COLUMNS}
    token_columns = [
        name for name, x in inputs.items() if isinstance(x, Tensor) and x.shape == ids_BL.shape
    ]

    results = []
    indices = []
    for group in row_groups(batch["sequence_ids"]):
        is_token_RM = group.is_token
        if is_token_RM is None:
            is_token_RM = torch.ones_like(group.places, dtype=torch.bool)

        # Gather the columns with one value per token; others are passed as they are.
        padded = inputs | {name: inputs[name].flatten()[group.places] for name in token_columns}
        padding = config.pad_token_id or 0
        padded["input_ids"] = padded["input_ids"].masked_fill(~is_token_RM, padding)
        padded["attention_mask"] = is_token_RM.to(ids_BL.dtype)

        # Drop the outputs of padding.
        results.append([x_RMX.flatten(0, 1)[group.inner] for x_RMX in run(padded)])
        indices.append(group.places.flatten()[group.inner])

    # Scatter the outputs back to the tokens of the packed rows.
    indices_T = torch.cat(indices)
    packed = []
    for parts in zip(*results, strict=True):
        x_TX = torch.cat(parts)
        zeros = x_TX.new_zeros(ids_BL.numel(), x_TX.shape[1])
        packed.append(zeros.index_copy(0, indices_T, x_TX).view(*ids_BL.shape, -1))
    return tuple(packed)


def encoder_inputs(batch: Mapping[str, Tensor], model: Any) -> dict[str, Any]:
    """Convert a batch to arguments of an encoder that keep packed rows apart.

    The arguments depend on the attention implementation:

    * `BY_ROW` (`model.set_attn_implementation(BY_ROW)`): groups of rows.
    * `VARLEN`, torch's kernel on CUDA: the start of each row.
    * "eager" and "sdpa": a mask of all pairs of tokens. Its memory grows with the square of the
      packed row's length.
    * FlashAttention: the start of each row of a flat batch, under the names in the documentation of
      transformers.

    Args:
        batch: A batch of `md.Batches` as tensors, or of a loader; packed or not.
        model: A Hugging Face model. An `MslmModel` calls this function itself.

    Returns:
        Arguments of the encoder's `forward`, by name.

    Raises:
        ValueError: The rows are packed, and the model family or its attention does not support it.
    """
    inputs: dict[str, Any] = {name: batch[name] for name in _COLUMNS if name in batch}
    if "sequence_ids" not in batch:
        return inputs

    config = getattr(model.config, "masked_lm", model.config)
    obstacle = _find_obstacle(batch, config)
    if obstacle is not None:
        raise ValueError(f"packed rows: {obstacle}")

    # Positions restart in each row; then tell the attention which tokens are a row.
    inputs["position_ids"] = _position_ids(batch["position_ids"], config)
    attention = config._attn_implementation
    if attention == BY_ROW:
        inputs["row_groups"] = row_groups(batch["sequence_ids"])
        inputs["attention_mask"] = _placeholder_mask(batch["sequence_ids"], config)
    elif attention == VARLEN:
        inputs["row_bounds"], inputs["longest_row"] = row_bounds(batch["sequence_ids"])
        inputs["attention_mask"] = _placeholder_mask(batch["sequence_ids"], config)
    elif attention in ("eager", "sdpa"):
        inputs["attention_mask"] = _pair_masks(batch["sequence_ids"], config, model.dtype)
    else:
        inputs |= _flash_arguments(batch)
    return inputs


def _find_obstacle(batch: Mapping[str, Any], config: Any) -> str | None:
    """Return why an encoder cannot keep packed rows apart; None if it can."""
    families = sorted([*_FROM_ZERO, *_AFTER_PADDING])
    if config.model_type not in families:
        return (
            f"expected an encoder of {', '.join(families)}, got '{config.model_type}', which has "
            "no argument that keeps rows apart; use MslmModel, which shows it the rows unpacked, "
            "or leave out row_tokens and flat (batch_tokens with bucketed=True pads next to "
            "nothing)"
        )

    attention = config._attn_implementation
    flash = attention.startswith("flash_attention")
    if not flash and attention not in _ATTENTIONS:
        return (
            f"expected a model whose attention is {', '.join(_ATTENTIONS)} or FlashAttention, got "
            f"'{attention}'; load it with attn_implementation='sdpa'"
        )
    if flash and "cu_seq_lens_q" not in batch:
        return (
            f"expected a flat row for '{attention}', got rows of row_tokens; pass flat=True, or "
            "load the model with attn_implementation='sdpa'"
        )
    return None


def _position_ids(positions_BL: Tensor, config: Any) -> Tensor:
    """Return position ids as the model family numbers them."""
    if config.model_type in _FROM_ZERO:
        return positions_BL
    after_padding: Tensor = positions_BL + config.pad_token_id + 1
    return after_padding


def _pair_masks(
    sequences_BL: Tensor, config: Any, dtype: torch.dtype
) -> Tensor | dict[str, Tensor]:
    """Return masks of all pairs of tokens, `[B, 1, L, L]`, as the model's layers take them."""
    # Padding (-1) attends to itself: a softmax over no tokens would be NaN.
    same_row_BLL = sequences_BL[:, :, None] == sequences_BL[:, None, :]
    if config.model_type != "modernbert":
        return _convert_mask(same_row_BLL, config, dtype)

    # The sliding window: within a row, distances are the same as in the packed row.
    positions_L = torch.arange(sequences_BL.shape[1], device=sequences_BL.device)
    near_LL = (positions_L[:, None] - positions_L[None, :]).abs() <= config.sliding_window
    return {
        "full_attention": _convert_mask(same_row_BLL, config, dtype),
        "sliding_attention": _convert_mask(same_row_BLL & near_LL, config, dtype),
    }


def _convert_mask(allowed_BLL: Tensor, config: Any, dtype: torch.dtype) -> Tensor:
    allowed_BHLL = allowed_BLL[:, None]
    if config._attn_implementation == "sdpa":
        return allowed_BHLL

    # `eager` adds the mask to the scores.
    minimum = torch.finfo(dtype).min
    return torch.zeros(allowed_BHLL.shape, dtype=dtype, device=allowed_BHLL.device).masked_fill(
        ~allowed_BHLL, minimum
    )


def _placeholder_mask(sequences_BL: Tensor, config: Any) -> Tensor | dict[str, Tensor]:
    """Return a mask of one element. Without any mask, models build one of all pairs of tokens."""
    one = torch.ones((1, 1, 1, 1), dtype=torch.bool, device=sequences_BL.device)
    if config.model_type == "modernbert":
        return {"full_attention": one, "sliding_attention": one}
    return one


def _flash_arguments(batch: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return the start of each row in a flat batch; padding is added as the last row.

    FlashAttention leaves outputs and gradients of tokens outside all rows uninitialised.
    """
    # Same rows for queries and keys.
    begins, longest = batch["cu_seq_lens_q"], int(batch["max_length_q"])
    width = batch["input_ids"].shape[1]
    padding = width - int(begins[-1])
    if padding:
        begins = torch.cat([begins, begins.new_tensor([width])])
        longest = max(longest, padding)
    return {
        "cu_seq_lens_q": begins,
        "cu_seq_lens_k": begins,
        "max_length_q": longest,
        "max_length_k": longest,
        "attention_mask": None,
    }
