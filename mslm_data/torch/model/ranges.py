"""Mentions of a batch as token ranges: decode tags to ranges, pool ranges to vectors.

Dimensions: B rows, L tokens, S mentions (padded), H hidden width.
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
    """Decode BIO tags to mentions: starts, ends (half open) and labels.

    Each is int64 `[B, S]`, padded with -1, on the device of the tags. `mslm_data.data.bio` says
    what tags mean. It reads them on the CPU, so this waits for an accelerator.

    Args:
        tags_BL: Integers, numbered as in `bio`. A token below 0 has no tag, and ends a mention.
        sequence_ids_BL: Of packed rows, the number of each token's row, with which mentions end.
    """
    size, width = tags_BL.shape
    begins = np.zeros((size, width), np.bool_)
    begins[:, :1] = True
    if sequence_ids_BL is not None:
        begins[:, 1:] = np.diff(sequence_ids_BL.cpu().numpy(), axis=1) != 0

    firsts = np.flatnonzero(begins)
    starts, ends, labels = bio.mentions(
        Ragged(tags_BL.cpu().numpy().ravel(), np.append(firsts, size * width))
    )

    # From tokens of a row to tokens of its packed row, and all mentions of a packed row together.
    moves = np.repeat(firsts % max(width, 1), starts.lengths)
    lines = np.append(0, np.cumsum(begins.sum(axis=1)))
    offsets = starts.offsets[lines]
    columns = (starts.values + moves, ends.values + moves, labels.values)
    starts_BS, ends_BS, labels_BS = (
        torch.from_numpy(padded(Ragged(values, offsets), NO_SPAN)).to(tags_BL.device)
        for values in columns
    )
    return starts_BS, ends_BS, labels_BS


def take_first_tags(tags_BL: Tensor, first_BL: Tensor) -> Tensor:
    """Give all tokens of a word the tag of its first token.

    Args:
        tags_BL: int64, numbered as in `bio`; below 0 without a tag.
        first_BL: bool, which tokens begin a word; those of a row's first column do.
    """
    t_L = torch.arange(tags_BL.shape[1], device=tags_BL.device)
    heads_BL = t_L.where(first_BL, 0).cummax(dim=1).values
    head_tags_BL = tags_BL.gather(1, heads_BL)

    # B-X is odd, and the next number is I-X.
    begins_BL = (head_tags_BL > OUTSIDE) & (head_tags_BL % 2 == 1)
    return tags_BL.where(first_BL, head_tags_BL + begins_BL)


def pool_spans(hidden_BLH: Tensor, starts_BS: Tensor, ends_BS: Tensor) -> Tensor:
    """Average the hidden states of each mention, `[B, S, H]` (Eq. 9); zeros on padding.

    Args:
        hidden_BLH: Any float.
        starts_BS: int64, first tokens, padded with -1.
        ends_BS: int64, tokens after the last, padded with -1.
    """
    # Sums are a matrix product with a mask of 0 and 1, of which padding has no 1.
    t_L = torch.arange(hidden_BLH.shape[1], device=hidden_BLH.device)
    inside_BSL = (t_L >= starts_BS[..., None]) & (t_L < ends_BS[..., None])
    sums_BSH = inside_BSL.to(hidden_BLH.dtype) @ hidden_BLH

    lengths_BS = (ends_BS - starts_BS).clamp(min=1)
    return sums_BSH / lengths_BS[..., None]
