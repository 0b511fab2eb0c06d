"""Samplers of a dataset's rows, by the options of batches."""

from __future__ import annotations

from typing import Any

from mslm_data.batches.batch_options import BatchOptions
from mslm_data.torch.data.sampler import ShardSampler


def sampler_of(
    dataset: Any,
    *,
    epoch: int | None = None,
    rank: int | None = 0,
    world: int | None = 1,
    **options: Any,
) -> ShardSampler:
    """Return the sampler of `dataset.loader(**options)`, for any DataLoader; or that of rows."""
    options = {"seed": getattr(dataset, "seed", 0)} | options
    if epoch is None:
        epoch = getattr(dataset, "epoch", None) or 0
    rows = getattr(dataset, "split", dataset)
    return ShardSampler(rows, BatchOptions(**options), epoch=epoch, rank=rank, world=world)
