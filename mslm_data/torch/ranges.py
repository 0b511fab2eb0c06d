"""Mentions as token ranges of a batch: from tags to ranges, and from ranges to one vector each.

Dimensions: B rows, L tokens, S mentions (padded), H hidden width.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mslm_data.data import bio
from mslm_data.data.ragged import Ragged
from mslm_data.torch.forward import padded

NO_SPAN = -1
"""Padding of starts, ends and labels of mentions."""


def decode_spans(tags_BL: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the mentions that tags say: starts, ends (half open) and labels.

    Each is int64 `[B, S]`, padded with -1, on the device of the tags. `mslm_data.data.bio` says
    what tags mean. It reads them on the CPU, so this waits for an accelerator.

    Args:
        tags_BL: Integers, numbered as in `bio`. A token below 0 has no tag, and ends a mention.
    """
    rows, width = tags_BL.shape
    tags = Ragged(tags_BL.cpu().numpy().ravel(), np.arange(rows + 1, dtype=np.int64) * width)

    starts, ends, labels = (
        torch.from_numpy(padded(column, NO_SPAN)).to(tags_BL.device)
        for column in bio.mentions(tags)
    )
    return starts, ends, labels


def pool_spans(hidden_BLH: Tensor, starts_BS: Tensor, ends_BS: Tensor) -> Tensor:
    """Return the mean of each mention's hidden states `[B, S, H]` (Eq. 9), zeros on padding.

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
