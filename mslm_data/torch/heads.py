"""The two heads of MSLM: which tokens are entities, and of which type an entity is (Abaho et al. 2024, Eq. 7 to 11).

The paper joins one trained vector to each hidden state before `f`, whose form and width it does not say: here `f` is
a hidden layer as wide as the encoder, ReLU, dropout, and a layer to the classes. Such a vector adds no more than a bias
to an affine layer, and so it is computed.

Dimensions: B sequences, L tokens, S mentions (padded), H width, C tags, E types.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parameter import Parameter

from mslm_data.torch.loss import reduce, token_losses
from mslm_data.torch.spans import NO_SPAN, pool_spans

VECTOR_SIZE = 100
"""k and d of the paper's Table 7."""


class VectorHead(nn.Module):
    """`f(h o W)` with one trained vector W, the same for all h.

    Attributes:
        vector: W, `[vector_size]`.
    """

    def __init__(
        self,
        hidden_size: int,
        classes: int,
        *,
        vector_size: int = VECTOR_SIZE,
        dropout: float = 0.1,
    ) -> None:
        """Make a head.

        Args:
            hidden_size: H.
            classes: What it tells apart.
            vector_size: k or d.
            dropout: Between the two layers.

        Raises:
            ValueError: No classes.
        """
        super().__init__()
        if classes < 1:
            raise ValueError(f"{type(self).__name__}: expected at least 1 class, got {classes}")
        self.vector = Parameter(torch.empty(vector_size).normal_(std=0.02))
        self.hidden = nn.Linear(hidden_size + vector_size, hidden_size)
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(hidden_size, classes)

    def classify(self, h: Tensor) -> Tensor:
        """Return logits `[..., classes]` of vectors `[..., H]`."""
        width = h.shape[-1]
        bias = F.linear(self.vector, self.hidden.weight[:, width:], self.hidden.bias)
        logits: Tensor = self.out(
            self.dropout(F.relu(F.linear(h, self.hidden.weight[:, :width], bias)))
        )
        return logits


class EntityDetectionHead(VectorHead):
    """Eq. 7: the BIO tag of each token. `classes` is the number of tags, C; `vector_size` is k."""

    def forward(self, hidden_BLH: Tensor) -> Tensor:
        """Return logits `[B, L, C]`."""
        return self.classify(hidden_BLH)

    @staticmethod
    def loss(
        logits_BLC: Tensor,
        bio_BL: Tensor,
        *,
        reduction: str = "sum",
        num_items: Tensor | int | None = None,
    ) -> Tensor:
        """Return Eq. 8: the cross-entropy of all sub-words that have a tag.

        Args:
            logits_BLC: Any float.
            bio_BL: int64, -100 on special tokens and padding.
            reduction: "sum" over a sequence, the mean over the batch; "mean" over the tagged tokens.
            num_items: For steps of many batches: their tagged tokens ("mean") or sequences ("sum").
        """
        losses = token_losses(logits_BLC.flatten(0, 1), bio_BL.flatten())
        counted = (bio_BL >= 0).sum()
        return reduce(
            losses, counted=counted, rows=len(bio_BL), reduction=reduction, num_items=num_items
        )


class EntityClassificationHead(VectorHead):
    """Eq. 9 and 10: the type of each mention, from the mean of its tokens. `classes` is E; `vector_size` is d.

    With one type its softmax is 1 and its loss 0, whatever it computes.
    """

    def forward(self, hidden_BLH: Tensor, starts_BS: Tensor, ends_BS: Tensor) -> Tensor:
        """Return logits `[B, S, E]` of the mentions `[starts, ends)`: gold ones in training, else predicted ones."""
        return self.classify(pool_spans(hidden_BLH, starts_BS, ends_BS))

    @staticmethod
    def loss(
        logits_BSE: Tensor,
        labels_BS: Tensor,
        *,
        reduction: str = "sum",
        num_items: Tensor | int | None = None,
    ) -> Tensor:
        """Return Eq. 11: the cross-entropy of the mentions; 0 where there are none.

        Args:
            logits_BSE: Any float.
            labels_BS: int64, -1 where there is none.
            reduction: "sum" over a sequence, the mean over the batch; "mean" over the mentions.
            num_items: For steps of many batches: their mentions ("mean") or sequences ("sum").
        """
        losses = token_losses(logits_BSE.flatten(0, 1), labels_BS.flatten(), ignored=NO_SPAN)
        counted = (labels_BS != NO_SPAN).sum()
        return reduce(
            losses, counted=counted, rows=len(labels_BS), reduction=reduction, num_items=num_items
        )
