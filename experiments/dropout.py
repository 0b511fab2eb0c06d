"""Dropout with fast random numbers on a CPU.

torch draws one Mersenne Twister number per value, a fifth of a fine-tuning step here. A number of
NumPy's SFC64 serves four values with 16 bits each.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

_VALUES = 1 << 16


@contextmanager
def cheap_dropout(seed: int) -> Iterator[None]:
    """Replace the random numbers of `torch.nn.functional.dropout` by SFC64's.

    The probability is rounded to 16 bits. Kept values are scaled to preserve the mean.

    Args:
        seed: Seed. The same calls with the same seed drop the same values.
    """
    draws = np.random.SFC64(seed)
    usual = torch.nn.functional.dropout

    def dropout(
        input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:
        dropped = round(p * _VALUES)
        if not training or not dropped or dropped == _VALUES or inplace:
            return usual(input, p, training, inplace)
        raw = draws.random_raw((input.numel() + 3) // 4).view(np.uint16)[: input.numel()]
        stays = torch.from_numpy(raw >= dropped).view(input.shape).to(input.dtype)
        return input * stays.mul_(_VALUES / (_VALUES - dropped))

    torch.nn.functional.dropout = dropout
    try:
        yield
    finally:
        torch.nn.functional.dropout = usual
