"""Losses of a step that sees many batches (gradient accumulation, ranks), exact for all three parts of Eq. 12.

A trainer tells the model how many masked tokens a step has. Tagged tokens, mentions and sequences it does not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from mslm_data.kernels.pad import IGNORED
from mslm_data.torch.spans import NO_SPAN

COUNTED = ("labels", "bio", "span_labels", "input_ids")
"""What `counts_of` counts, in this order: masked tokens, tagged tokens, mentions, sequences."""


def counts_of(batches: Sequence[Mapping[str, Tensor]]) -> Tensor:
    """Return int64 `[4]`: masked tokens, tagged tokens, mentions and sequences of batches; 0 of what they lack."""
    counts = torch.zeros(len(COUNTED), dtype=torch.int64)
    for batch in batches:
        for i, (name, nothing) in enumerate(
            zip(COUNTED[:3], (IGNORED, IGNORED, NO_SPAN), strict=True)
        ):
            if name in batch:
                counts[i] += (batch[name] != nothing).sum().cpu()
        counts[3] += len(batch["input_ids"])
    return counts


class CountedSteps:
    """For a Hugging Face Trainer of an `MslmModel`: `class JointTrainer(CountedSteps, Trainer): pass`.

    The plain Trainer is exact for Eq. 6 as a mean; with this Eq. 8 and Eq. 11 are as well, and the sums.
    """

    def _get_num_items_in_batch(
        self, batch_samples: Sequence[Mapping[str, Tensor]], device: torch.device
    ) -> Any:
        """Count the batches of a step, of all ranks where the Trainer averages over them."""
        of: Any = self
        counts = counts_of(batch_samples).to(device)
        if of.args.average_tokens_across_devices and of.args.world_size > 1:
            counts = of.accelerator.reduce(counts, reduction="sum")
        return counts.expand(of.args.n_gpu, -1) if of.args.n_gpu > 1 else counts


def divisors(
    num_items: Tensor | int | None, reduction: str
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return what Eq. 6, 8 and 11 are divided by for a step of the counts of `counts_of`; else None, their own."""
    if not isinstance(num_items, Tensor) or num_items.numel() != len(COUNTED):
        return None, None, None
    masked, tagged, mentions, rows = num_items.flatten().unbind()
    return (rows, rows, rows) if reduction == "sum" else (masked, tagged, mentions)


def share(num_items: Tensor | int | None, labels_BL: Tensor | None) -> Tensor | float:
    """Return a batch's share of the masked tokens of its step, where only those are known; else 1."""
    if num_items is None or labels_BL is None:
        return 1.0
    of_step = torch.as_tensor(num_items, device=labels_BL.device).flatten()
    if len(of_step) == len(COUNTED):
        return 1.0
    own = (labels_BL != IGNORED).sum()
    return torch.where(of_step[0] > 0, own / of_step[0].clamp(min=1), 1.0)
