"""The mask-specific loss (Abaho et al. 2024, Eq. 6), and the loss with a weight for each token.

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
from torch.utils.checkpoint import checkpoint

from mslm_data.kernels.pad import IGNORED
from mslm_data.mask.plan import MaskKind

Decoder: TypeAlias = Callable[[Tensor], Tensor]
"""Maps hidden states `[M, H]` to logits `[M, V]`, one token at a time."""

TOKENS_AT_ONCE = 1024
"""Maximum number of tokens that are projected to the vocabulary in one call of the decoder."""


def token_losses(logits_NV: Tensor, labels_N: Tensor, *, ignored: int = IGNORED) -> Tensor:
    """Return the cross-entropy of each item `[N]`, in nats; 0 where the label is `ignored`.

    Computed in float32 or wider, even under autocast: bfloat16 sums are off by 1 %.
    """
    wide = torch.promote_types(logits_NV.dtype, torch.float32)
    return F.cross_entropy(logits_NV.to(wide), labels_N, ignore_index=ignored, reduction="none")


def weighted_loss(
    hidden_BLH: Tensor,
    labels_BL: Tensor,
    loss_weights_BL: Tensor,
    *,
    decoder: Decoder | None = None,
    causal: bool = False,
) -> Tensor:
    """Sum the cross-entropy of labels, each times its weight, for batches with `loss_weights`.

    Divide the sum once, by the number of labels of all batches of the optimizer step::

        logits = model(batch["input_ids"], batch["attention_mask"]).logits
        loss = weighted_loss(logits, batch["labels"], batch["loss_weights"], causal=True)
        (loss / (batch["labels"] != -100).sum()).backward()

    With `decoder`, the logits of all places never exist. Hidden states of places with a label and
    a weight are projected to the vocabulary, `TOKENS_AT_ONCE` at a time; if there are more, the
    backward pass projects them again instead of keeping the logits (Chen et al. 2016,
    arXiv:1604.06174). Under `torch.compile`, all are projected at once.

    Args:
        hidden_BLH: Logits `[B, L, V]`; with `decoder`, the last hidden states.
        labels_BL: int64, -100 where there is no label.
        loss_weights_BL: float32.
        decoder: The language modeling head, called with the hidden states `[N, H]` of places with
            a label. Default: None, `hidden_BLH` are logits.
        causal: Whether a place predicts the label of the next place, as in decoders.

    Returns:
        Scalar, float32 or wider. Without labels it is 0, but still part of the autograd graph.

    Raises:
        ValueError: Shapes differ.
    """
    if not labels_BL.shape == loss_weights_BL.shape == hidden_BLH.shape[:-1]:
        raise ValueError(
            f"weighted_loss: expected labels and weights of {_sizes(hidden_BLH.shape[:-1])} "
            f"tokens, got {_sizes(labels_BL.shape)} labels and {_sizes(loss_weights_BL.shape)} "
            "weights"
        )
    if causal:
        hidden_BLH, labels_BL = hidden_BLH[:, :-1], labels_BL[:, 1:]
        loss_weights_BL = loss_weights_BL[:, 1:]

    return _sum_losses(hidden_BLH, decoder or _identity, labels_BL, loss_weights_BL)


def _sum_losses(
    hidden_BLH: Tensor, decoder: Decoder, labels_BL: Tensor, weights_BL: Tensor
) -> Tensor:
    """Sum the weighted losses of the tokens that have a label and a weight, see `weighted_loss`."""
    has_loss_BL = (labels_BL != IGNORED) & (weights_BL != 0)
    at_M = has_loss_BL.flatten().nonzero().squeeze(1)
    hidden_MH = hidden_BLH.flatten(0, -2).index_select(0, at_M)
    labels_M = labels_BL.flatten().index_select(0, at_M)
    weights_M = weights_BL.flatten().index_select(0, at_M)

    def losses(hidden_NH: Tensor, labels_N: Tensor) -> Tensor:
        return token_losses(decoder(hidden_NH), labels_N)

    # Logits that are given are kept anyway. A compiled graph cannot depend on M.
    is_single = decoder is _identity or torch.compiler.is_compiling()
    if is_single or len(at_M) <= TOKENS_AT_ONCE:
        return (losses(hidden_MH, labels_M) * weights_M).sum()

    # The backward pass computes the logits of a chunk again, so that none are kept.
    losses_M = torch.cat(
        [
            checkpoint(losses, hidden_NH, labels_N, use_reentrant=False)
            for hidden_NH, labels_N in zip(
                torch.split(hidden_MH, TOKENS_AT_ONCE),
                torch.split(labels_M, TOKENS_AT_ONCE),
                strict=True,
            )
        ]
    )
    return (losses_M * weights_M).sum()


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

        Logits are `[M, V]` instead of `[B, L, V]`, and those of `TOKENS_AT_ONCE` tokens at a time
        if M is larger, see `weighted_loss`. `torch.compile(..., fullgraph=True)` compiles it into a
        single graph for any M (torch 2.13), with the logits of all M tokens at once. Without
        `fullgraph`, the graph breaks at `nonzero`.

        Args:
            hidden_BLH: Last hidden states of the encoder.
            decoder: The language modeling head, called with `[N, H]`, N <= M.
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

        # Fill with Python floats: weights stay exact even if the model is cast to half precision.
        wide = torch.promote_types(hidden_BLH.dtype, torch.float32)
        weights_BL = torch.zeros_like(labels_BL, dtype=wide)
        weights_BL = weights_BL.masked_fill(mask_kinds_BL == int(MaskKind.ENTITY), self.w_elm)
        weights_BL = weights_BL.masked_fill(mask_kinds_BL == int(MaskKind.BASE), self.w_blm)

        # Masked diffusion: 1 / rate, bounded so that a row with a tiny rate does not dominate the
        # step.
        if self.per_rate:
            rates_BL = _expand_rates(mask_rates, labels_BL.shape)
            weights_BL = weights_BL / rates_BL.to(wide).clamp(min=self.low)

        return _sum_losses(hidden_BLH, decoder, labels_BL, weights_BL)

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
