"""Divides the losses of Eq. 12 by the item counts of the whole optimizer step.

A step may see several batches, on several ranks. Its gradient is exact where each batch's sum is
divided by the count of the whole step, and wrong where each batch is divided by a count of its own.
Such means of means lose most where batches differ: a batch with few masked tokens pulls as hard as
one with many.

Dimensions: P parts of a loss, at most three: Eq. 6, 8 and 11.
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
"""The parts of Eq. 12, by their names in a model's output: Eq. 6, 8 and 11."""
BALANCES = ("means", "sums")
"""How Eq. 12 weighs its parts against each other, see `divide`."""

NORMALISERS = ("tokens", "masked", "rows")
"""What Eq. 6 is divided by where its tokens are divided by their rates: the tokens of the rows that
are not special, masked tokens, or rows."""

_ITEMS = (("labels", IGNORED), ("bio", IGNORED), ("span_labels", NO_SPAN))
"""Items that each part is a sum over: a tensor of the batch, and the value that marks a missing
item."""
_COUNTS = len(PARTS) + 1
"""Counts of a step: the items of each part, and rows."""
_PLACE_OF = {"masked": 0, "tokens": 1, "rows": 3}
"""Normaliser -> its place among the counts. Tagged tokens are all that are not special."""


def count_normaliser(batch: Mapping[str, Any], normaliser: str) -> Tensor:
    """Count what Eq. 6 is divided by in one batch, int64.

    Raises:
        ValueError: The batch lacks the tensor by which it is counted.
    """
    needs = {"masked": "labels", "tokens": "bio", "rows": "keys"}[normaliser]
    counted = batch.get(needs)
    if counted is None:
        raise ValueError(
            f"MslmModel: expected '{needs}' in the batch, by which {normaliser} are counted, got "
            "none; make batches with MaskedDataset or MaskingCollator, with all their columns"
        )
    if normaliser == "rows":
        return torch.tensor(counted.numel(), device=counted.device)
    items: Tensor = (counted != IGNORED).sum()
    return items


def count_items(
    batches: Iterable[Mapping[str, Any]],
    *,
    averaged_over: int = 1,
    device: torch.device | None = None,
) -> Tensor:
    """Count masked tokens, tagged tokens, mentions and rows of all batches of one optimizer step.

    Hand the result to the model with each of these batches, and call `backward` on each loss as it
    is::

        items = count_items(batches)
        for batch in batches:
            model(**batch, num_items_in_batch=items).loss.backward()
        optimizer.step()

    Where `torch.distributed` runs, all ranks must call it together. It counts the batches of all of
    them, and divides by the number of ranks, as DistributedDataParallel averages gradients over
    ranks.

    Args:
        batches: This rank's batches of the step.
        averaged_over: What each loss is divided by later: `gradient_accumulation_steps` if
            accelerate knows of them.
        device: Where to count; None is where the batches are. NCCL wants a GPU.

    Returns:
        float32 `[4]`: masked tokens, tagged tokens, mentions, rows; 0 for what the batches lack.
    """
    batches = list(batches)
    if device is None and batches:
        device = batches[0]["input_ids"].device

    counts = torch.zeros(_COUNTS, dtype=torch.int64, device=device)
    for batch in batches:
        counts += count_batch_items(batch).to(counts.device)

    over_ranks, ranks = _over_ranks(counts)
    return over_ranks.to(torch.float32) / (ranks * averaged_over)


def count_batch_items(batch: Mapping[str, Any]) -> Tensor:
    """Count the items of each part of the loss, and rows, in a batch of this rank, int64 `[4]`."""
    counts = torch.zeros(_COUNTS, dtype=torch.int64, device=batch["input_ids"].device)
    for part, (name, nothing) in enumerate(_ITEMS):
        if name in batch:
            counts[part] = (batch[name] != nothing).sum()
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
    """Divide the parts of Eq. 12 so that the batches of a step sum to the loss of the step.

    `balance` "means" divides each part by its own count: Eq. 6 by masked tokens, Eq. 8 by tagged
    tokens, Eq. 11 by mentions. So each part is a mean, and they weigh alike however many tokens are
    masked. The paper adds plain sums; "sums" keeps that balance and divides all three by one count,
    that of the first part.

    Args:
        sums: Parts by name, in the order of `PARTS`.
        balance: "means" or "sums".
        normaliser: What the items of the first part are, one of `NORMALISERS`.
        num_items: `[4]` of `count_items`; or the count of the first part alone, over all batches
            and ranks of the step, as Hugging Face's Trainer gives it. None: the step is this batch,
            on all ranks.
        training: Whether ranks train together, so that they meet here to add up their counts.

    Raises:
        ValueError: The counts of the step cannot be known from what is given.
    """
    if not sums:
        return {}

    counts_P = _count_step(
        sums, balance=balance, normaliser=normaliser, num_items=num_items, training=training
    )
    if balance == "sums":
        # One count for all: the first, or the first that is not 0, so that a step without masks
        # keeps its scale.
        first = (counts_P > 0).to(torch.uint8).argmax(keepdim=True)
        counts_P = counts_P.gather(0, first).expand(len(sums))

    counts = zip(sums.items(), counts_P.unbind(), strict=True)
    return {name: part.per_item(count) for (name, part), count in counts}


def check_not_accumulated(loss: Tensor, model: nn.Module) -> None:
    """Raise an error in `backward` if gradients of other batches are already there.

    Its counts are those of its own batch, so the sum would not be the gradient of the step. The
    error is a ValueError, raised by `loss.backward()`.
    """

    def look(_: Tensor) -> None:
        # From the smallest on, as one that is not 0 is enough. Some always are, such as that of the
        # one type's bias where there is one type.
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        if any(bool(gradient.any()) for gradient in sorted(gradients, key=Tensor.numel)):
            raise ValueError(
                "MslmModel: gradients of several batches are accumulated without "
                "num_items_in_batch, so each would be divided by its own counts; pass "
                "num_items_in_batch=count_items(batches) with all batches of the step (or this "
                "one, to divide by its own counts); in Lightning, leave out "
                "accumulate_grad_batches and use larger batches, or count in manual optimization"
            )

    loss.register_hook(look)  # type: ignore[no-untyped-call]


def _count_step(
    sums: Mapping[str, LossSum],
    *,
    balance: str,
    normaliser: str,
    num_items: Tensor | int | None,
    training: bool,
) -> Tensor:
    """Return the count of each part over the whole step, float32 `[P]`."""
    own_P = torch.stack([part.items for part in sums.values()]).to(torch.float32)

    if num_items is None:
        if not training:
            return own_P
        if _accelerate_accumulates():
            raise ValueError(
                "MslmModel: accelerate accumulates gradients of several batches, which needs "
                "num_items_in_batch; pass num_items_in_batch=count_items(batches, "
                "averaged_over=N) with all N batches of the step, or train with "
                "mslm_data.torch.MslmTrainer"
            )
        over_ranks_P, ranks = _over_ranks(own_P)
        return over_ranks_P / ranks

    given = torch.as_tensor(num_items, device=own_P.device).flatten().to(torch.float32)
    if len(given) == _COUNTS:
        places = [PARTS.index(name) for name in sums]
        if places[0] == 0:
            places[0] = _PLACE_OF[normaliser]
        return given[places]
    if normaliser != "masked":
        raise ValueError(
            f"MslmModel: expected the counts of a step, got its masked tokens alone, where the "
            f"loss is divided by {normaliser}; train with mslm_data.torch.MslmTrainer in place of "
            "Trainer, or pass num_items_in_batch=count_items(batches)"
        )

    # One number, as Hugging Face's Trainer has it, is enough for one part, and for all that it
    # divides.
    if len(sums) == 1 or (balance == "sums" and bool(given[0] > 0)):
        return given[0].expand(len(sums))

    # The other counts can be known only if the step is this very batch, on all ranks.
    over_ranks_P, _ = _over_ranks(own_P)
    if _accelerate_accumulates() or bool(over_ranks_P[0] != given[0]):
        raise ValueError(
            f"MslmModel: num_items_in_batch is the number of masked tokens ({given[0]:g}) of "
            "several batches, but Eq. 8 and 11 need counts of tagged tokens and mentions too; "
            "train with mslm_data.torch.MslmTrainer in place of Trainer, pass "
            "num_items_in_batch=count_items(batches), or wrap the model with balance='sums'"
        )
    return over_ranks_P


def _over_ranks(counts: Tensor) -> tuple[Tensor, int]:
    """Sum counts over all ranks; return the sum and the number of ranks."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return counts, 1

    summed = counts.clone()
    distributed.all_reduce(summed)
    return summed, distributed.get_world_size()


def _accelerate_accumulates() -> bool:
    """Return whether accelerate accumulates gradients of several batches.

    Hugging Face's Trainer uses it too, and sets `sync_gradients` itself.
    """
    accelerate = sys.modules.get("accelerate.state")
    if accelerate is None or not accelerate.GradientState._shared_state:
        return False

    state = accelerate.GradientState()
    return bool(state.num_steps > 1 or not state.sync_gradients)
