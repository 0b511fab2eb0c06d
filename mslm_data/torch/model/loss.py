"""The mask-specific loss (Abaho et al. 2024, Eq. 6), and the variant of the released code.

A loss is a sum with its number of items. The sums of all batches of an optimizer step are divided
by one shared count, from `mslm_data.torch.model.steps`.

Dimensions: B rows, L tokens, H hidden size, V vocabulary size; M masked tokens; N items.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mslm_data.kernels.pad import IGNORED
from mslm_data.mask.plan import MaskKind
from mslm_data.registry import did_you_mean

RELEASED_REDUCTIONS = ("none", "sum", "mean")

Decoder: TypeAlias = Callable[[Tensor], Tensor]
"""Maps hidden states `[M, H]` to logits `[M, V]`, one token at a time."""


class LossSum(NamedTuple):
    """A summed loss with its number of items, divided once per optimizer step.

    With one batch per optimizer step::

        loss = MaskSpecificLoss(w_elm, w_blm)(logits, batch["labels"], batch["mask_kinds"])
        loss.per_item().backward()

    With several batches, divide each sum by the number of items in all of them.

    Attributes:
        total: Scalar, float32 or wider. With no items it is 0, but still part of the autograd
            graph.
        items: Scalar int64, number of summed items: masked tokens, tagged tokens or mentions.
    """

    total: Tensor
    items: Tensor

    def per_item(self, items: Tensor | None = None) -> Tensor:
        """Divide the sum by a number of items. This is the only division in Eq. 12.

        Args:
            items: Scalar, number of items in all batches of the optimizer step; a fraction if
                gradients are averaged over ranks. Default: the number of items of this batch. With
                a count of 0 the sum is returned unchanged.
        """
        if items is None:
            items = self.items
        divisor = torch.where(items > 0, items, torch.ones_like(items))
        return self.total / divisor.to(self.total.dtype)


def token_losses(logits_NV: Tensor, labels_N: Tensor, *, ignored: int = IGNORED) -> Tensor:
    """Return the cross-entropy of each item `[N]`, in nats; 0 where the label is `ignored`.

    Computed in float32 or wider, even under autocast: bfloat16 sums are off by 1 %.
    """
    wide = torch.promote_types(logits_NV.dtype, torch.float32)
    return F.cross_entropy(logits_NV.to(wide), labels_N, ignore_index=ignored, reduction="none")


class MaskSpecificLoss(nn.Module):
    """Sum the cross-entropy of masked tokens, weighted by mask kind (Eq. 6).

    Tokens masked by ELM have weight `w_elm`, tokens masked by BLM `w_blm`, all others 0. The item
    count is the number of masked tokens, not the sum of their weights: dividing by weights would
    cancel them in batches with a single mask kind. With both weights 1, total / items is the usual
    masked language modeling loss.

    With `per_rate`, each token's loss is also divided by its row's masking rate, which gives the
    loss of masked diffusion (Sahoo et al. 2024, Eq. 10). With both weights 1, dividing the sum by
    the number of non-special tokens then bounds their -log p, the training objective of LLaDA::

        loss = MaskSpecificLoss(1, 1, per_rate=True)(
            logits, batch["labels"], batch["mask_kinds"], batch["mask_rates"]
        )
        loss.per_item((batch["bio"] != -100).sum()).backward()
    """

    def __init__(
        self, w_elm: float, w_blm: float, *, per_rate: bool = False, low: float = 0.001
    ) -> None:
        """Set the weights; `md.mask_specific_weights` computes those of Eq. 5.

        Args:
            w_elm: Weight of tokens masked by ELM.
            w_blm: Weight of tokens masked by BLM.
            per_rate: Whether to divide by the masking rates of `md.strategy("diffusion")`.
            low: Minimum divisor. Lower rates are raised to it.

        Raises:
            ValueError: A weight is negative or not finite, or `low` is not in `(0, 1]`.
        """
        super().__init__()
        check_weights("MaskSpecificLoss", w_elm, w_blm)
        if not 0 < low <= 1:
            raise ValueError(f"MaskSpecificLoss: expected low in (0, 1], got {low}")
        self.w_elm = float(w_elm)
        self.w_blm = float(w_blm)
        self.per_rate = per_rate
        self.low = float(low)

    def forward(
        self,
        logits_BLV: Tensor,
        labels_BL: Tensor,
        mask_kinds_BL: Tensor,
        mask_rates: Tensor | None = None,
    ) -> LossSum:
        """Compute the loss from the logits of all positions.

        The B x L tokens may also be in one row: logits `[N, V]`, other tensors `[N]`.

        Args:
            logits_BLV: Logits, any float dtype.
            labels_BL: int64, original ids of masked tokens, -100 elsewhere.
            mask_kinds_BL: uint8, `MaskKind`.
            mask_rates: float32 `[B]` or `[B, L]`. Required with `per_rate`, otherwise ignored.

        Raises:
            ValueError: Shapes differ, or `per_rate` is set and `mask_rates` is None.
        """
        return self.from_hidden(logits_BLV, _identity, labels_BL, mask_kinds_BL, mask_rates)

    def from_hidden(
        self,
        hidden_BLH: Tensor,
        decoder: Decoder,
        labels_BL: Tensor,
        mask_kinds_BL: Tensor,
        mask_rates: Tensor | None = None,
    ) -> LossSum:
        """Compute the loss from hidden states, projecting only masked tokens to the vocabulary.

        Logits are `[M, V]` instead of `[B, L, V]`. `torch.compile(..., fullgraph=True)` compiles it
        into a single graph for any M (torch 2.13). Without `fullgraph`, the graph breaks at
        `nonzero`.

        Args:
            hidden_BLH: Last hidden states of the encoder.
            decoder: The language modeling head, called with `[M, H]`.
            labels_BL: int64, original ids of masked tokens, -100 elsewhere.
            mask_kinds_BL: uint8, `MaskKind`.
            mask_rates: See `forward`.

        Raises:
            ValueError: Shapes differ, or `per_rate` is set and `mask_rates` is None.
        """
        tokens = hidden_BLH.shape[:-1]
        if labels_BL.shape != tokens or mask_kinds_BL.shape != tokens:
            raise ValueError(
                f"MaskSpecificLoss: expected labels and mask kinds of {_sizes(tokens)} tokens, got "
                f"{_sizes(labels_BL.shape)} labels and {_sizes(mask_kinds_BL.shape)} kinds"
            )

        # Indices of masked tokens in the flattened batch, so that the decoder sees only these.
        masked_BL = labels_BL != IGNORED
        at_M = masked_BL.flatten().nonzero().squeeze(1)

        logits_MV = decoder(hidden_BLH.flatten(0, -2).index_select(0, at_M))
        losses_M = token_losses(logits_MV, labels_BL.flatten().index_select(0, at_M))

        # Fill with Python floats: weights stay exact even if the model is cast to half precision.
        kinds_M = mask_kinds_BL.flatten().index_select(0, at_M)
        weights_M = torch.zeros_like(losses_M)
        weights_M = weights_M.masked_fill(kinds_M == int(MaskKind.ENTITY), self.w_elm)
        weights_M = weights_M.masked_fill(kinds_M == int(MaskKind.BASE), self.w_blm)

        # Masked diffusion: 1 / rate, bounded so that a row with a tiny rate does not dominate the
        # step.
        if self.per_rate:
            rates_BL = _expand_rates(mask_rates, labels_BL.shape)
            rates_M = rates_BL.flatten().index_select(0, at_M)
            weights_M = weights_M / rates_M.to(weights_M.dtype).clamp(min=self.low)

        return LossSum(total=(losses_M * weights_M).sum(), items=masked_BL.sum())

    def extra_repr(self) -> str:
        """Return the weights for `print(model)`."""
        rates = f", per_rate=True, low={self.low}" if self.per_rate else ""
        return f"w_elm={self.w_elm}, w_blm={self.w_blm}{rates}"


class ReleasedLoss(nn.Module):
    """Compute Eq. 6 as the released code (mykelismyname/MSLM) does, for comparison only.

    Differences from `MaskSpecificLoss`:

    * All positions are predicted with weight 1, including unmasked tokens and padding. The released
      code pads rows to 256 tokens, so the loss depends on L.
    * "none", its default, is the unweighted mean over all positions; "sum" is the unweighted sum.
    * With "mean", a masked token has weight `w + 1`, or `w + 2` if both weights are equal. The mean
      over the L positions of a row is multiplied by 1 + the sum of these increments, then averaged
      over the batch.
    """

    def __init__(self, w_elm: float, w_blm: float, *, reduction: str = "none") -> None:
        """Set weights and reduction.

        Args:
            w_elm: Weight of tokens masked by ELM.
            w_blm: Weight of tokens masked by BLM.
            reduction: "none", "sum" or "mean", as named by the released code.

        Raises:
            ValueError: A weight is negative or not finite, or the reduction is unknown.
        """
        super().__init__()
        check_weights("ReleasedLoss", w_elm, w_blm)
        self.w_elm = float(w_elm)
        self.w_blm = float(w_blm)
        self.reduction = check_name("ReleasedLoss", "reduction", reduction, RELEASED_REDUCTIONS)

    def forward(
        self,
        logits_BLV: Tensor,
        input_ids_BL: Tensor,
        labels_BL: Tensor,
        mask_kinds_BL: Tensor,
    ) -> Tensor:
        """Compute the loss, a scalar.

        Args:
            logits_BLV: Logits, any float dtype.
            input_ids_BL: int64, the corrupted ids.
            labels_BL: int64, original ids of masked tokens, -100 elsewhere.
            mask_kinds_BL: uint8, `MaskKind`.
        """
        # Unmasked positions are predicted too: their original ids are the input ids.
        original_BL = torch.where(labels_BL == IGNORED, input_ids_BL, labels_BL)
        losses_BL = token_losses(logits_BLV.flatten(0, 1), original_BL.flatten())
        losses_BL = losses_BL.view_as(original_BL)

        if self.reduction == "none":
            return losses_BL.mean()
        if self.reduction == "sum":
            return losses_BL.sum()

        weights_BL = torch.ones_like(losses_BL)
        weights_BL = weights_BL.masked_fill(mask_kinds_BL == int(MaskKind.ENTITY), self.w_elm)
        weights_BL = weights_BL.masked_fill(mask_kinds_BL == int(MaskKind.BASE), self.w_blm)

        # The released code finds masked tokens by comparing weights. If a weight is 1, this also
        # matches unmasked positions.
        ones_BL = (weights_BL == self.w_elm).to(losses_BL.dtype)
        ones_BL = ones_BL + (weights_BL == self.w_blm)

        means_B = (losses_BL * (weights_BL + ones_BL)).mean(1)
        return (means_B * (1 + ones_BL.sum(1))).mean()

    def extra_repr(self) -> str:
        """Return weights and reduction for `print(model)`."""
        return f"w_elm={self.w_elm}, w_blm={self.w_blm}, reduction={self.reduction}"


def check_weights(where: str, w_elm: float, w_blm: float) -> None:
    """Check that both loss weights are finite and at least 0.

    Raises:
        ValueError: A weight is negative or not finite.
    """
    for name, weight in (("w_elm", w_elm), ("w_blm", w_blm)):
        if not (math.isfinite(weight) and weight >= 0):
            raise ValueError(f"{where}: expected {name} to be 0 or more, got {weight}")


def check_name(where: str, option: str, name: str, known: tuple[str, ...]) -> str:
    """Check an option against its allowed values, and return it.

    Raises:
        ValueError: The value is not allowed.
    """
    if name not in known:
        hint = did_you_mean(str(name), known)
        raise ValueError(f"{where}: expected {option} {' or '.join(known)}, got '{name}'{hint}")
    return name


def _expand_rates(mask_rates: Tensor | None, tokens: torch.Size) -> Tensor:
    """Expand the masking rates `[B]` to tokens `[B, L]`."""
    if mask_rates is None:
        raise ValueError(
            "MaskSpecificLoss: expected mask_rates with per_rate=True, got none; make batches with "
            "md.strategy('diffusion'), whose rows have a rate"
        )
    if mask_rates.shape == tokens:
        return mask_rates
    if mask_rates.shape != tokens[:1]:
        raise ValueError(
            f"MaskSpecificLoss: expected mask rates of {tokens[0]} rows or {_sizes(tokens)} "
            f"tokens, got {_sizes(mask_rates.shape)}"
        )
    return mask_rates[:, None].expand(tokens)


def _sizes(shape: torch.Size) -> str:
    return " x ".join(map(str, shape))


def _identity(logits: Tensor) -> Tensor:
    return logits
