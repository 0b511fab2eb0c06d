"""Attention within the rows of a packed batch, without an `[L, L]` mask.

A mask of all pairs of tokens grows with the square of the packed row's length, and is mostly False.
Instead, rows are gathered into a few padded groups of similar length, attended to, and scattered
back. All other layers of the encoder see packed rows without padding. The result equals that of
unpacked rows, and the cost grows with the number of tokens.

`model.set_attn_implementation(BY_ROW)` selects it in transformers. Unpacked batches get `sdpa`
attention.

Dimensions: B packed rows, L tokens, T = B * L, H heads, D head size; R rows in a group, M tokens of
its longest row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
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

BY_ROW = "mslm_by_row"
"""Name of this attention in transformers."""

_GROUPS = 4
"""Number of groups: with more, there is less padding but more kernel calls."""
_PLAIN_TOKENS = 128
"""Maximum row length for plain matrix products on CPUs, which are faster than sdpa up to here."""


class RowGroup(NamedTuple):
    """Rows of similar length, from all packed rows of a batch.

    Attributes:
        places: int64 `[R, M]`, index of each token in the flattened batch; 0 on padding.
        is_token: bool `[R, M]`, False on padding; None if there is no padding.
        inner: int64 `[N]`, indices of the N tokens in the flattened group.
    """

    places: Tensor
    is_token: Tensor | None
    inner: Tensor


@torch.compiler.disable  # type: ignore[untyped-decorator]  # shapes depend on values
def row_groups(sequences_BL: Tensor) -> tuple[RowGroup, ...]:
    """Group the rows of a packed batch by length.

    Args:
        sequences_BL: int64, number of each token's row within its packed row, -1 on padding.
    """
    sequences = sequences_BL.cpu().numpy()

    # First token and length of each row; padding (-1) counts as a row until it is removed.
    begins = np.diff(sequences, axis=1, prepend=-2) != 0
    firsts = np.flatnonzero(begins)
    lengths = np.diff(np.append(firsts, sequences.size))
    is_row = sequences.ravel()[firsts] >= 0
    firsts = firsts[is_row]
    lengths = lengths[is_row]

    shortest_first = np.argsort(lengths, kind="stable")
    parts = np.array_split(shortest_first, min(_GROUPS, len(lengths))) if len(lengths) else []
    return tuple(_group(firsts[part], lengths[part], sequences_BL.device) for part in parts)


def _group(firsts: Any, lengths: Any, device: torch.device) -> RowGroup:
    """Create a group.

    Args:
        firsts: int64 `[R]`, index of each row's first token in the flattened batch.
        lengths: int64 `[R]`, number of tokens.
        device: Device of the group.
    """
    within = np.arange(lengths.max())
    is_token = within < lengths[:, None]
    places = np.where(is_token, firsts[:, None] + within, 0)

    def moved(array: Any) -> Tensor:
        return torch.from_numpy(array).to(device)

    return RowGroup(
        places=moved(places),
        is_token=None if is_token.all() else moved(is_token),
        inner=moved(np.flatnonzero(is_token)),
    )


def attention_by_row(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    row_groups: Sequence[RowGroup] | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Compute attention within each row; an attention function of transformers.

    Args:
        module: The attention layer.
        query: `[B, H, L, D]`.
        key: `[B, H, L, D]`.
        value: `[B, H, L, D]`.
        attention_mask: Only used for unpacked batches.
        dropout: Dropout probability of attention weights.
        scaling: Factor of the scores. Default: 1 / sqrt(D).
        sliding_window: Number of tokens visible on each side, including the token itself. Default:
            all.
        row_groups: The rows, from `row_groups`; None for unpacked batches.
        others: Further arguments of attention functions.

    Returns:
        The attention output `[B, L, H, D]`, 0 on padding; and None for the weights.
    """
    if row_groups is None:
        result: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **others
        )
        return result

    size, heads, width, depth = query.shape
    query_THD, key_THD, value_THD = (
        states.transpose(1, 2).reshape(size * width, heads, depth) for states in (query, key, value)
    )

    # Gather, attend and scatter, group by group.
    attended = []
    indices = []
    for group in row_groups:
        query_RHMD, key_RHMD, value_RHMD = (
            states[group.places].transpose(1, 2) for states in (query_THD, key_THD, value_THD)
        )
        mask = _mask(group, sliding_window)
        group_output = _attend(query_RHMD, key_RHMD, value_RHMD, mask, dropout, scaling)

        attended.append(group_output.transpose(1, 2).reshape(-1, heads, depth)[group.inner])
        indices.append(group.places.flatten()[group.inner])

    zeros = query_THD.new_zeros(size * width, heads, depth)
    output = zeros.index_copy(0, torch.cat(indices), torch.cat(attended))
    return output.view(size, width, heads, depth), None


def _mask(group: RowGroup, sliding_window: int | None) -> Tensor | None:
    """Return the attention mask of a group, `[R or 1, 1, M or 1, M]`; None if all is visible."""
    mask = None if group.is_token is None else group.is_token[:, None, None, :]
    max_length = group.places.shape[1]
    if sliding_window is None or max_length <= sliding_window:
        return mask

    places = torch.arange(max_length, device=group.places.device)
    near = ((places[:, None] - places[None, :]).abs() < sliding_window)[None, None]
    if mask is None:
        return near

    # Padding may be further from its row than the window. It attends to itself: a softmax over no
    # tokens would be NaN.
    itself = torch.eye(max_length, dtype=torch.bool, device=near.device)[None, None]
    return (mask & near) | itself


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout: float,
    scaling: float | None,
) -> Tensor:
    """Compute the attention of padded rows `[R, H, M, D]`."""
    if query.device.type != "cpu" or query.shape[2] > _PLAIN_TOKENS:
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, dropout_p=dropout, scale=scaling
        )

    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = (query * scale) @ key.transpose(2, 3)
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = F.dropout(scores.softmax(-1), dropout) if dropout else scores.softmax(-1)
    return weights @ value


transformers.AttentionInterface.register(BY_ROW, attention_by_row)
transformers.AttentionMaskInterface.register(BY_ROW, sdpa_mask)
