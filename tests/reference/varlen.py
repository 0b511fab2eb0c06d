"""The slow obvious twin of torch's kernel for attention over rows of different lengths."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor


def varlen_attn(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor,
    max_q: int,
    max_k: int,
    *,
    return_aux: Any = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
) -> Tensor:
    """Attend within each row, in float32; demands of the arguments what the kernel relies on.

    Args:
        query: `[T, H, D]`.
        key: `[T, H, D]`.
        value: `[T, H, D]`.
        cu_seq_q: int32 `[R + 1]`, where each row begins.
        cu_seq_k: int32 `[R + 1]`.
        max_q: The longest row's length.
        max_k: The same.
        return_aux: Not known here.
        scale: Of scores; None: by the square root of D.
        window_size: Tokens that a token sees to the left and to the right; -1: all.
    """
    assert return_aux is None
    assert query.stride(-1) == key.stride(-1) == value.stride(-1) == 1
    assert cu_seq_q.dtype == cu_seq_k.dtype == torch.int32
    assert cu_seq_q.device == cu_seq_k.device == query.device
    bounds = cu_seq_q.tolist()
    assert bounds == cu_seq_k.tolist()
    assert (bounds[0], bounds[-1]) == (0, len(query))
    assert max_q == max_k == max(end - start for start, end in pairwise(bounds))

    left, right = (float("inf") if size == -1 else size for size in window_size)
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    rows = []
    for start, end in pairwise(bounds):
        q, k, v = (x[start:end].transpose(0, 1).float() for x in (query, key, value))
        scores = factor * q @ k.transpose(1, 2)
        at = torch.arange(end - start, device=query.device)
        ahead = at[None, :] - at[:, None]
        scores = scores.masked_fill((ahead > right) | (-ahead > left), -float("inf"))
        rows.append((scores.softmax(-1) @ v).transpose(0, 1))
    return torch.cat(rows).to(query.dtype)
