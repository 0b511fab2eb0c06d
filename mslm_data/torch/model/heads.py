"""The two heads of MSLM (Abaho et al. 2024, Eq. 7 to 11): entity detection and entity types.

The paper concatenates one trained vector with each hidden state before `f`, and does not say what
`f` is. Here `f` is a hidden layer as wide as the encoder, ReLU, dropout, and a layer to the
classes. A vector that is the same for all tokens adds only a bias to the affine layer behind it,
and it is computed as that bias.

Dimensions: B rows, L tokens, S mentions (padded), H hidden width, C tags, E types.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parameter import Parameter

from mslm_data.torch.model.loss import LossSum, token_losses
from mslm_data.torch.model.ranges import NO_SPAN, pool_spans

VECTOR_SIZE = 100
"""k and d of the paper's Table 7."""


class VectorHead(nn.Module):
    """Classify `f(h o W)`: W is a trained vector shared by all h, `o` is concatenation.

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
        """Make the layers with random weights.

        Args:
            hidden_size: H.
            classes: Number of classes to tell apart.
            vector_size: k of Eq. 7 or d of Eq. 10.
            dropout: Between the two layers.

        Raises:
            ValueError: There is no class.
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
        # weight @ (h o W) = weight[:, :H] @ h + weight[:, H:] @ W, of which the second part is the
        # same for all h.
        width = h.shape[-1]
        hidden_weight = self.hidden.weight[:, :width]
        vector_weight = self.hidden.weight[:, width:]
        bias = F.linear(self.vector, vector_weight, self.hidden.bias)

        activations = self.dropout(F.relu(F.linear(h, hidden_weight, bias)))
        logits: Tensor = self.out(activations)
        return logits


class EntityDetectionHead(VectorHead):
    """Predict the BIO tag of each token (Eq. 7).

    `classes` is the number of tags C, `vector_size` is k.
    """

    def forward(self, hidden_BLH: Tensor) -> Tensor:
        """Return logits `[B, L, C]`."""
        return self.classify(hidden_BLH)

    @staticmethod
    def loss(logits_BLC: Tensor, bio_BL: Tensor) -> LossSum:
        """Sum the cross-entropy of all tokens that have a tag (Eq. 8), and count these tokens.

        Args:
            logits_BLC: Any float.
            bio_BL: int64, -100 on special tokens and padding.
        """
        losses_N = token_losses(logits_BLC.flatten(0, 1), bio_BL.flatten())
        return LossSum(total=losses_N.sum(), items=(bio_BL >= 0).sum())


class EntityClassificationHead(VectorHead):
    """Predict the type of each mention from the mean of its tokens (Eq. 9, 10).

    `classes` is the number of types E, `vector_size` is d. With one type the softmax is 1 and the
    loss 0, whatever the head computes.
    """

    def forward(self, hidden_BLH: Tensor, starts_BS: Tensor, ends_BS: Tensor) -> Tensor:
        """Return logits `[B, S, E]` of mentions: gold ones in training, else predicted ones.

        Args:
            hidden_BLH: Last hidden states of the encoder.
            starts_BS: int64, first tokens, padded with -1.
            ends_BS: int64, tokens after the last, padded with -1.
        """
        return self.classify(pool_spans(hidden_BLH, starts_BS, ends_BS))

    @staticmethod
    def loss(logits_BSE: Tensor, labels_BS: Tensor) -> LossSum:
        """Sum the cross-entropy of all mentions (Eq. 11), and count them.

        Args:
            logits_BSE: Any float.
            labels_BS: int64, padded with -1.
        """
        losses_N = token_losses(logits_BSE.flatten(0, 1), labels_BS.flatten(), ignored=NO_SPAN)
        return LossSum(total=losses_N.sum(), items=(labels_BS != NO_SPAN).sum())
