"""Which tokens can still be masked, and how many a row has."""

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
    """Return which tokens can be masked, `[T]`, and how many of each row are not special, `[N]`.

    Args:
        examples: N rows of T tokens.
        builder: The tokens masked so far.
        unknown: Whether `[UNK]` can be masked.
    """
    ids = examples.input_ids
    pool = np.empty(len(ids.values), np.uint8)
    real = np.empty(len(examples), np.int64)
    unk = -1 if unknown else examples.ids.unk
    open_pool(ids.offsets, examples.word_ids.values, ids.values, unk, builder.kinds, pool, real)
    return pool, real


def count_masked(examples: Examples, builder: PlanBuilder) -> npt.NDArray[np.int64]:
    """Return how many tokens of each row are masked already, `[N]`."""
    masked = make_offsets(builder.kinds > 0)
    return np.diff(masked[examples.input_ids.offsets])


def real_tokens(examples: Examples) -> npt.NDArray[np.int64]:
    """Return how many tokens of each row are not special, `[N]`."""
    real = np.empty(len(examples), np.int64)
    count_numbered(examples.input_ids.offsets, examples.word_ids.values, real)
    return real
