"""DGA without its masks: keep general knowledge while adapting (Ke et al. 2022).

Its rows are masked as by `token`. Its own part is about the model, and has three steps:

1. `head_importance` finds attention heads that hold general knowledge.
2. `SoftMasks` has the optimizer move these less.
3. `general_knowledge_loss` is added to the masked language model's loss. It draws the vectors of a
   row under two dropouts together, and away from what the important heads alone would give.

    importance = head_importance(model, batches)
    with SoftMasks(model, importance, scale="updates"):
        for batch in batches:
            loss = model(**batch).loss
            loss = loss + general_knowledge_loss(model, rows, attention_mask, importance)

The released code (UIC-Liu-Lab/DGA at c074732761) differs from the paper: it pairs each row with its
neighbour, not with itself; it scales the inputs' columns of the query, key and value projections,
where heads have rows; its softmax runs over positions, and its means over padding as well; it ends
an epoch after the first step. Here everything is as the paper has it.

Dimensions: K layers, N heads, B rows, L tokens, H hidden width.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from mslm_data.log import LOGGER
from mslm_data.torch.dga.attention_heads import attention_layers, gated_heads
from mslm_data.torch.model.forward import (
    check_batches,
    find_device,
    in_mode,
    language_model,
    unmasked,
)
from mslm_data.torch.model.loss import check_name

TEMPERATURE = 0.05
"""Cosines are divided by it, as in SimCSE."""

Scale = Literal["gradients", "updates"]
_SCALES = ("gradients", "updates")


def head_importance(model: Any, batches: Iterable[Mapping[str, Any]]) -> Tensor:
    """Measure how important each attention head is for the hidden states of the rows.

    Within each layer the gradients of `gate_gradients` are brought to mean 0 and deviation 1. The
    importance is the absolute value of their tanh. So a head far below its layer's mean counts as
    important too, as published.

    Args:
        model: An encoder of Hugging Face, with or without a head, or an `MslmModel` of one.
        batches: As of `gate_gradients`.

    Returns:
        `[K, N]`, in `[0, 1)`.

    Raises:
        TypeError: As of `gate_gradients`.
        ValueError: The same.
    """
    gradients_KN = gate_gradients(model, batches)

    # Of equal gradients none is important.
    deviations_K1 = gradients_KN.std(dim=1, correction=0, keepdim=True)
    deviations_K1 = torch.where(deviations_K1 > 0, deviations_K1, 1.0)
    scores_KN = (gradients_KN - gradients_KN.mean(dim=1, keepdim=True)) / deviations_K1
    return scores_KN.tanh().abs()


def gate_gradients(model: Any, batches: Iterable[Mapping[str, Any]]) -> Tensor:
    """Return the mean gradient of a gate on each head, `[K, N]`, float32.

    Each batch goes through the encoder twice under different dropout. The loss is the
    Kullback-Leibler divergence of the two last hidden states, a softmax over each token's features.
    Gradients are added with their signs, and divided by the number of tokens. The model's own
    gradients, mode and weights stay as they are.

    Args:
        model: An encoder of Hugging Face, with or without a head, or an `MslmModel` of one.
        batches: Rows padded to rectangles, arrays or tensors by name: `input_ids` and
            `attention_mask`, `[B, L]`. Where they have `labels` they are seen unmasked.

    Raises:
        TypeError: Rows in the place of batches.
        ValueError: There is no batch, the family is not known here, or the model has no dropout,
            under which all gradients are 0.
    """
    layers = attention_layers(model)
    if not any(isinstance(part, nn.Dropout) and part.p > 0 for part in model.modules()):
        raise ValueError(
            "head_importance: the model has no dropout; set hidden_dropout_prob in its "
            "configuration"
        )

    check_batches(batches)
    device = find_device(model)
    gates_KN = torch.ones(len(layers), layers[0].heads, device=device, requires_grad=True)
    total_KN = torch.zeros_like(gates_KN)
    tokens = 0
    with in_mode(model, training=True), gated_heads(model, gates_KN), torch.enable_grad():
        for batch in batches:
            rows_BL, present_BL = _rows(batch, device)
            first, second = (
                F.log_softmax(_hidden(model, rows_BL, present_BL)[present_BL.bool()].float(), -1)
                for _ in range(2)
            )
            divergence = F.kl_div(first, second, reduction="sum", log_target=True)
            total_KN += torch.autograd.grad(divergence, gates_KN)[0]
            tokens += int(present_BL.sum())

    if not tokens:
        raise ValueError("head_importance: the batches have no tokens; pass at least one row")
    return total_KN / tokens


class SoftMasks:
    """Scale the updates of attention heads by 1 - importance, within a `with` block.

    What belongs to a head, in the projections of queries, keys, values and output, is scaled by 1
    less its importance. Every optimizer that holds such a parameter is watched at its own `step`,
    so that one which a trainer makes and wraps need not be at hand::

        with SoftMasks(model, importance, scale="updates"):
            trainer.train()
    """

    def __init__(self, model: Any, importance: Tensor, scale: Scale = "gradients") -> None:
        """Take a model's heads; nothing is scaled before the `with`.

        Args:
            model: As of `head_importance`.
            importance: `[K, N]`, in `[0, 1]`.
            scale: `gradients`, as published, is of effect under plain SGD. Adam divides by the size
                of past gradients, so that a factor which stays the same changes next to nothing
                there. `updates` scales how far each step moves the weights, decay included, under
                any optimizer.

        Raises:
            ValueError: Importances of another shape or out of range, another word for `scale`, or
                a family that is not known.
        """
        check_name("SoftMasks", "scale", scale, _SCALES)
        self.scale = scale
        self._factors = _factors(model, importance)
        self._to_scale: list[tuple[Tensor, Tensor, Tensor]] = []
        """Parameters whose present step is scaled, their factors, and what they were before it."""
        self._hooks: list[Any] = []
        self._steps = 0

    def __enter__(self) -> Self:
        """Start scaling the steps of all optimizers."""
        self._steps = 0
        self._hooks = [
            register_optimizer_step_pre_hook(self._before),
            register_optimizer_step_post_hook(self._after),
        ]
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        """Stop scaling; warn if no step was taken."""
        for hook in self._hooks:
            hook.remove()
        if not self._steps and error is None:
            LOGGER.warning(
                "SoftMasks: expected steps of an optimizer that has the model's own parameters, "
                "got none, so no head was protected; train within the context, and give it the "
                "model that the optimizer was made for"
            )

    def _before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> Any:
        """Prepare an optimizer step; return changed arguments, or None to keep them.

        Args:
            optimizer: Whose step it is.
            args: The arguments of `step`, the optimizer first.
            kwargs: Those given by name.
        """
        held = self._held_by(optimizer)
        self._steps += bool(held)
        if self.scale == "updates":
            self._to_scale = [(one, factor, one.detach().clone()) for one, factor in held]
            return None

        # Lightning and LBFGS pass a closure, by which the step itself computes the gradients.
        closure = kwargs.get("closure") or next(iter(args[1:]), None)
        if closure is None:
            _scale_gradients(held)
            return None

        def scaled() -> Any:
            loss = closure()
            _scale_gradients(held)
            return loss

        return (args[0], *args[2:]), {**kwargs, "closure": scaled}

    @torch.no_grad()
    def _after(self, *_: object) -> None:
        for parameter, factor, old in self._to_scale:
            # Not a weighted mean: at a factor of 0 the weights must stay exactly as they were.
            parameter.copy_(old + (parameter - old) * factor.to(parameter))
        self._to_scale = []

    def _held_by(self, optimizer: Optimizer) -> list[tuple[Tensor, Tensor]]:
        """Return the parameters of heads that an optimizer updates, with their factors."""
        held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        return [(parameter, factor) for parameter, factor in self._factors if id(parameter) in held]


def _scale_gradients(held: Iterable[tuple[Tensor, Tensor]]) -> None:
    for parameter, factor in held:
        if parameter.grad is not None:
            parameter.grad.mul_(factor.to(parameter.grad))


def general_knowledge_loss(
    model: Any, input_ids: Tensor, attention_mask: Tensor, importance_KN: Tensor
) -> Tensor:
    """Compute DGA's contrastive loss on unmasked rows, a scalar.

    The encoder is run three times, twice as it is and once with its heads multiplied by their
    importance. It must be in training mode, or the first two are the same.

    Args:
        model: As of `head_importance`.
        input_ids: int64 `[B, L]`, rows that are not masked.
        attention_mask: `[B, L]`.
        importance_KN: `[K, N]`.
    """

    def vectors() -> Tensor:
        return mean_vectors(_hidden(model, input_ids, attention_mask), attention_mask)

    first, second = vectors(), vectors()
    with gated_heads(model, importance_KN):
        general = vectors()
    return contrast(first, second, general)


def contrast(
    first_BH: Tensor, second_BH: Tensor, general_BH: Tensor, *, temperature: float = TEMPERATURE
) -> Tensor:
    """Compute SimCSE's loss with additional negatives, a scalar: the mean over rows.

    Row i of the first vectors is to be like row i of the second, by cosine, and unlike all other
    rows of the second and all general vectors of the batch.

    Args:
        first_BH: Vectors of rows.
        second_BH: Vectors of the same rows under another dropout.
        general_BH: Vectors of the same rows by general knowledge alone.
        temperature: Cosines are divided by it.
    """
    others = F.normalize(torch.cat([second_BH, general_BH]).float(), dim=-1)
    cosines = F.normalize(first_BH.float(), dim=-1) @ others.T
    own = torch.arange(len(first_BH), device=cosines.device)
    return F.cross_entropy(cosines / temperature, own)


def mean_vectors(hidden_BLH: Tensor, attention_mask: Tensor) -> Tensor:
    """Return the mean hidden state of each row without padding, `[B, H]`.

    It is computed in float32 or wider: the sum of a long row leaves what float16 holds.
    """
    wide_BLH = hidden_BLH.to(torch.promote_types(hidden_BLH.dtype, torch.float32))
    present_BL1 = attention_mask.unsqueeze(-1).to(wide_BLH.dtype)
    return (wide_BLH * present_BL1).sum(1) / present_BL1.sum(1).clamp(min=1)


def _factors(model: Any, importance_KN: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return each shared parameter with the factors of its updates."""
    layers = attention_layers(model)
    expected = (len(layers), layers[0].heads)
    if tuple(importance_KN.shape) != expected:
        raise ValueError(
            f"importance: expected the shape {expected} of layers and heads, "
            f"got {tuple(importance_KN.shape)}"
        )
    outside = importance_KN[~((importance_KN >= 0) & (importance_KN <= 1))]
    if outside.numel():
        raise ValueError(f"importance: expected numbers in [0, 1], got {outside[0].item():g}")

    return [
        (parameter, (1 - importance_N.detach())[heads.to(importance_N.device)])
        for layer, importance_N in zip(layers, importance_KN, strict=True)
        for parameter, heads in layer.parameters()
    ]


def _hidden(model: Any, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
    """Return the encoder's last hidden states `[B, L, H]`."""
    masked_lm: Any = language_model(model)
    hidden: Tensor = masked_lm.base_model(input_ids=input_ids, attention_mask=attention_mask)[0]
    return hidden


def _rows(batch: Mapping[str, Any], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the unmasked ids and the attention mask of a batch, `[B, L]` each.

    Raises:
        ValueError: Rows are packed, so that they would see each other.
    """
    if "sequence_ids" in batch:
        raise ValueError(
            "head_importance: got packed batches; make them without row_tokens and flat"
        )
    rows_BL = torch.as_tensor(batch["input_ids"])
    if "labels" in batch:
        rows_BL = unmasked(rows_BL, torch.as_tensor(batch["labels"]))
    return rows_BL.to(device), torch.as_tensor(batch["attention_mask"]).to(device)
