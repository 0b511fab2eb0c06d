"""Decode tags to mentions, and pool the hidden states of mentions.

Dimensions: B rows, L tokens, S mentions (padded), H hidden size.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mslm_data.data import bio
from mslm_data.data.bio import OUTSIDE
from mslm_data.data.ragged import Ragged
from mslm_data.torch.model.forward import padded

NO_SPAN = -1
"""Padding of starts, ends and labels of mentions."""


def decode_spans(
    tags_BL: Tensor, sequence_ids_BL: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Decode BIO tags to mentions, as described in `mslm_data.data.bio`.

    Decoding runs on the CPU, so this synchronises with the GPU.

    Args:
        tags_BL: Integers, numbered as `bio`. Negative values are no tags, and end a mention.
        sequence_ids_BL: Number of each token's row in a flat batch; mentions end with their row.
            Default: a padded batch.

    Returns:
        Starts, ends (half open) and labels, each int64 `[B, S]`, padded with -1, on the device of
        the tags.
    """
    size, width = tags_BL.shape
    is_first = np.zeros((size, width), np.bool_)
    is_first[:, :1] = True
    if sequence_ids_BL is not None:
        is_first[:, 1:] = np.diff(sequence_ids_BL.cpu().numpy(), axis=1) != 0

    # Decode each original row by itself: `firsts` are their first tokens in the flattened batch.
    firsts = np.flatnonzero(is_first)
    starts, ends, labels = bio.mentions(
        Ragged(tags_BL.cpu().numpy().ravel(), np.append(firsts, size * width))
    )

    # Convert token indices of rows to those of a flat batch, and group mentions by row of the
    # batch.
    shifts = np.repeat(firsts % max(width, 1), starts.lengths)
    row_counts = np.append(0, np.cumsum(is_first.sum(axis=1)))
    offsets = starts.offsets[row_counts]
    columns = (starts.values + shifts, ends.values + shifts, labels.values)
    starts_BS, ends_BS, labels_BS = (
        torch.from_numpy(padded(Ragged(values, offsets), NO_SPAN)).to(tags_BL.device)
        for values in columns
    )
    return starts_BS, ends_BS, labels_BS


def take_first_tags(tags_BL: Tensor, first_BL: Tensor) -> Tensor:
    """Give all tokens of a word the tag of its first token.

    Args:
        tags_BL: int64, numbered as `bio`; negative without a tag.
        first_BL: bool, whether a token begins a word. True in the first column.
    """
    t_L = torch.arange(tags_BL.shape[1], device=tags_BL.device)

    # Index of the first token of each token's word.
    heads_BL = t_L.where(first_BL, 0).cummax(dim=1).values
    head_tags_BL = tags_BL.gather(1, heads_BL)

    # B-X has an odd number, I-X the next: later tokens of a word that begins a mention are inside.
    begins_BL = (head_tags_BL > OUTSIDE) & (head_tags_BL % 2 == 1)
    return tags_BL.where(first_BL, head_tags_BL + begins_BL)


def pool_spans(hidden_BLH: Tensor, starts_BS: Tensor, ends_BS: Tensor) -> Tensor:
    """Average the hidden states of each mention, `[B, S, H]` (Eq. 9); zeros on padding.

    Args:
        hidden_BLH: Hidden states, any float dtype.
        starts_BS: int64, first token of each mention, padded with -1.
        ends_BS: int64, token after the last, padded with -1.
    """
    # Sum by a matrix product with a 0/1 mask, whose rows are 0 for padding.
    t_L = torch.arange(hidden_BLH.shape[1], device=hidden_BLH.device)
    inside_BSL = (t_L >= starts_BS[..., None]) & (t_L < ends_BS[..., None])
    sums_BSH = inside_BSL.to(hidden_BLH.dtype) @ hidden_BLH

    lengths_BS = (ends_BS - starts_BS).clamp(min=1)
    return sums_BSH / lengths_BS[..., None]
