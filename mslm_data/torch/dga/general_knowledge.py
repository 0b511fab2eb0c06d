"""DGA: keep an encoder's general knowledge while adapting it (Ke et al. 2022).

Masking is that of the strategy `token`. DGA's own part has three steps:

1. `head_importance` finds attention heads that are important for general knowledge.
2. `SoftMasks` reduces the optimizer's updates of these heads.
3. `general_knowledge_loss` is added to the language modeling loss. It is a contrastive loss: a
  row's vectors under two dropout masks are similar, and differ from vectors computed with only the
  important heads.

    importance = head_importance(model, batches)
    with SoftMasks(model, importance, scale="updates"):
        for batch in batches:
            loss = model(**batch).loss
            loss = loss + general_knowledge_loss(model, rows, attention_mask, importance)

This is DGA as described in the paper. The released code (UIC-Liu-Lab/DGA at c074732761) differs: it
pairs each row with its neighbour instead of itself; it scales columns of the query, key and value
projections, although heads are rows; its softmax is over positions, and its means include padding;
and it ends an epoch after the first step.

Dimensions: K layers, N heads, B rows, L tokens, H hidden size.
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
"""Default divisor of cosine similarities, as in SimCSE."""

Scale = Literal["gradients", "updates"]
_SCALES = ("gradients", "updates")


def head_importance(model: Any, batches: Iterable[Mapping[str, Any]]) -> Tensor:
    """Measure the importance of each attention head for the hidden states of the rows.

    Within each layer, the gradients from `gate_gradients` are standardised to mean 0 and standard
    deviation 1. The importance is the absolute value of their tanh, as published: heads far below
    the mean of their layer are important too.

    Args:
        model: A Hugging Face encoder, with or without a head, or an `MslmModel`.
        batches: See `gate_gradients`.

    Returns:
        `[K, N]`, in `[0, 1)`.

    Raises:
        TypeError: See `gate_gradients`.
        ValueError: See `gate_gradients`.
    """
    gradients_KN = gate_gradients(model, batches)

    # Heads with equal gradients all have importance 0.
    deviations_K1 = gradients_KN.std(dim=1, correction=0, keepdim=True)
    deviations_K1 = torch.where(deviations_K1 > 0, deviations_K1, 1.0)
    scores_KN = (gradients_KN - gradients_KN.mean(dim=1, keepdim=True)) / deviations_K1
    return scores_KN.tanh().abs()


def gate_gradients(model: Any, batches: Iterable[Mapping[str, Any]]) -> Tensor:
    """Return the mean gradient of a gate on each head, `[K, N]`, float32.

    Each batch is encoded twice under different dropout masks. The loss is the Kullback-Leibler
    divergence of the two last hidden states, as softmax over the features of each token. Gradients
    are summed with their signs, and divided by the number of tokens. Gradients, mode and weights of
    the model do not change.

    Args:
        model: A Hugging Face encoder, with or without a head, or an `MslmModel`.
        batches: Unpacked batches of arrays or tensors with `input_ids` and `attention_mask`, `[B,
            L]`. With `labels`, the original ids are restored.

    Raises:
        TypeError: `batches` yields rows.
        ValueError: There are no batches, the model family is unknown, or the model has no dropout,
            which makes all gradients 0.
    """
    layers = attention_layers(model)
    if not any(isinstance(module, nn.Dropout) and module.p > 0 for module in model.modules()):
        raise ValueError(
            "head_importance: the model has no dropout; set it in its configuration, such as "
            "hidden_dropout_prob for BERT"
        )

    check_batches(batches)
    device = find_device(model)
    gates_KN = torch.ones(len(layers), layers[0].heads, device=device, requires_grad=True)
    total_KN = torch.zeros_like(gates_KN)
    tokens = 0

    # Training mode: the two passes differ by dropout.
    with in_mode(model, training=True), gated_heads(model, gates_KN), torch.enable_grad():
        for batch in batches:
            ids_BL, mask_BL = _get_inputs(batch, device)
            first, second = (
                F.log_softmax(_encode(model, ids_BL, mask_BL)[mask_BL.bool()].float(), -1)
                for _ in range(2)
            )
            divergence = F.kl_div(first, second, reduction="sum", log_target=True)
            # Only the gates' gradients: those of the parameters are not touched.
            total_KN += torch.autograd.grad(divergence, gates_KN)[0]
            tokens += int(mask_BL.sum())

    if not tokens:
        raise ValueError("head_importance: the batches have no tokens; pass at least one row")
    return total_KN / tokens


class SoftMasks:
    """Scale the updates of attention heads by 1 - importance, within a `with` block.

    Applies to each head's rows of the query, key and value projections and its columns of the
    output projection. The scaling hooks into the `step` of all optimizers with these parameters,
    including those created and wrapped by a trainer::

        with SoftMasks(model, importance, scale="updates"):
            trainer.train()
    """

    def __init__(self, model: Any, importance: Tensor, scale: Scale = "gradients") -> None:
        """Prepare the factors; scaling starts with the `with` block.

        Args:
            model: See `head_importance`.
            importance: `[K, N]`, in `[0, 1]`.
            scale: "gradients", as published, works with plain SGD. Adam divides by the size of past
                gradients, so a constant factor has almost no effect. "updates" scales the change of
                the weights in each step, including weight decay, and works with any optimizer.

        Raises:
            ValueError: `importance` has the wrong shape or is out of range, `scale` is unknown, or
                the model family is unknown.
        """
        check_name("SoftMasks", "scale", scale, _SCALES)
        self.scale = scale
        self._factors = _find_factors(model, importance)
        self._to_scale: list[tuple[Tensor, Tensor, Tensor]] = []
        """For the current step: parameters, their factors, and their values before the step."""
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
        """Stop scaling; warn if no step was scaled."""
        for hook in self._hooks:
            hook.remove()
        if not self._steps and error is None:
            LOGGER.warning(
                "SoftMasks: no optimizer with the model's own parameters took a step, so no head "
                "was protected; train within the context, and pass the model that the optimizer "
                "was made for"
            )

    def _before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> Any:
        """Prepare an optimizer step; return new arguments, or None to keep them.

        Args:
            optimizer: The optimizer.
            args: Positional arguments of `step`, starting with the optimizer.
            kwargs: Keyword arguments of `step`.
        """
        scaled = self._find_scaled(optimizer)
        self._steps += bool(scaled)
        if self.scale == "updates":
            self._to_scale = [
                (parameter, factor, parameter.detach().clone()) for parameter, factor in scaled
            ]
            return None

        # Lightning and LBFGS pass a closure that computes the gradients within the step.
        closure = kwargs.get("closure") or next(iter(args[1:]), None)
        if closure is None:
            _scale_gradients(scaled)
            return None

        def scaled_closure() -> Any:
            loss = closure()
            _scale_gradients(scaled)
            return loss

        return (args[0], *args[2:]), {**kwargs, "closure": scaled_closure}

    @torch.no_grad()
    def _after(self, *_: object) -> None:
        for parameter, factor, old in self._to_scale:
            # Not torch.lerp: with factor 0, weights must keep their exact values.
            parameter.copy_(old + (parameter - old) * factor.to(parameter))
        self._to_scale = []

    def _find_scaled(self, optimizer: Optimizer) -> list[tuple[Tensor, Tensor]]:
        """Return the scaled parameters of an optimizer, with their factors."""
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

    Runs the encoder three times: twice unchanged, under different dropout masks, and once with head
    outputs multiplied by their importance. The model must be in training mode.

    Args:
        model: See `head_importance`.
        input_ids: int64 `[B, L]`, unmasked.
        attention_mask: `[B, L]`.
        importance_KN: `[K, N]`, from `head_importance`.
    """

    def encode_rows() -> Tensor:
        return mean_vectors(_encode(model, input_ids, attention_mask), attention_mask)

    first, second = encode_rows(), encode_rows()
    with gated_heads(model, importance_KN):
        general = encode_rows()
    return contrast(first, second, general)


def contrast(
    first_BH: Tensor, second_BH: Tensor, general_BH: Tensor, *, temperature: float = TEMPERATURE
) -> Tensor:
    """Compute SimCSE's loss with additional negatives, a scalar: the mean over rows.

    Row i of `first_BH` should be similar, by cosine, to row i of `second_BH`, and dissimilar to all
    other rows of `second_BH` and all rows of `general_BH`.

    Args:
        first_BH: Vectors of rows.
        second_BH: Vectors of the same rows under another dropout mask.
        general_BH: Vectors of the same rows from general knowledge only.
        temperature: Divisor of cosine similarities.
    """
    candidates = F.normalize(torch.cat([second_BH, general_BH]).float(), dim=-1)
    cosines = F.normalize(first_BH.float(), dim=-1) @ candidates.T
    positives = torch.arange(len(first_BH), device=cosines.device)
    return F.cross_entropy(cosines / temperature, positives)


def mean_vectors(hidden_BLH: Tensor, attention_mask: Tensor) -> Tensor:
    """Return the mean hidden state of each row without padding, `[B, H]`.

    Computed in float32 or wider: the sum over a long row overflows float16.
    """
    wide_BLH = hidden_BLH.to(torch.promote_types(hidden_BLH.dtype, torch.float32))
    mask_BL1 = attention_mask.unsqueeze(-1).to(wide_BLH.dtype)
    return (wide_BLH * mask_BL1).sum(1) / mask_BL1.sum(1).clamp(min=1)


def _find_factors(model: Any, importance_KN: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return each parameter shared by heads, with the factors of its updates."""
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


def _encode(model: Any, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
    """Return the encoder's last hidden states `[B, L, H]`."""
    masked_lm: Any = language_model(model)
    hidden: Tensor = masked_lm.base_model(input_ids=input_ids, attention_mask=attention_mask)[0]
    return hidden


def _get_inputs(batch: Mapping[str, Any], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the original ids and the attention mask of a batch, `[B, L]` each.

    Raises:
        ValueError: The batch is packed: tokens would attend to other rows.
    """
    if "sequence_ids" in batch:
        raise ValueError(
            "head_importance: got packed batches; make them without row_tokens and flat"
        )
    rows_BL = torch.as_tensor(batch["input_ids"])
    if "labels" in batch:
        rows_BL = unmasked(rows_BL, torch.as_tensor(batch["labels"]))
    return rows_BL.to(device), torch.as_tensor(batch["attention_mask"]).to(device)
