"""Divides the losses of Eq. 12 by the item counts of the whole optimizer step.

A step may have several batches, on several ranks. Dividing each batch's sum by the count of the
whole step gives the exact gradient. Dividing by each batch's own count does not: a batch with few
masked tokens would have as much influence as a batch with many.

Dimensions: P losses of Eq. 12, at most three: Eq. 6, 8 and 11.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from mslm_data.kernels.pad import IGNORED
from mslm_data.torch.model.loss import LossSum
from mslm_data.torch.model.ranges import NO_SPAN

PARTS = ("mslm_loss", "detection_loss", "classification_loss")
"""Names of the three losses in a model's output: Eq. 6, 8 and 11."""
BALANCES = ("means", "sums")
"""How the losses of Eq. 12 are divided, see `divide`."""

NORMALISERS = ("tokens", "masked", "rows")
"""Divisor of Eq. 6 for masked diffusion: non-special tokens, masked tokens, or rows."""

_ITEMS = (("labels", IGNORED), ("bio", IGNORED), ("span_labels", NO_SPAN))
"""For each loss, the tensor whose elements are counted, and its value for missing items."""
_COUNTS = len(PARTS) + 1
"""Length of a step's counts: the items of each loss, then rows."""
_COUNT_INDEX = {"masked": 0, "tokens": 1, "rows": 3}
"""Normaliser -> its index in the counts. Tokens with a tag are exactly the non-special tokens."""


def count_normaliser(batch: Mapping[str, Any], normaliser: str) -> Tensor:
    """Count the divisor of Eq. 6 in one batch, int64.

    Raises:
        ValueError: The batch lacks the tensor to count.
    """
    column = {"masked": "labels", "tokens": "bio", "rows": "keys"}[normaliser]
    values = batch.get(column)
    if values is None:
        raise ValueError(
            f"MslmModel: the batch has no '{column}', needed to count {normaliser}; make batches "
            "with MaskedDataset or MaskingCollator, with all their columns"
        )
    if normaliser == "rows":
        return torch.tensor(values.numel(), device=values.device)
    items: Tensor = (values != IGNORED).sum()
    return items


def count_items(
    batches: Iterable[Mapping[str, Any]],
    *,
    averaged_over: int = 1,
    device: torch.device | None = None,
) -> Tensor:
    """Count the items in all batches of an optimizer step.

    Pass the result to the model with each batch of the step, and call `backward` on each loss
    unscaled::

        items = count_items(batches)
        for batch in batches:
            model(**batch, num_items_in_batch=items).loss.backward()
        optimizer.step()

    With `torch.distributed`, all ranks must call it together. Counts are summed over ranks and
    divided by their number, since DistributedDataParallel averages gradients.

    Args:
        batches: This rank's batches of the step.
        averaged_over: Divisor that is applied to each loss later: `gradient_accumulation_steps` if
            accelerate handles accumulation. Default: 1.
        device: Device of the counts; NCCL needs a GPU. Default: the device of the batches.

    Returns:
        float32 `[4]`: masked tokens, tagged tokens, mentions, rows; 0 for columns that are missing.
    """
    batches = list(batches)
    if device is None and batches:
        device = batches[0]["input_ids"].device

    counts = torch.zeros(_COUNTS, dtype=torch.int64, device=device)
    for batch in batches:
        counts += count_batch_items(batch).to(counts.device)

    over_ranks, ranks = _sum_over_ranks(counts)
    return over_ranks.to(torch.float32) / (ranks * averaged_over)


def count_batch_items(batch: Mapping[str, Any]) -> Tensor:
    """Count masked tokens, tagged tokens, mentions and rows of one batch, int64 `[4]`."""
    counts = torch.zeros(_COUNTS, dtype=torch.int64, device=batch["input_ids"].device)
    for part, (name, missing) in enumerate(_ITEMS):
        if name in batch:
            counts[part] = (batch[name] != missing).sum()
    if "keys" in batch:
        counts[-1] = batch["keys"].numel()
    return counts


def divide(
    sums: Mapping[str, LossSum],
    *,
    balance: str,
    normaliser: str = "masked",
    num_items: Tensor | int | None = None,
    training: bool = False,
) -> dict[str, Tensor]:
    """Divide the losses of Eq. 12 so that the batches of a step add up to the loss of the step.

    With `balance="means"`, each loss is divided by its own count: Eq. 6 by masked tokens, Eq. 8 by
    tagged tokens, Eq. 11 by mentions. Their proportions then do not depend on the masking rate.
    With `balance="sums"`, all are divided by the count of the first, which keeps the proportions of
    the paper's sums.

    Args:
        sums: Losses by name, in the order of `PARTS`.
        balance: "means" or "sums".
        normaliser: Items of the first loss, one of `NORMALISERS`.
        num_items: Counts of the step over all batches and ranks: `[4]` from `count_items`, or the
            count of the first loss, as passed by the Trainer. Default: the counts of this batch,
            summed over ranks in training.
        training: Whether ranks train together, and sum their counts here.

    Raises:
        ValueError: The counts of the step are unknown.
    """
    if not sums:
        return {}

    counts_P = _count_step(
        sums, balance=balance, normaliser=normaliser, num_items=num_items, training=training
    )
    if balance == "sums":
        # One count for all losses: the first that is not 0, so that a step without masked tokens
        # keeps its scale.
        first = (counts_P > 0).to(torch.uint8).argmax(keepdim=True)
        counts_P = counts_P.gather(0, first).expand(len(sums))

    counts = zip(sums.items(), counts_P.unbind(), strict=True)
    return {name: part.per_item(count) for (name, part), count in counts}


def check_not_accumulated(loss: Tensor, model: nn.Module) -> None:
    """Raise a ValueError in `loss.backward()` if other gradients are already there.

    The loss was divided by the counts of its own batch, so accumulated gradients would not be those
    of the step.
    """

    def check_gradients(_: Tensor) -> None:
        # Smallest gradients first: one non-zero value is enough. Not only the smallest, since some
        # are always 0, such as that of a single type's bias.
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        if any(bool(gradient.any()) for gradient in sorted(gradients, key=Tensor.numel)):
            raise ValueError(
                "MslmModel: gradients of several batches are accumulated without "
                "num_items_in_batch, so each would be divided by its own counts; pass "
                "num_items_in_batch=count_items(batches) with all batches of the step (or this "
                "one, to divide by its own counts); in Lightning, leave out "
                "accumulate_grad_batches and use larger batches, or count in manual optimization"
            )

    loss.register_hook(check_gradients)  # type: ignore[no-untyped-call]


def _count_step(
    sums: Mapping[str, LossSum],
    *,
    balance: str,
    normaliser: str,
    num_items: Tensor | int | None,
    training: bool,
) -> Tensor:
    """Return the count of each loss over the whole step, float32 `[P]`."""
    batch_P = torch.stack([part.items for part in sums.values()]).to(torch.float32)

    # No counts passed: the step is this batch, on all ranks.
    if num_items is None:
        if not training:
            return batch_P
        if _accelerate_accumulates():
            raise ValueError(
                "MslmModel: accelerate accumulates gradients of several batches, which needs "
                "num_items_in_batch; pass num_items_in_batch=count_items(batches, "
                "averaged_over=N) with all N batches of the step, or train with "
                "mslm_data.torch.MslmTrainer"
            )
        step_P, ranks = _sum_over_ranks(batch_P)
        return step_P / ranks

    counts = torch.as_tensor(num_items, device=batch_P.device).flatten().to(torch.float32)

    # All counts passed: take those of the losses in this batch.
    if len(counts) == _COUNTS:
        indices = [PARTS.index(name) for name in sums]
        if indices[0] == 0:
            indices[0] = _COUNT_INDEX[normaliser]
        return counts[indices]

    # Only the number of masked tokens passed, by Hugging Face's Trainer.
    if normaliser != "masked":
        raise ValueError(
            "MslmModel: num_items_in_batch is the number of masked tokens, but the loss is "
            f"divided by {normaliser}; train with mslm_data.torch.MslmTrainer in place of "
            "Trainer, or pass num_items_in_batch=count_items(batches)"
        )

    # It is enough for Eq. 6 alone, and as the common divisor.
    if len(sums) == 1 or (balance == "sums" and bool(counts[0] > 0)):
        return counts[0].expand(len(sums))

    # The other counts are known only if the step is this batch, on all ranks: then the number of
    # masked tokens is the same.
    step_P, _ = _sum_over_ranks(batch_P)
    if _accelerate_accumulates() or bool(step_P[0] != counts[0]):
        raise ValueError(
            f"MslmModel: num_items_in_batch is the number of masked tokens ({counts[0]:g}) of "
            "several batches, but Eq. 8 and 11 need counts of tagged tokens and mentions too; "
            "train with mslm_data.torch.MslmTrainer in place of Trainer, pass "
            "num_items_in_batch=count_items(batches), or wrap the model with balance='sums'"
        )
    return step_P


def _sum_over_ranks(counts: Tensor) -> tuple[Tensor, int]:
    """Sum counts over all ranks; return the sum and the number of ranks."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return counts, 1

    summed = counts.clone()
    distributed.all_reduce(summed)
    return summed, distributed.get_world_size()


def _accelerate_accumulates() -> bool:
    """Return whether accelerate accumulates gradients of several batches.

    Hugging Face's Trainer uses accelerate too, and sets `sync_gradients` itself.
    """
    accelerate = sys.modules.get("accelerate.state")
    if accelerate is None or not accelerate.GradientState._shared_state:
        return False

    state = accelerate.GradientState()
    return bool(state.num_steps > 1 or not state.sync_gradients)
