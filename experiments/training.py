"""Train a model by steps of AdamW: one loop for heads, adaptation, fine-tuning and classifiers.

A batch is turned into one or several calls of the model, its views, whose losses are added: the
paper's joint training is one call on the masked rows, two views are two.
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
from mslm_data.shard.row_protocol import Rows
from mslm_data.torch import count_items
from mslm_data.torch.model.forward import evaluating, find_device

WARM = 0.1
"""Share of the steps in which the learning rate rises; afterwards it falls to 0, both linearly."""

Inputs = dict[str, Tensor]
Views = Callable[[Mapping[str, Any]], Sequence[Inputs]]
"""Makes of a batch the arguments of each call of the model."""

_ROWS = ("input_ids", "attention_mask")
_TAGS = ("bio", "span_starts", "span_ends", "span_labels")
_HIDDEN = ("labels", "mask_kinds")


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How long and how fast a model is trained.

    Attributes:
        epochs: Passes over the rows, each with masks of its own.
        batch_size: Rows of a step.
        rate: Highest learning rate.
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
    """Train those parameters of a model that require gradients.

    Args:
        model: Called with the arguments that `views` makes; its output has a `loss`.
        split: Rows, in length buckets; their order follows from the seed alone.
        strategy: What is hidden; None hides nothing.
        views: See `Views`.
        schedule: Epochs, batches and rate.
        seed: Of order, masks and dropout.
        dropout: Whether the model's dropout is on.
        around: A context in which all steps are taken.

    Returns:
        `steps`; `tokens`, of all calls of the model and without padding; and `loss`, the mean of
        the last tenth of the steps.
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
    """Compute without gradients and dropout, in bfloat16; the value is the model's device."""
    device = find_device(model)
    with evaluating(model), torch.inference_mode(), torch.autocast(device.type, torch.bfloat16):
        yield device


def rate_at(step: int, total: int) -> float:
    """Return the share of the highest learning rate that a step has, of `total` steps."""
    warm = max(1, round(WARM * total))
    if step < warm:
        return (step + 1) / warm
    return max(0.0, (total - step) / max(1, total - warm))


def on_plain_rows(batch: Mapping[str, Any]) -> Sequence[Inputs]:
    """Detect and classify mentions in rows as they are (Eq. 8 and 11)."""
    return [_tensors({**batch, "input_ids": unmasked(batch)}, (*_ROWS, *_TAGS))]


def on_masked_rows(batch: Mapping[str, Any]) -> Sequence[Inputs]:
    """Do everything in masked rows, as the paper does (Eq. 12)."""
    return [_tensors(batch, (*_ROWS, *_TAGS, *_HIDDEN))]


def in_two_views(batch: Mapping[str, Any]) -> Sequence[Inputs]:
    """Predict hidden tokens in masked rows (Eq. 6), and find mentions in the same rows unmasked.

    It is what `MslmModel` does with `two_views`, one view after the other, in half of the memory.
    """
    plain, masked = *on_plain_rows(batch), *of_hidden_tokens(batch)
    # Gradients of the first view are there when the second has its turn; each has its own parts of
    # the loss, divided by their own counts.
    return [plain, {**masked, "num_items_in_batch": count_items([masked])}]


def of_hidden_tokens(batch: Mapping[str, Any]) -> Sequence[Inputs]:
    """Predict hidden tokens alone (Eq. 6)."""
    return [_tensors(batch, (*_ROWS, *_HIDDEN))]


def for_general_knowledge(batch: Mapping[str, Any]) -> Sequence[Inputs]:
    """Predict hidden tokens, and show the same rows unmasked to DGA's contrastive loss."""
    plain = _tensors({**batch, "input_ids": unmasked(batch)}, _ROWS)
    return [*of_hidden_tokens(batch), plain]


def unmasked(batch: Mapping[str, Any]) -> Any:
    """Return a batch's ids as they were before masking, int64 `[B, L]`."""
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
