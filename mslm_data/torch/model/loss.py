"""The mask-specific loss (Abaho et al. 2024, Eq. 6), and the variant of the released code.

Losses are sums here, each with the number of items that it is of. Batches of one optimizer step are
divided by a count that they have in common, which `mslm_data.torch.model.steps` finds.

Dimensions: B rows, L tokens, H hidden width, V vocabulary; M masked tokens; N items of any kind.
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
"""Hidden states `[M, H]` to logits `[M, V]`, each token on its own."""


class LossSum(NamedTuple):
    """A loss as a sum with its number of items, divided once per optimizer step.

    Divide once, by the items of all batches of the optimizer step, and call `backward` of the
    result::

        loss = MaskSpecificLoss(w_elm, w_blm)(logits, batch["labels"], batch["mask_kinds"])
        loss.per_item().backward()

    Attributes:
        total: Scalar, float32 or wider. Without any item it is 0 and still has a path for
            gradients.
        items: Scalar int64, how many items it is a sum of: masked tokens, tagged tokens or
            mentions.
    """

    total: Tensor
    items: Tensor

    def per_item(self, items: Tensor | None = None) -> Tensor:
        """Divide the sum by a number of items. This is the only division in Eq. 12.

        Args:
            items: Scalar, the items of all batches of the optimizer step. It may be a fraction
                where gradients are averaged over ranks. None takes the items of this batch. A
                count of 0 divides nothing.
        """
        if items is None:
            items = self.items
        divisor = torch.where(items > 0, items, torch.ones_like(items))
        return self.total / divisor.to(self.total.dtype)


def token_losses(logits_NV: Tensor, labels_N: Tensor, *, ignored: int = IGNORED) -> Tensor:
    """Return the cross-entropy of each item `[N]`, in natural logarithms.

    It is 0 where the label is `ignored`. It is computed in float32 or wider, under autocast too:
    sums in bfloat16 are off by 1 %.
    """
    wide = torch.promote_types(logits_NV.dtype, torch.float32)
    return F.cross_entropy(logits_NV.to(wide), labels_N, ignore_index=ignored, reduction="none")


class MaskSpecificLoss(nn.Module):
    """Sum the cross-entropy of masked tokens, weighted by mask kind (Eq. 6).

    Tokens that ELM masked weigh `w_elm`, those that BLM masked weigh `w_blm`, tokens of other kinds
    nothing. The count beside the sum is the number of masked tokens. It is not the sum of their
    weights, which would cancel the weights where one kind is alone. With both weights 1, sum by
    count is plain cross-entropy.

    With `per_rate`, each token's loss is divided by the rate of its row besides: the loss of masked
    diffusion (Sahoo et al. 2024, Eq. 10). With both weights 1, sum by the number of tokens that are
    not special is then a bound on their -log p, which is what LLaDA trains on::

        loss = MaskSpecificLoss(1, 1, per_rate=True)(
            logits, batch["labels"], batch["mask_kinds"], batch["mask_rates"]
        )
        loss.per_item((batch["bio"] != -100).sum()).backward()
    """

    def __init__(
        self, w_elm: float, w_blm: float, *, per_rate: bool = False, low: float = 0.001
    ) -> None:
        """Take the two weights, those of Eq. 5 or any others.

        Args:
            w_elm: Weight of tokens that ELM masked.
            w_blm: Weight of tokens that BLM masked.
            per_rate: Divide by the rates that `md.strategy("diffusion")` gives.
            low: The lowest rate that a loss is divided by, in place of any lower one.

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

        Args:
            logits_BLV: Any float.
            labels_BL: int64, original ids, -100 where nothing is predicted.
            mask_kinds_BL: uint8, `MaskKind`.
            mask_rates: float32 `[B]` or `[B, L]`, needed with `per_rate` and unused without.

        Tensors may also have their tokens in one long row: `[N, V]`, and `[N]` three times.

        Raises:
            ValueError: Labels, kinds or rates are not of the tokens of the logits, or there are no
                rates to divide by.
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

        Only masked tokens are projected to the vocabulary, so `[B, L, V]` is never made.
        `torch.compile(..., fullgraph=True)` makes one graph of it for any number of masked tokens
        (torch 2.13). Without `fullgraph` the graph breaks where masked tokens are looked for.

        Args:
            hidden_BLH: Last hidden states of the encoder.
            decoder: Head of the language model, called with `[M, H]`.
            labels_BL: int64, original ids, -100 where nothing is predicted.
            mask_kinds_BL: uint8, `MaskKind`.
            mask_rates: As of `forward`.

        Raises:
            ValueError: Labels, kinds or rates are not of the tokens of the hidden states, or there
                are no rates to divide by.
        """
        tokens = hidden_BLH.shape[:-1]
        if labels_BL.shape != tokens or mask_kinds_BL.shape != tokens:
            raise ValueError(
                f"MaskSpecificLoss: expected labels and mask kinds of {_sizes(tokens)} tokens, got "
                f"{_sizes(labels_BL.shape)} labels and {_sizes(mask_kinds_BL.shape)} kinds"
            )

        # Places of masked tokens in the batch as one long row of B x L tokens.
        masked_BL = labels_BL != IGNORED
        at_M = masked_BL.flatten().nonzero().squeeze(1)

        logits_MV = decoder(hidden_BLH.flatten(0, -2).index_select(0, at_M))
        losses_M = token_losses(logits_MV, labels_BL.flatten().index_select(0, at_M))

        # Filled with Python numbers: the weights stay exact, whatever type the model is cast to.
        kinds_M = mask_kinds_BL.flatten().index_select(0, at_M)
        weights_M = torch.zeros_like(losses_M)
        weights_M = weights_M.masked_fill(kinds_M == int(MaskKind.ENTITY), self.w_elm)
        weights_M = weights_M.masked_fill(kinds_M == int(MaskKind.BASE), self.w_blm)
        if self.per_rate:
            rates_BL = _rates_of_tokens(mask_rates, labels_BL.shape)
            rates_M = rates_BL.flatten().index_select(0, at_M)
            weights_M = weights_M / rates_M.to(weights_M.dtype).clamp(min=self.low)

        return LossSum(total=(losses_M * weights_M).sum(), items=masked_BL.sum())

    def extra_repr(self) -> str:
        """Return the weights, for `print`."""
        rates = f", per_rate=True, low={self.low}" if self.per_rate else ""
        return f"w_elm={self.w_elm}, w_blm={self.w_blm}{rates}"


class ReleasedLoss(nn.Module):
    """Compute Eq. 6 as the released code (mykelismyname/MSLM) does, for comparison only.

    * Every position is predicted, with weight 1: also those that are not masked, and padding.
    * "none", the default of that code, is the unweighted mean over all positions, "sum" their
      unweighted sum.
    * With "mean" a masked token weighs `w` plus one for each of the two weights that equals it: `1
      + w`, or `2 + w` where both are equal. The mean over the L positions of a row is multiplied by
      one plus the number of those ones. Then the mean over the batch is taken.

    That code pads all rows to 256 tokens, so L is part of the result.
    """

    def __init__(self, w_elm: float, w_blm: float, *, reduction: str = "none") -> None:
        """Take the two weights and the reduction, by the names of the released code.

        Raises:
            ValueError: A weight is negative or not finite, or the reduction is not known.
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
            logits_BLV: Any float.
            input_ids_BL: What the model saw, which is the original id wherever there is no label.
            labels_BL: int64, original ids, -100 where nothing is predicted.
            mask_kinds_BL: uint8, `MaskKind`.
        """
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

        # That code compares weights by value, so that positions of weight 1 are hit too where a
        # weight is 1.
        ones_BL = (weights_BL == self.w_elm).to(losses_BL.dtype)
        ones_BL = ones_BL + (weights_BL == self.w_blm)

        means_B = (losses_BL * (weights_BL + ones_BL)).mean(1)
        return (means_B * (1 + ones_BL.sum(1))).mean()

    def extra_repr(self) -> str:
        """Return the weights and the reduction, for `print`."""
        return f"w_elm={self.w_elm}, w_blm={self.w_blm}, reduction={self.reduction}"


def check_weights(where: str, w_elm: float, w_blm: float) -> None:
    """Check that loss weights are finite and not negative.

    Raises:
        ValueError: A weight is negative or not finite.
    """
    for name, weight in (("w_elm", w_elm), ("w_blm", w_blm)):
        if not (math.isfinite(weight) and weight >= 0):
            raise ValueError(f"{where}: expected {name} to be 0 or more, got {weight}")


def check_name(where: str, option: str, name: str, known: tuple[str, ...]) -> str:
    """Check the value of an option against the allowed names, and return it.

    Raises:
        ValueError: The name is not known; the message lists those that are.
    """
    if name not in known:
        hint = did_you_mean(str(name), known)
        raise ValueError(f"{where}: expected {option} {' or '.join(known)}, got '{name}'{hint}")
    return name


def _rates_of_tokens(mask_rates: Tensor | None, tokens: torch.Size) -> Tensor:
    """Return the rate of each token's row.

    Raises:
        ValueError: There are none, or they are of other rows.
    """
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
