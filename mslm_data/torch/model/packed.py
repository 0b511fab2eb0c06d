"""Run Hugging Face models on packed rows, with attention within each row only.

An encoder that is given packed rows as they are lets them attend to each other, and counts their
positions as if they were one. It has to be told, and each family wants to be told otherwise
(`encoder_inputs`). One that cannot be told is run on the rows unpacked (`run_packed`).

Dimensions: B packed rows, L tokens; R rows of a group, M tokens of its longest; X any width.
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
"""Columns of a batch that is not packed which an encoder takes."""
_FLASH = ("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k")
"""Columns of a flat row for FlashAttention, by the names that transformers documents."""

OF_PACKED_ROWS = ("position_ids", "sequence_ids", *_FLASH)
"""Columns that only batches of packed rows have."""
OF_ENCODER = (*_COLUMNS, *OF_PACKED_ROWS)
"""Columns of a batch from which an encoder's arguments are made."""

_ATTENTIONS = (BY_ROW, VARLEN, "eager", "sdpa")
"""Attentions that can be told which tokens are a row, beside FlashAttention's."""

_FROM_ZERO = ("albert", "bert", "distilbert", "electra", "modernbert")
"""Families whose positions begin at 0."""
_AFTER_PADDING = ("camembert", "roberta", "xlm-roberta")
"""Families whose positions begin after that of padding: at 2, as a rule."""


def run_packed(
    run: Callable[[dict[str, Any]], tuple[Tensor, ...]], batch: Mapping[str, Any], model: Any
) -> tuple[Tensor, ...]:
    """Run a model on packed rows as if each were alone, for any model family.

    A model that can be told which tokens are a row sees all of them at once. Any other sees the
    rows unpacked, padded, in a few groups of like length, and what it returns is packed again.

    Args:
        run: Called with arguments of the model by name; returns tensors `[B, L, X]`.
        batch: Packed rows, without what losses are computed from, and what else the model takes.
        model: The model of Hugging Face that `run` calls.

    Returns:
        Tensors `[B, L, X]` as `run` returns them, on the tokens of the packed rows.
    """
    if _why_not(batch, model.config) is not None:
        return _unpacked(run, batch, model.config)

    others = {name: x for name, x in batch.items() if name not in OF_PACKED_ROWS}
    with _attending_within_rows(batch, model):
        return run(others | encoder_inputs(batch, model))


@contextmanager
def _attending_within_rows(batch: Mapping[str, Any], model: Any) -> Iterator[None]:
    """Replace `sdpa` attention by attention within rows; other models stay unchanged.

    With gradient checkpointing it goes on to do so, as the backward pass computes layers anew.
    Batches that are not packed have the attention of `sdpa` either way.
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
        # By what modules say: the model's own property has another name in each version.
        is_checkpointing = any(
            getattr(module, "gradient_checkpointing", False) for module in model.modules()
        )
        if not is_checkpointing:
            config._attn_implementation = before


def _unpacked(
    run: Callable[[dict[str, Any]], tuple[Tensor, ...]], batch: Mapping[str, Any], config: Any
) -> tuple[Tensor, ...]:
    """Run a model on the rows of a packed batch, unpacked, padded and grouped by length."""
    ids_BL = batch["input_ids"]
    inputs = {name: x for name, x in batch.items() if name not in OF_PACKED_ROWS}
    by_token = [
        name for name, x in inputs.items() if isinstance(x, Tensor) and x.shape == ids_BL.shape
    ]

    results = []
    places = []
    for group in row_groups(batch["sequence_ids"]):
        is_token_RM = group.is_token
        if is_token_RM is None:
            is_token_RM = torch.ones_like(group.places, dtype=torch.bool)

        padded = inputs | {name: inputs[name].flatten()[group.places] for name in by_token}
        padding = config.pad_token_id or 0
        padded["input_ids"] = padded["input_ids"].masked_fill(~is_token_RM, padding)
        padded["attention_mask"] = is_token_RM.to(ids_BL.dtype)

        # What padding got is left behind.
        results.append([x_RMX.flatten(0, 1)[group.inner] for x_RMX in run(padded)])
        places.append(group.places.flatten()[group.inner])

    at_T = torch.cat(places)
    packed = []
    for parts in zip(*results, strict=True):
        x_TX = torch.cat(parts)
        nothing = x_TX.new_zeros(ids_BL.numel(), x_TX.shape[1])
        packed.append(nothing.index_copy(0, at_T, x_TX).view(*ids_BL.shape, -1))
    return tuple(packed)


def encoder_inputs(batch: Mapping[str, Tensor], model: Any) -> dict[str, Any]:
    """Convert a batch to inputs of an encoder that keep packed rows apart.

    With attention by row (`model.set_attn_implementation(BY_ROW)`) it is the rows themselves, with
    torch's kernel (`VARLEN`, on CUDA) where they begin. With `eager` and `sdpa` it is a mask of all
    pairs of tokens, whose memory grows with the square of a packed row's length. With the package
    FlashAttention it is where each row of a flat batch begins; its arguments are those that
    transformers documents.

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
    refused = _why_not(batch, config)
    if refused is not None:
        raise ValueError(f"packed rows: {refused}")

    inputs["position_ids"] = _positions(batch["position_ids"], config)
    attention = config._attn_implementation
    if attention == BY_ROW:
        inputs["row_groups"] = row_groups(batch["sequence_ids"])
        inputs["attention_mask"] = _unused(batch["sequence_ids"], config)
    elif attention == VARLEN:
        inputs["row_bounds"], inputs["longest_row"] = row_bounds(batch["sequence_ids"])
        inputs["attention_mask"] = _unused(batch["sequence_ids"], config)
    elif attention in ("eager", "sdpa"):
        inputs["attention_mask"] = _masks(batch["sequence_ids"], config, model.dtype)
    else:
        inputs |= _bounds(batch)
    return inputs


def _why_not(batch: Mapping[str, Any], config: Any) -> str | None:
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


def _positions(positions_BL: Tensor, config: Any) -> Tensor:
    """Return the position ids of tokens in the numbering of the model's family."""
    if config.model_type in _FROM_ZERO:
        return positions_BL
    after_padding: Tensor = positions_BL + config.pad_token_id + 1
    return after_padding


def _masks(sequences_BL: Tensor, config: Any, dtype: torch.dtype) -> Tensor | dict[str, Tensor]:
    """Return the attention masks, `[B, 1, L, L]`, in the form that the model's layers take."""
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
    """Return a dummy mask, since models without one build a mask of all pairs."""
    one = torch.ones((1, 1, 1, 1), dtype=torch.bool, device=sequences_BL.device)
    if config.model_type == "modernbert":
        return {"full_attention": one, "sliding_attention": one}
    return one


def _bounds(batch: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return where the rows of a flat batch begin; its padding is the last row.

    Kernels leave tokens that are in no row as the memory was, in gradients too.
    """
    # Queries and keys are of the same rows.
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
