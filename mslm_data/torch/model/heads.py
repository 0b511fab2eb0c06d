"""The two heads of MSLM (Abaho et al. 2024, Eq. 7 to 11): entity detection and classification.

The paper concatenates a trained vector W with each hidden state, and applies an unspecified
function f. Here f is a hidden layer of the encoder's size, ReLU, dropout and an output layer. Since
W is the same for all tokens, it only adds a bias to the hidden layer, and is computed as one.

Dimensions: B rows, L tokens, S mentions (padded), H hidden size, C tags, E entity types; N items.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parameter import Parameter

from mslm_data.torch.model.loss import LossSum, token_losses
from mslm_data.torch.model.ranges import NO_SPAN, pool_spans

VECTOR_SIZE = 100
"""Default for k and d (paper, Table 7)."""


class VectorHead(nn.Module):
    """Classify hidden states h as `f(h o W)`: W is a trained vector, `o` is concatenation.

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
        """Create the layers with random weights.

        Args:
            hidden_size: H.
            classes: Number of output classes.
            vector_size: k in Eq. 7, d in Eq. 10.
            dropout: Dropout probability between the two layers.

        Raises:
            ValueError: `classes` is less than 1.
        """
        super().__init__()
        if classes < 1:
            raise ValueError(f"{type(self).__name__}: expected at least 1 class, got {classes}")

        self.vector = Parameter(torch.empty(vector_size).normal_(std=0.02))
        self.hidden = nn.Linear(hidden_size + vector_size, hidden_size)
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(hidden_size, classes)

    def classify(self, h: Tensor) -> Tensor:
        """Return logits `[..., classes]` of hidden states `[..., H]`."""
        # weight @ (h o W) = weight[:, :H] @ h + weight[:, H:] @ W. The second term is the same for
        # all h, so it joins the bias.
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
        """Sum the cross-entropy of tagged tokens (Eq. 8), and count them.

        Args:
            logits_BLC: Logits, any float dtype.
            bio_BL: int64, -100 on special tokens and padding.
        """
        losses_N = token_losses(logits_BLC.flatten(0, 1), bio_BL.flatten())
        return LossSum(total=losses_N.sum(), items=(bio_BL >= 0).sum())


class EntityClassificationHead(VectorHead):
    """Predict the type of each mention from the mean of its hidden states (Eq. 9, 10).

    `classes` is the number of entity types E, `vector_size` is d. With a single type the loss is
    always 0.
    """

    def forward(self, hidden_BLH: Tensor, starts_BS: Tensor, ends_BS: Tensor) -> Tensor:
        """Return logits `[B, S, E]` of gold mentions (training) or predicted mentions.

        Args:
            hidden_BLH: Last hidden states of the encoder.
            starts_BS: int64, first token of each mention, padded with -1.
            ends_BS: int64, token after the last, padded with -1.
        """
        return self.classify(pool_spans(hidden_BLH, starts_BS, ends_BS))

    @staticmethod
    def loss(logits_BSE: Tensor, labels_BS: Tensor) -> LossSum:
        """Sum the cross-entropy of all mentions (Eq. 11), and count them.

        Args:
            logits_BSE: Logits, any float dtype.
            labels_BS: int64, padded with -1.
        """
        losses_N = token_losses(logits_BSE.flatten(0, 1), labels_BS.flatten(), ignored=NO_SPAN)
        return LossSum(total=losses_N.sum(), items=(labels_BS != NO_SPAN).sum())
