"""Batches as tensors, with the requested columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from mslm_data.batches.collate import FLAT_COLUMNS, Batch
from mslm_data.registry import check_names, did_you_mean

COLUMNS = (
    "input_ids",
    "attention_mask",
    "labels",
    "mask_kinds",
    "mask_rates",
    "bio",
    "span_starts",
    "span_ends",
    "span_labels",
    "keys",
    "doc_labels",
    "loss_weights",
    "objective",
    *FLAT_COLUMNS,
)
"""Names of a batch's arrays; see `mslm_data.batches.collate.Batch` for dtypes and shapes."""


def check_columns(columns: Sequence[str] | None) -> None:
    """Check the names of requested columns.

    Raises:
        TypeError: A single name, not a list.
        ValueError: A column is unknown.
    """
    check_names("columns", columns)
    for name in columns or ():
        if name not in COLUMNS:
            raise ValueError(f"columns: unknown column '{name}'{did_you_mean(name, COLUMNS)}")


def to_tensors(batch: Batch, columns: Sequence[str] | None) -> dict[str, Tensor]:
    """Convert a batch to tensors, which share its memory.

    Args:
        batch: Arrays by name.
        columns: Requested columns; those that the batch does not have are left out. Default: all.
    """
    # Torch has few operations on uint64: the keys keep their bits as int64.
    arrays = batch | {"keys": batch["keys"].view(np.int64)}

    return {name: torch.from_numpy(arrays[name]) for name in columns or arrays if name in arrays}
