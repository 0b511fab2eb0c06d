"""Train models with AdamW: one loop for heads, adaptation, fine-tuning and classifiers.

A batch becomes one or more forward passes, its views, and their losses are added. The paper's joint
training is one pass on the masked rows; two views are two passes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import mslm_data as md
from experiments.dropout import cheap_dropout
from mslm_data.mask.strategy import Strategy
from mslm_data.shard.split import Rows
from mslm_data.torch import count_tokens, loss_weights
from mslm_data.torch.model.forward import evaluating, find_device

WARM = 0.1
"""Share of warm-up steps. The learning rate rises linearly, then falls linearly to 0."""

Inputs = dict[str, Tensor]
Views = Callable[[Mapping[str, Any]], Sequence[Inputs]]
"""Returns the arguments of each forward pass of a batch."""

_ROWS = ("input_ids", "attention_mask")
_TAGS = ("bio", "span_starts", "span_ends", "span_labels")
_MASKS = ("labels", "mask_kinds")


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Length and speed of training.

    Attributes:
        epochs: Number of epochs, each with new masks.
        batch_size: Number of rows per step.
        rate: Peak learning rate.
    """

    epochs: int
    batch_size: int
    rate: float


def optimise(
    model: Any,
    split: Rows,
    strategy: Strategy | None,
    views: Views,
    schedule: Schedule,
    *,
    seed: int,
    dropout: bool = True,
    around: AbstractContextManager[Any] | None = None,
) -> dict[str, Any]:
    """Train the parameters of a model that require gradients.

    Args:
        model: Model. It is called with the arguments from `views` and returns a `loss`.
        split: Rows. They come in length buckets, in an order that depends on the seed alone.
        strategy: Masking strategy; None for no masking.
        views: See `Views`.
        schedule: Epochs, batch size and learning rate.
        seed: Seed of order, masks and dropout.
        dropout: Whether to use the model's dropout. Default: True.
        around: Context to take all steps in. Default: None.

    Returns:
        `steps`; `tokens`, the number of tokens of all forward passes, without padding; and `loss`,
        the mean over the last tenth of the steps.
    """
    batches = md.Batches(
        split,
        strategy or md.strategy("joint", elm=0, blm=0),
        batch_size=schedule.batch_size,
        seed=seed,
        bucketed=True,
    )
    total = sum(1 for _ in _epochs(batches, schedule.epochs, count_only=True))
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(parameters, lr=schedule.rate, fused=True)
    rates = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: rate_at(step, total))

    torch.manual_seed(seed)
    model.train()
    if not dropout:
        for part in model.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0
    device = find_device(model)
    losses: list[float] = []
    tokens = 0
    draws = cheap_dropout(seed) if device.type == "cpu" else nullcontext()
    with around or nullcontext(), draws:
        for batch in _epochs(batches, schedule.epochs):
            loss = 0.0
            for view in views(batch):
                with torch.autocast(device.type, torch.bfloat16):
                    part = model(**{name: x.to(device) for name, x in view.items()}).loss
                part.backward()
                loss += float(part.detach())
                tokens += int(view["attention_mask"].sum())

            optimiser.step()
            rates.step()
            optimiser.zero_grad()
            losses.append(loss)

    last = losses[-max(1, len(losses) // 10) :]
    return {"steps": len(losses), "tokens": tokens, "loss": round(sum(last) / len(last), 4)}


@contextmanager
def reading(model: Any) -> Iterator[torch.device]:
    """Disable gradients and dropout and use bfloat16; yield the model's device."""
    device = find_device(model)
    with evaluating(model), torch.inference_mode(), torch.autocast(device.type, torch.bfloat16):
        yield device


def rate_at(step: int, total: int) -> float:
    """Return the learning rate of a step as a share of its peak."""
    warm = max(1, round(WARM * total))
    if step < warm:
        return (step + 1) / warm
    return max(0.0, (total - step) / max(1, total - warm))


def count_weights(split: Rows, strategy: Strategy | None, *, seed: int) -> dict[str, float]:
    """Count the weights of the loss with which its parts are means over their items.

    Those of term tokens and of other masked tokens are 1.
    """
    batches = md.Batches(split, strategy or md.strategy("unmasked"), batch_size=64, seed=seed)
    return loss_weights(batches) | {"w_elm": 1.0, "w_blm": 1.0}


def on_plain_rows(batch: Mapping[str, Any]) -> Sequence[Inputs]:
    """Detect and classify mentions in unmasked rows (Eq. 8 and 11)."""
    return [_tensors({**batch, "input_ids": unmasked(batch)}, (*_ROWS, *_TAGS))]


def on_masked_rows(batch: Mapping[str, Any]) -> Sequence[Inputs]:
    """Compute all losses on masked rows, as in the paper (Eq. 12)."""
    return [_tensors(batch, (*_ROWS, *_TAGS, *_MASKS))]


def in_two_views(batch: Mapping[str, Any]) -> Sequence[Inputs]:
    """Predict masked tokens (Eq. 6), and find mentions in the same rows unmasked.

    The same losses as `MslmModel(two_views=True)`, with one pass after the other and half of the
    memory.
    """
    plain, masked = *on_plain_rows(batch), *on_masked_tokens(batch)
    # The gradients of both passes add up.
    return [plain, masked]


def on_masked_tokens(batch: Mapping[str, Any]) -> Sequence[Inputs]:
    """Predict masked tokens only (Eq. 6)."""
    tokens = count_tokens([_tensors(batch, ("bio",))])
    return [{**_tensors(batch, (*_ROWS, *_MASKS)), "num_items_in_batch": tokens}]


def for_general_knowledge(batch: Mapping[str, Any]) -> Sequence[Inputs]:
    """Predict masked tokens, and pass the unmasked rows to DGA's contrastive loss."""
    plain = _tensors({**batch, "input_ids": unmasked(batch)}, _ROWS)
    return [*on_masked_tokens(batch), plain]


def unmasked(batch: Mapping[str, Any]) -> Any:
    """Return a batch's ids before masking, int64 `[B, L]`."""
    labels = batch["labels"]
    ids = batch["input_ids"].copy()
    ids[labels >= 0] = labels[labels >= 0]
    return ids


def _tensors(batch: Mapping[str, Any], names: Sequence[str]) -> Inputs:
    return {name: torch.from_numpy(batch[name]) for name in names}


def _epochs(
    batches: md.Batches, epochs: int, *, count_only: bool = False
) -> Iterator[Mapping[str, Any]]:
    for epoch in range(epochs):
        batches.epoch = epoch
        yield from itertools.repeat({}, len(batches)) if count_only else batches
