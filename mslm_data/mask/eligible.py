"""Find and count the tokens that can still be masked."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, make_offsets
from mslm_data.kernels.tokens import count_numbered, open_pool
from mslm_data.mask.plan import PlanBuilder


def free_tokens(
    examples: Examples, builder: PlanBuilder, *, unknown: bool = False
) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return the free tokens, uint8 `[T]`, and the number of non-special tokens per row, `[N]`.

    A token is free if it is neither special nor masked.

    Args:
        examples: N rows of T tokens.
        builder: The plan so far.
        unknown: Whether `[UNK]` can be free. Default: False.
    """
    ids = examples.input_ids
    pool = np.empty(len(ids.values), np.uint8)
    real = np.empty(len(examples), np.int64)
    unk = -1 if unknown else examples.ids.unk
    open_pool(ids.offsets, examples.word_ids.values, ids.values, unk, builder.kinds, pool, real)
    return pool, real


def count_masked(examples: Examples, builder: PlanBuilder) -> npt.NDArray[np.int64]:
    """Count the masked tokens of each row, `[N]`."""
    running_total = make_offsets(builder.kinds > 0)
    return np.diff(running_total[examples.input_ids.offsets])


def real_tokens(examples: Examples) -> npt.NDArray[np.int64]:
    """Count the non-special tokens of each row, `[N]`."""
    real = np.empty(len(examples), np.int64)
    count_numbered(examples.input_ids.offsets, examples.word_ids.values, real)
    return real
