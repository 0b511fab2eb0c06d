"""Mentions as token ranges of a batch: from tags to ranges, from ranges to one vector each.

Dimensions: B sequences, L tokens, S mentions (padded), H width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mslm_data.data import bio

NO_SPAN = -1
"""What pads starts, ends and labels of mentions."""


def decode_spans(tags_BL: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the mentions that tags say, as starts, ends (half open) and labels: int64 `[B, S]`, padded with -1.

    B opens a mention, I goes on with an open one of its label, and an I that cannot opens one itself.

    Args:
        tags_BL: Numbered as `mslm_data.data.bio` says; a token below 0 has no tag, and ends a mention.
    """
    label_BL = torch.where(tags_BL > bio.OUTSIDE, bio.label_of(tags_BL), NO_SPAN)
    before_BL = torch.nn.functional.pad(label_BL, (1, 0), value=NO_SPAN)[:, :-1]
    inside_BL = label_BL != NO_SPAN
    goes_on_BL = bio.continues(tags_BL) & (label_BL == before_BL)
    opens_BL = inside_BL & ~goes_on_BL
    closes_BL = inside_BL & ~torch.nn.functional.pad(goes_on_BL, (0, 1))[:, 1:]
    row, start = opens_BL.nonzero(
        as_tuple=True
    )  # row by row, and the k-th to open is the k-th to close
    end = closes_BL.nonzero(as_tuple=True)[1] + 1
    place = opens_BL.cumsum(1)[row, start] - 1
    most = int(opens_BL.sum(1).max()) if tags_BL.numel() else 0
    spans = torch.full((3, len(tags_BL), most), NO_SPAN, dtype=torch.int64, device=tags_BL.device)
    for out, values in zip(spans, (start, end, label_BL[row, start].long()), strict=True):
        out[row, place] = values
    return spans[0], spans[1], spans[2]


def pool_spans(hidden_BLH: Tensor, starts_BS: Tensor, ends_BS: Tensor) -> Tensor:
    """Return the mean of each mention's hidden states `[B, S, H]`, zeros where there is none (Eq. 9).

    Args:
        hidden_BLH: Any float.
        starts_BS: int64, -1 where there is none.
        ends_BS: int64, half open.
    """
    t_L = torch.arange(hidden_BLH.shape[1], device=hidden_BLH.device)
    inside_BSL = (t_L >= starts_BS[..., None]) & (t_L < ends_BS[..., None])
    sums_BSH = inside_BSL.to(hidden_BLH.dtype) @ hidden_BLH
    return sums_BSH / (ends_BS - starts_BS).clamp(min=1)[..., None]
