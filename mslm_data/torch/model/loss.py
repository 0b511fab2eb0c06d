"""The mask-specific loss (Abaho et al. 2024, Eq. 6).

Losses are sums. The sums of all batches of an optimizer step are divided by one count, see
`mslm_data.torch.model.steps`.

Dimensions: B rows, L tokens, H hidden size, V vocabulary size; M masked tokens; N items.
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

Decoder: TypeAlias = Callable[[Tensor], Tensor]
"""Maps hidden states `[M, H]` to logits `[M, V]`, one token at a time."""


def token_losses(logits_NV: Tensor, labels_N: Tensor, *, ignored: int = IGNORED) -> Tensor:
    """Return the cross-entropy of each item `[N]`, in nats; 0 where the label is `ignored`.

    Computed in float32 or wider, even under autocast: bfloat16 sums are off by 1 %.
    """
    wide = torch.promote_types(logits_NV.dtype, torch.float32)
    return F.cross_entropy(logits_NV.to(wide), labels_N, ignore_index=ignored, reduction="none")


class MaskSpecificLoss(nn.Module):
    """Sum the cross-entropy of masked tokens, weighted by mask kind (Eq. 6).

    Tokens masked by ELM have weight `w_elm`, tokens masked by BLM `w_blm`, all others 0. Divide the
    sum once, by a count over all batches of the optimizer step::

        loss = MaskSpecificLoss(w_elm, w_blm)(logits, batch["labels"], batch["mask_kinds"])
        (loss / (batch["labels"] != -100).sum().clamp(min=1)).backward()

    Divided by the number of masked tokens, and with both weights 1, this is the usual masked
    language modeling loss. Dividing by the sum of the weights would cancel them in batches with a
    single mask kind.

    With `per_rate`, each token's loss is also divided by its row's masking rate, which gives the
    loss of masked diffusion (Sahoo et al. 2024, Eq. 10). With both weights 1, dividing the sum by
    the number of non-special tokens then bounds their -log p, the training objective of LLaDA::

        by_rate = MaskSpecificLoss(1, 1, per_rate=True)
        loss = by_rate(logits, batch["labels"], batch["mask_kinds"], batch["mask_rates"])
        (loss / (batch["bio"] != -100).sum()).backward()
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
        check_weights("MaskSpecificLoss", w_elm=w_elm, w_blm=w_blm)
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
    ) -> Tensor:
        """Sum the loss from the logits of all positions.

        The B x L tokens may also be in one row: logits `[N, V]`, other tensors `[N]`.

        Args:
            logits_BLV: Logits, any float dtype.
            labels_BL: int64, original ids of masked tokens, -100 elsewhere.
            mask_kinds_BL: uint8, `MaskKind`.
            mask_rates: float32 `[B]` or `[B, L]`. Required with `per_rate`, otherwise ignored.

        Returns:
            See `from_hidden`.

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
    ) -> Tensor:
        """Sum the loss from hidden states, projecting only masked tokens to the vocabulary.

        Logits are `[M, V]` instead of `[B, L, V]`. `torch.compile(..., fullgraph=True)` compiles it
        into a single graph for any M (torch 2.13). Without `fullgraph`, the graph breaks at
        `nonzero`.

        Args:
            hidden_BLH: Last hidden states of the encoder.
            decoder: The language modeling head, called with `[M, H]`.
            labels_BL: int64, original ids of masked tokens, -100 elsewhere.
            mask_kinds_BL: uint8, `MaskKind`.
            mask_rates: See `forward`.

        Returns:
            Scalar, float32 or wider. Without masked tokens it is 0, but still part of the autograd
            graph.

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
        at_M = (labels_BL != IGNORED).flatten().nonzero().squeeze(1)

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

        return (losses_M * weights_M).sum()

    def extra_repr(self) -> str:
        """Return the weights for `print(model)`."""
        rates = f", per_rate=True, low={self.low}" if self.per_rate else ""
        return f"w_elm={self.w_elm}, w_blm={self.w_blm}{rates}"


def check_weights(where: str, **weights: float) -> None:
    """Check that loss weights are finite and at least 0.

    Raises:
        ValueError: A weight is negative or not finite.
    """
    for name, weight in weights.items():
        if not (math.isfinite(weight) and weight >= 0):
            raise ValueError(f"{where}: expected {name} to be 0 or more, got {weight}")


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
