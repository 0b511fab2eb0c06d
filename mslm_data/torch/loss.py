"""The mask specific loss (Abaho et al. 2024, Eq. 6), and what the released code computes in its place.

Dimensions: B sequences, L tokens, H width, V vocabulary; M the tokens that are predicted; N any number of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mslm_data.kernels.pad import IGNORED
from mslm_data.mask.plan import MaskKind
from mslm_data.registry import did_you_mean

REDUCTIONS = ("sum", "mean")

Decoder: TypeAlias = Callable[[Tensor], Tensor]
"""Hidden states `[M, H]` to logits `[M, V]`, each token for itself."""


def token_losses(logits_NV: Tensor, labels_N: Tensor, *, ignored: int = IGNORED) -> Tensor:
    """Return each token's cross-entropy `[N]` in natural logarithms, 0 where the label is `ignored`.

    In float32 at least, under autocast too.
    """
    wide = torch.promote_types(logits_NV.dtype, torch.float32)
    return F.cross_entropy(logits_NV.to(wide), labels_N, ignore_index=ignored, reduction="none")


def reduce(
    losses: Tensor,
    *,
    counted: Tensor | int,
    rows: int,
    reduction: str,
    num_items: Tensor | int | None = None,
) -> Tensor:
    """Sum losses and divide, so that nothing to sum is 0 with a path for gradients.

    Args:
        losses: Any shape.
        counted: Of how many items the losses are.
        rows: B.
        reduction: "sum": by sequence, then the mean over the batch; "mean": over the items.
        num_items: What to divide by in their place, where a step sees many batches: sequences for "sum", items for
            "mean".
    """
    if num_items is None:
        num_items = rows if reduction == "sum" else counted
    at_least_one = num_items.clamp(min=1) if isinstance(num_items, Tensor) else max(num_items, 1)
    return losses.sum() / at_least_one


def check_reduction(where: str, reduction: str, known: tuple[str, ...] = REDUCTIONS) -> str:
    """Return a reduction that is known.

    Raises:
        ValueError: It is not.
    """
    if reduction not in known:
        hint = did_you_mean(str(reduction), known)
        raise ValueError(
            f"{where}: expected reduction {' or '.join(known)}, got '{reduction}'{hint}"
        )
    return reduction


def check_weights(where: str, w_elm: float, w_blm: float) -> None:
    """Check that loss weights are finite and not negative.

    Raises:
        ValueError: One is not.
    """
    for name, weight in (("w_elm", w_elm), ("w_blm", w_blm)):
        if not (math.isfinite(weight) and weight >= 0):
            raise ValueError(f"{where}: expected a {name} of at least 0, got {weight}")


class MaskSpecificLoss(nn.Module):
    """Eq. 6: the cross-entropy of each masked token times the weight of why it is masked.

    With "sum" it is Eq. 6 as written, a sum for each sequence, and the mean of those over the batch. With "mean" the
    batch's sum is divided by the number of masked tokens, not by the sum of their weights: that would cancel them
    where one kind is alone. Both weights 1 and "mean" are plain cross-entropy. Tokens of other kinds weigh nothing.
    """

    def __init__(self, w_elm: float, w_blm: float, *, reduction: str = "sum") -> None:
        """Make a loss; weights are those of Eq. 5 or any others.

        Raises:
            ValueError: A negative weight, or an unknown reduction.
        """
        super().__init__()
        check_weights("MaskSpecificLoss", w_elm, w_blm)
        self.w_elm, self.w_blm = float(w_elm), float(w_blm)
        self.reduction = check_reduction("MaskSpecificLoss", reduction)

    def forward(
        self,
        logits_BLV: Tensor,
        labels_BL: Tensor,
        mask_kinds_BL: Tensor,
        *,
        num_items: Tensor | int | None = None,
    ) -> Tensor:
        """Return the loss from logits.

        Args:
            logits_BLV: Any float.
            labels_BL: int64 original ids, -100 where nothing is predicted.
            mask_kinds_BL: uint8 `MaskKind`.
            num_items: For steps of many batches: the number of masked tokens ("mean") or sequences ("sum") that all
                of them have together; the sum of their losses then is the step's.
        """
        return self.from_hidden(logits_BLV, _same, labels_BL, mask_kinds_BL, num_items=num_items)

    def from_hidden(
        self,
        hidden_BLH: Tensor,
        decoder: Decoder,
        labels_BL: Tensor,
        mask_kinds_BL: Tensor,
        *,
        num_items: Tensor | int | None = None,
    ) -> Tensor:
        """Return the loss from hidden states: only masked tokens are projected, `[B, L, V]` is never made.

        `torch.compile(..., fullgraph=True)` makes one graph of it for any number of masked tokens (torch 2.13); without
        `fullgraph` the graph breaks where they are looked for.

        Args:
            hidden_BLH: The encoder's last hidden states.
            decoder: The language model's head; sees `[M, H]`.
            labels_BL: As in `forward`.
            mask_kinds_BL: As in `forward`.
            num_items: As in `forward`.
        """
        at_M = (labels_BL.flatten() != IGNORED).nonzero().squeeze(1)
        logits_MV = decoder(hidden_BLH.flatten(0, 1).index_select(0, at_M))
        losses_M = token_losses(logits_MV, labels_BL.flatten().index_select(0, at_M))
        kinds_M = mask_kinds_BL.flatten().index_select(0, at_M)
        weights_M = torch.zeros_like(
            losses_M
        )  # filled with Python numbers: exact, whatever type the model is cast to
        for kind, weight in ((MaskKind.ENTITY, self.w_elm), (MaskKind.BASE, self.w_blm)):
            weights_M = weights_M.masked_fill(kinds_M == int(kind), weight)
        masked = (labels_BL != IGNORED).sum()
        rows = len(labels_BL)
        return reduce(
            losses_M * weights_M,
            counted=masked,
            rows=rows,
            reduction=self.reduction,
            num_items=num_items,
        )

    def extra_repr(self) -> str:
        """What `print` shows."""
        return f"w_elm={self.w_elm}, w_blm={self.w_blm}, reduction={self.reduction}"


def _same(logits: Tensor) -> Tensor:
    return logits


class ReleasedLoss(nn.Module):
    """What the released code (mykelismyname/MSLM) computes for Eq. 6; for comparison only.

    Every position is predicted, unmasked ones and padding too, and their weight is 1. With "mean" a masked token weighs
    its weight plus one for each of the two weights that equals it: 1 + w, or 2 + w where they are equal. The mean over
    a sequence's L positions is multiplied by one plus the sum of those ones; then the mean over the batch is taken.
    "none" (that code's default) is the unweighted mean over all positions, "sum" their unweighted sum.

    That code pads all rows to 256 tokens: L is part of the result.
    """

    def __init__(self, w_elm: float, w_blm: float, *, reduction: str = "none") -> None:
        """Make a loss.

        Raises:
            ValueError: A negative weight, or an unknown reduction.
        """
        super().__init__()
        check_weights("ReleasedLoss", w_elm, w_blm)
        self.w_elm, self.w_blm = float(w_elm), float(w_blm)
        self.reduction = check_reduction("ReleasedLoss", reduction, ("none", "sum", "mean"))

    def forward(
        self,
        logits_BLV: Tensor,
        input_ids_BL: Tensor,
        labels_BL: Tensor,
        mask_kinds_BL: Tensor,
    ) -> Tensor:
        """Return the loss.

        Args:
            logits_BLV: Any float.
            input_ids_BL: What the model saw; the original ids wherever there is no label.
            labels_BL: int64 original ids, -100 where nothing is predicted.
            mask_kinds_BL: uint8 `MaskKind`.
        """
        original_BL = torch.where(labels_BL == IGNORED, input_ids_BL, labels_BL)
        losses = token_losses(logits_BLV.flatten(0, 1), original_BL.flatten()).view_as(original_BL)
        if self.reduction != "mean":
            return losses.sum() if self.reduction == "sum" else losses.mean()
        weight_BL, ones_BL = torch.ones_like(losses), torch.zeros_like(losses)
        for kind, weight in ((MaskKind.ENTITY, self.w_elm), (MaskKind.BASE, self.w_blm)):
            weight_BL = weight_BL.masked_fill(mask_kinds_BL == int(kind), weight)
        for weight in (self.w_elm, self.w_blm):  # by value, as that code compares
            ones_BL = ones_BL + (weight_BL == weight)
        return ((losses * (weight_BL + ones_BL)).mean(1) * (1 + ones_BL.sum(1))).mean()

    def extra_repr(self) -> str:
        """What `print` shows."""
        return f"w_elm={self.w_elm}, w_blm={self.w_blm}, reduction={self.reduction}"
