"""Counts for the loss: the divisor of a step, and the weights of its three parts.

The loss of an optimizer step is (a S_mslm + S_det + c S_cls) / N: the sums of Eq. 6, 8 and 11 over
all batches and ranks of the step, and N, its number of non-special tokens. The weights a and c are
constants that are counted before training, like those of Eq. 5. So a batch's loss is its share of
the step's loss, and the gradients of its batches and ranks add up to those of one large batch.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from mslm_data.kernels.pad import IGNORED
from mslm_data.mask.plan import MaskKind
from mslm_data.stats.weights import mask_specific_weights
from mslm_data.torch.model.ranges import NO_SPAN

PARTS = ("mslm_loss", "detection_loss", "classification_loss")
"""Names of the three losses in a model's output: Eq. 6, 8 and 11."""


def loss_weights(
    batches: Iterable[Mapping[str, Any]], *, steps: int | None = None
) -> dict[str, float]:
    """Count the weights of the loss before training.

    They are options of `MslmModel.wrap`::

        batches = md.Batches(shards["train"], strategy, batch_size=64)
        model = MslmModel.wrap(masked_lm, labels=shards.labels, **loss_weights(batches))

    A step's parts are then about the mean losses of its masked tokens, its tokens and its mentions,
    so their proportions do not depend on the masking rate.

    If the rate follows steps or tokens, pass the batches and the number of steps of the training.
    In a curriculum, count each part by itself, and pass its weights to
    `MslmModel.set_loss_weights` when it begins. A few thousand batches of a large corpus are
    enough.

    Args:
        batches: Batches of the training rows, NumPy arrays or tensors. They are counted as seen:
            `md.Batches` for the purpose leave the training's own at its beginning.
        steps: Number of batches to count, in as many passes as it takes. Default: those of one
            pass.

    Returns:
        `w_elm` and `w_blm` of Eq. 5; `w_mslm`, tokens per masked token; `w_classification`, tokens
        per mention. The last two are 1 if there are none.

    Raises:
        ValueError: A batch has no `bio`, or a pass has no batch.
    """
    tokens = elm = blm = mentions = 0
    for batch in _take(batches, steps):
        tokens += int((tags(batch) != IGNORED).sum())
        elm += int((batch["mask_kinds"] == int(MaskKind.ENTITY)).sum())
        blm += int((batch["mask_kinds"] == int(MaskKind.BASE)).sum())
        mentions += int((batch["span_labels"] != NO_SPAN).sum())

    w_elm, w_blm = mask_specific_weights(elm, blm)
    return {
        "w_elm": w_elm,
        "w_blm": w_blm,
        "w_mslm": tokens / (elm + blm) if elm + blm else 1.0,
        "w_classification": tokens / mentions if mentions else 1.0,
    }


def _take(batches: Iterable[Mapping[str, Any]], steps: int | None) -> Iterator[Mapping[str, Any]]:
    """Yield the batches of one pass; with a number of steps, of as many passes as it takes."""
    if steps is None:
        yield from batches
        return

    missing = steps
    while missing:
        before = missing
        for batch in itertools.islice(batches, missing):
            yield batch
            missing -= 1
        if missing == before:
            raise ValueError(f"steps: expected {steps:,} batches, got {steps - missing:,}")


def count_tokens(
    batches: Iterable[Mapping[str, Any]],
    *,
    averaged_over: int = 1,
    over_ranks: bool = True,
    device: torch.device | None = None,
) -> Tensor:
    """Count the non-special tokens in all batches of an optimizer step.

    Pass the result to the model with each batch of the step, and call `backward` on each loss
    unscaled::

        tokens = count_tokens(batches)
        for batch in batches:
            model(**batch, num_items_in_batch=tokens).loss.backward()
        optimizer.step()

    With `torch.distributed`, all ranks must call it together. The count is summed over ranks and
    divided by their number, since DistributedDataParallel and FSDP average gradients.

    Args:
        batches: This rank's batches of the step.
        averaged_over: Divisor that is applied to each loss later: `gradient_accumulation_steps` if
            accelerate handles accumulation. Default: 1.
        over_ranks: Whether the step has batches on all ranks. Default: True.
        device: Device of the count; NCCL needs a GPU. Default: the device of the batches.

    Returns:
        float32 scalar, more than 0.

    Raises:
        ValueError: A batch has no `bio`.
    """
    counts = [(tags(batch) != IGNORED).sum() for batch in batches]
    if device is None and counts:
        device = counts[0].device
    tokens = torch.zeros((), device=device)
    for count in counts:
        tokens += count.to(device)

    distributed = torch.distributed
    if over_ranks and distributed.is_available() and distributed.is_initialized():
        distributed.all_reduce(tokens)
        averaged_over *= distributed.get_world_size()
    return tokens.clamp(min=1) / averaged_over


def tags(batch: Mapping[str, Any]) -> Any:
    """Return a batch's tags, which are -100 on special tokens and padding alone.

    Raises:
        ValueError: The batch has none.
    """
    bio = batch.get("bio")
    if bio is None:
        raise ValueError(
            "MslmModel: the batch has no 'bio', which marks the tokens by whose number the loss is "
            "divided; make batches with MaskedDataset or MaskingCollator, or pass "
            "num_items_in_batch"
        )
    return bio
