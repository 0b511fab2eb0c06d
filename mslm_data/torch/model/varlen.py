"""Variable-length attention kernel for packed batches on CUDA.

The kernel is FlashAttention as torch 2.11 and later bring it. It takes the rows side by side, and
where each begins: no mask of pairs is made and nothing is padded. It computes in half precision,
and has no dropout of attention weights.

It is an attention function of transformers: `model.set_attn_implementation(VARLEN)` selects it.
Batches that are not packed go to `sdpa`.

Dimensions: B packed rows, L tokens, T = B * L, H heads, D width of a head; R rows of all packed
rows, where the padding of a packed row counts as one.
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
"""The kernel; None where torch has none with windows."""
try:
    from torch.nn.attention import varlen
except ImportError:
    pass
else:
    if "window_size" in inspect.signature(varlen.varlen_attn).parameters:
        varlen_attn = varlen.varlen_attn

VARLEN = "mslm_varlen"
"""The name of this attention in transformers."""

_AMPERE = (8, 0)
"""The first compute capability that FlashAttention runs on."""
_DROPOUT_OPTIONS = ("attention_probs_dropout_prob", "attention_dropout")
"""Options of encoders' configurations that drop attention weights."""


def can_use_varlen(batch: Mapping[str, Any], model: Any) -> bool:
    """Return whether the kernel supports a model's attention over a batch.

    Args:
        batch: A packed batch, where the model is.
        model: A model of Hugging Face.
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
    """Return where each row begins among all T tokens, int32 `[R + 1]`, and the maximum length.

    Padding is a row of its own. The kernel leaves tokens that are in no row as the memory was.

    Args:
        sequences_BL: int64, the number of each token's row within its packed row, -1 on padding.
    """
    begins_BL = torch.ones_like(sequences_BL, dtype=torch.bool)
    begins_BL[:, 1:] = sequences_BL[:, 1:] != sequences_BL[:, :-1]

    firsts_R = begins_BL.flatten().nonzero().squeeze(1)
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
    """Compute attention within each row; the signature is that of transformers' functions.

    Args:
        module: The attention layer.
        query: `[B, H, L, D]`, float16 or bfloat16.
        key: `[B, H, L, D]`.
        value: `[B, H, L, D]`.
        attention_mask: Used where the batch is not packed.
        dropout: Of attention weights; refused where the batch is packed.
        scaling: Of scores; None: by the square root of D.
        sliding_window: How many tokens a token sees to each side, itself counted; None: all.
        row_bounds: int32 `[R + 1]`; None where the batch is not packed.
        longest_row: Length of the longest row.
        others: What other attention functions take.

    Returns:
        `[B, L, H, D]`; and no weights.

    Raises:
        ValueError: Attention weights are to be dropped.
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
    # The kernel does not count the token itself.
    beside = -1 if sliding_window is None else sliding_window - 1

    attended_THD: Tensor = varlen_attn(
        query_THD,
        key_THD,
        value_THD,
        row_bounds,
        row_bounds,
        longest_row,
        longest_row,
        scale=scaling,
        window_size=(beside, beside),
    )
    return attended_THD.view(size, width, heads, depth), None


transformers.AttentionInterface.register(VARLEN, attention_by_bounds)
transformers.AttentionMaskInterface.register(VARLEN, sdpa_mask)
