"""Attention within the rows of a packed batch by torch's FlashAttention kernel, on CUDA.

`torch.nn.attention.varlen` (torch 2.11 or later) takes rows side by side with the start of each: no
mask, no padding. It needs half precision, and has no dropout of attention weights.

`model.set_attn_implementation(VARLEN)` selects it in transformers. Unpacked batches get `sdpa`
attention.

Dimensions: B packed rows, L tokens, T = B * L, H heads, D head size; R rows of all packed rows; the
padding of a packed row counts as a row.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mslm_data import _optional

if TYPE_CHECKING:
    import transformers
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import sdpa_mask
else:
    transformers = _optional.load("transformers", wanted_by="encoder_inputs")
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import sdpa_mask

varlen_attn: Any = None
"""The kernel; None if torch has none, or none with windows."""
try:
    from torch.nn.attention import varlen
except ImportError:
    pass
else:
    if "window_size" in inspect.signature(varlen.varlen_attn).parameters:
        varlen_attn = varlen.varlen_attn

VARLEN = "mslm_varlen"
"""Name of this attention in transformers."""

_AMPERE = (8, 0)
"""Minimum compute capability of the kernel."""
_DROPOUT_OPTIONS = ("attention_probs_dropout_prob", "attention_dropout")
"""Configuration options for dropout of attention weights."""


def can_use_varlen(batch: Mapping[str, Any], model: Any) -> bool:
    """Return whether the kernel supports a model and a batch.

    Args:
        batch: A packed batch, on the model's device.
        model: A Hugging Face model.
    """
    if varlen_attn is None or not batch["input_ids"].is_cuda:
        return False

    dtype = model.dtype
    if torch.is_autocast_enabled("cuda"):
        dtype = torch.get_autocast_dtype("cuda")
    drops_weights = model.training and any(
        getattr(model.config, option, 0.0) for option in _DROPOUT_OPTIONS
    )
    return dtype in (torch.float16, torch.bfloat16) and not drops_weights and _is_ampere_or_later()


@functools.cache
def _is_ampere_or_later() -> bool:
    return torch.cuda.get_device_capability() >= _AMPERE


def row_bounds(sequences_BL: Tensor) -> tuple[Tensor, int]:
    """Return the start of each row in the flattened batch, and the length of the longest.

    Padding counts as a row: the kernel leaves tokens outside all rows uninitialised.

    Args:
        sequences_BL: int64, number of each token's row within its packed row, -1 on padding.

    Returns:
        int32 `[R + 1]`, starts of rows and the end of the last; and the length of the longest row.
    """
    is_first_BL = torch.ones_like(sequences_BL, dtype=torch.bool)
    is_first_BL[:, 1:] = sequences_BL[:, 1:] != sequences_BL[:, :-1]

    firsts_R = is_first_BL.flatten().nonzero().squeeze(1)
    bounds = F.pad(firsts_R, (0, 1), value=sequences_BL.numel()).to(torch.int32)
    return bounds, int(bounds.diff().max())


def attention_by_bounds(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    row_bounds: Tensor | None = None,
    longest_row: int = 0,
    **others: Any,
) -> tuple[Tensor, None]:
    """Compute attention within each row; an attention function of transformers.

    Args:
        module: The attention layer.
        query: `[B, H, L, D]`, float16 or bfloat16.
        key: `[B, H, L, D]`.
        value: `[B, H, L, D]`.
        attention_mask: Only used for unpacked batches.
        dropout: Dropout probability of attention weights; must be 0 for packed batches.
        scaling: Factor of the scores. Default: 1 / sqrt(D).
        sliding_window: Number of tokens visible on each side, including the token itself. Default:
            all.
        row_bounds: int32 `[R + 1]`, from `row_bounds`; None for unpacked batches.
        longest_row: Length of the longest row.
        others: Further arguments of attention functions.

    Returns:
        The attention output `[B, L, H, D]`; and None for the weights.

    Raises:
        ValueError: `dropout` is not 0.
    """
    if row_bounds is None:
        result: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **others
        )
        return result
    if dropout:
        raise ValueError(
            f"attention '{VARLEN}': expected no dropout of attention weights, got {dropout}; set "
            f"{' or '.join(_DROPOUT_OPTIONS)} of the model's configuration to 0, or "
            "attn_implementation='sdpa'"
        )

    size, heads, width, depth = query.shape
    query_THD, key_THD, value_THD = (
        states.transpose(1, 2).reshape(size * width, heads, depth) for states in (query, key, value)
    )
    # The kernel's window does not include the token itself; -1 is unlimited.
    window = -1 if sliding_window is None else sliding_window - 1

    attended_THD: Tensor = varlen_attn(
        query_THD,
        key_THD,
        value_THD,
        row_bounds,
        row_bounds,
        longest_row,
        longest_row,
        scale=scaling,
        window_size=(window, window),
    )
    return attended_THD.view(size, width, heads, depth), None


transformers.AttentionInterface.register(VARLEN, attention_by_bounds)
transformers.AttentionMaskInterface.register(VARLEN, sdpa_mask)
