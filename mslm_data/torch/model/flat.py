"""Flat rows: several rows in one, without padding, in which no row attends to another.

`encoder_inputs` converts a flat batch to the arguments of an encoder. `attend_within_rows` is an
attention function of transformers; `model.set_attn_implementation(FLAT)` selects it, and
`MslmModel` does so for encoders with `sdpa` attention. Padded batches get `sdpa` attention.

On CUDA, torch's FlashAttention kernel for rows of different lengths takes the bounds of the rows
(torch 2.11 or later, half precision, no dropout of attention weights). Elsewhere, rows are gathered
into a few padded groups of similar length, attended to, and scattered back; all other layers see
the flat row. Both cost time and memory in proportion to the number of tokens: a mask of all pairs
of tokens grows with its square.

Dimensions: T tokens of all rows and padding; R rows, of all or of a group, with at most M tokens; H
heads; D head size.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mslm_data import _optional

transformers: Any = _optional.load("transformers", wanted_by="encoder_inputs")

varlen_attn: Any = None
"""torch's kernel; None if torch has none, or none with windows."""
try:
    from torch.nn.attention import varlen
except ImportError:
    pass
else:
    if "window_size" in inspect.signature(varlen.varlen_attn).parameters:
        varlen_attn = varlen.varlen_attn

FLAT = "mslm_flat"
"""Name of this attention in transformers."""

_FROM_ZERO = ("albert", "bert", "distilbert", "electra", "modernbert")
"""Model families with position ids from 0."""
_AFTER_PADDING = ("camembert", "roberta", "xlm-roberta")
"""Model families with position ids after the padding id: usually from 2."""

_GROUPS = 4
"""Number of groups: with more, there is less padding but more kernel calls."""
_HALF = (torch.bfloat16, torch.float16)
_AMPERE = (8, 0)
"""Minimum compute capability of the kernel."""


class RowGroup(NamedTuple):
    """Rows of similar length.

    Attributes:
        places: int64 `[R, M]`, index of each token in the flat row; 0 on padding.
        is_token: bool `[R, M]`, False on padding.
        inner: int64, index of each token in the flattened group.
    """

    places: Tensor
    is_token: Tensor
    inner: Tensor


class FlatRows(NamedTuple):
    """The rows of a flat batch; its padding counts as a row.

    Attributes:
        bounds: int32 `[R + 1]`, first token of each row, and the end of the last.
        longest: Number of tokens of the longest row.
        groups: The rows in groups of similar length.
    """

    bounds: Tensor
    longest: int
    groups: tuple[RowGroup, ...]


def use_flat_attention(model: Any) -> None:
    """Let a model with `sdpa` attention take flat rows, if its family can; others do not change."""
    is_known = model.config.model_type in (*_FROM_ZERO, *_AFTER_PADDING)
    if is_known and model.config._attn_implementation == "sdpa":
        model.set_attn_implementation(FLAT)


def encoder_inputs(batch: Mapping[str, Tensor], model: Any) -> dict[str, Any]:
    """Convert a batch to the arguments of an encoder, so that no row attends to another.

    Args:
        batch: A padded or flat batch of a loader, or of `md.Batches` as tensors.
        model: A Hugging Face model. An `MslmModel` calls this function itself.

    Returns:
        Arguments of the encoder's `forward`, by name.

    Raises:
        ValueError: The rows are flat, and the model family or its attention cannot separate them.
    """
    if "sequence_ids" not in batch:
        return {name: batch[name] for name in ("input_ids", "attention_mask") if name in batch}

    config = getattr(model.config, "masked_lm", model.config)
    _check_model(config)
    positions = batch["position_ids"]
    if config.model_type in _AFTER_PADDING:
        positions = positions + config.pad_token_id + 1
    inputs = {"input_ids": batch["input_ids"], "position_ids": positions}

    rows = find_rows(batch)
    if config._attn_implementation == FLAT:
        # Without a mask, models would make one of all pairs of tokens.
        mask = torch.ones((1, 1, 1, 1), dtype=torch.bool, device=positions.device)
        by_layer = {"full_attention": mask, "sliding_attention": mask}
        is_by_layer = config.model_type == "modernbert"
        return {**inputs, "attention_mask": by_layer if is_by_layer else mask, "flat_rows": rows}

    # FlashAttention, with the argument names in the documentation of transformers.
    bounds = {"cu_seq_lens_q": rows.bounds, "cu_seq_lens_k": rows.bounds}
    lengths = {"max_length_q": rows.longest, "max_length_k": rows.longest}
    return {**inputs, "attention_mask": None, **bounds, **lengths}


def _check_model(config: Any) -> None:
    families = sorted((*_FROM_ZERO, *_AFTER_PADDING))
    if config.model_type not in families:
        raise ValueError(
            f"flat rows: expected an encoder of {', '.join(families)}, got '{config.model_type}', "
            "which cannot keep rows apart; leave out flat=True (batch_tokens with bucketed=True "
            "pads next to nothing)"
        )

    attention = config._attn_implementation
    if attention != FLAT and not attention.startswith("flash_attention"):
        raise ValueError(
            f"flat rows: expected the attention '{FLAT}' or FlashAttention, got '{attention}'; "
            f"call model.set_attn_implementation('{FLAT}')"
        )


@torch.compiler.disable  # type: ignore[untyped-decorator]  # shapes depend on values
def find_rows(batch: Mapping[str, Tensor]) -> FlatRows:
    """Find the rows of a flat batch; waits for the device."""
    ids = batch["input_ids"]
    # Without rows of no tokens. Padding is a row: kernels leave tokens outside all rows undefined.
    bounds = np.unique([*batch["cu_seq_lens_q"].tolist(), ids.shape[1]])
    lengths = np.diff(bounds)

    groups = []
    shortest_first = np.argsort(lengths, kind="stable")
    for rows in np.array_split(shortest_first, min(_GROUPS, len(lengths))):
        t = np.arange(lengths[rows].max())
        is_token = t < lengths[rows, None]
        places = np.where(is_token, bounds[rows, None] + t, 0)
        arrays = (places, is_token, np.flatnonzero(is_token))
        groups.append(RowGroup(*(torch.from_numpy(x).to(ids.device) for x in arrays)))

    bounds_on_device = torch.from_numpy(bounds.astype(np.int32)).to(ids.device)
    return FlatRows(bounds_on_device, int(lengths.max()), tuple(groups))


def attend_within_rows(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    flat_rows: FlatRows | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Compute attention, within each row if the batch is flat; an attention function.

    Args:
        module: The attention layer. If `module.is_causal`, a token sees only those before it.
        query: `[1, H, T, D]`; padded batches have more rows.
        key: `[1, H, T, D]`.
        value: `[1, H, T, D]`.
        attention_mask: Only used for padded batches.
        dropout: Dropout probability of attention weights.
        scaling: Factor of the scores. Default: 1 / sqrt(D).
        sliding_window: Number of tokens visible on each side, including the token itself. Default:
            all.
        flat_rows: The rows of a flat batch; None for padded batches.
        others: Further arguments of attention functions.

    Returns:
        The attention output `[1, T, H, D]`; and None for the weights.
    """
    if flat_rows is None:
        sdpa = transformers.AttentionInterface()["sdpa"]
        options = {"dropout": dropout, "scaling": scaling, **others}
        padded: tuple[Tensor, None] = sdpa(module, query, key, value, attention_mask, **options)
        return padded

    is_causal = bool(getattr(module, "is_causal", False))
    if dropout or not _has_kernel(query):
        states = [x[0].transpose(0, 1) for x in (query, key, value)]
        output = _attend_in_groups(
            states, flat_rows.groups, sliding_window, is_causal, dropout, scaling
        )
        return output[None], None

    # The kernel's window does not include the token itself; -1 is unlimited.
    before = -1 if sliding_window is None else sliding_window - 1
    output = varlen_attn(
        *(states[0].transpose(0, 1) for states in (query, key, value)),
        flat_rows.bounds,
        flat_rows.bounds,
        flat_rows.longest,
        flat_rows.longest,
        scale=scaling,
        window_size=(before, 0 if is_causal else before),
    )
    return output[None], None


def _has_kernel(query: Tensor) -> bool:
    is_supported = query.is_cuda and query.dtype in _HALF and _is_ampere_or_later()
    return varlen_attn is not None and is_supported


@functools.cache
def _is_ampere_or_later() -> bool:
    return torch.cuda.get_device_capability() >= _AMPERE


@torch.compiler.disable  # type: ignore[untyped-decorator]  # shapes depend on values
def _attend_in_groups(
    states_THD: Sequence[Tensor],
    groups: Sequence[RowGroup],
    window: int | None,
    is_causal: bool,
    dropout: float,
    scaling: float | None,
) -> Tensor:
    """Compute attention group by group, `[T, H, D]`.

    Args:
        states_THD: Queries, keys and values.
        groups: The rows.
        window: See `attend_within_rows`.
        is_causal: Whether a token sees only those before it.
        dropout: See `attend_within_rows`.
        scaling: See `attend_within_rows`.
    """
    outputs = []
    places = []
    for group in groups:
        t = torch.arange(group.places.shape[1], device=group.places.device)
        distance_MM = t[:, None] - t
        is_visible_RMM = group.is_token[:, None, :]
        if is_causal:
            is_visible_RMM = is_visible_RMM & (distance_MM >= 0)
        if window is not None:
            # Padding may see no token. It sees itself: a softmax over no tokens would be NaN.
            is_near_MM = distance_MM.abs() < window
            is_visible_RMM = (is_visible_RMM & is_near_MM) | (distance_MM == 0)

        query, key, value = (states[group.places].transpose(1, 2) for states in states_THD)
        output_RHMD = _attend(query, key, value, is_visible_RMM[:, None], dropout, scaling)
        outputs.append(output_RHMD.transpose(1, 2).flatten(0, 1)[group.inner])
        places.append(group.places.flatten()[group.inner])

    zeros_THD = torch.zeros_like(states_THD[0])
    return zeros_THD.index_copy(0, torch.cat(places), torch.cat(outputs))


def _attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor, dropout: float, scaling: float | None
) -> Tensor:
    if query.device.type != "cpu" or query.dtype not in _HALF:
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, dropout_p=dropout, scale=scaling
        )

    # In half precision, a CPU computes plain matrix products about three times as fast.
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = (query * scale) @ key.transpose(2, 3)
    weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)
    return F.dropout(weights, dropout) @ value


transformers.AttentionInterface.register(FLAT, attend_within_rows)
transformers.AttentionMaskInterface.register(FLAT, transformers.AttentionMaskInterface()["sdpa"])
