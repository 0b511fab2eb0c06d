"""The two heads of MSLM (Abaho et al. 2024, Eq. 7 to 11): entity detection and classification.

Losses are sums, as in `mslm_data.torch.model.loss`.

Dimensions: B rows, L tokens, S mentions (padded), H hidden size, C tags, E entity types.
"""

from __future__ import annotations

from torch import Tensor, nn

from mslm_data.torch.model.loss import token_losses
from mslm_data.torch.model.ranges import NO_SPAN, pool_spans


class _EntityHead(nn.Module):
    """The function f of both heads: logits `[..., classes]` of hidden states `[..., H]`.

    The paper does not specify f. Here it is a hidden layer of the encoder's size, ReLU, dropout and
    an output layer. The paper also concatenates a trained vector with each hidden state. The vector
    is the same for all of them, so it would only add a bias to the hidden layer, which has one.
    """

    def __init__(self, hidden_size: int, classes: int, *, dropout: float = 0.1) -> None:
        """Create the layers with random weights.

        Args:
            hidden_size: H.
            classes: Number of output classes.
            dropout: Dropout probability between the two layers.
        """
        super().__init__()
        self.f = nn.Sequential(
            nn.Linear(hidden_size, hidden_size),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden_size, classes),
        )


class EntityDetectionHead(_EntityHead):
    """Predict the BIO tag of each token (Eq. 7). `classes` is the number of tags C."""

    def forward(self, hidden_BLH: Tensor) -> Tensor:
        """Return logits `[B, L, C]`."""
        logits_BLC: Tensor = self.f(hidden_BLH)
        return logits_BLC

    @staticmethod
    def loss(logits_BLC: Tensor, bio_BL: Tensor) -> Tensor:
        """Sum the cross-entropy of tagged tokens, in nats (Eq. 8).

        Args:
            logits_BLC: Logits, any float dtype.
            bio_BL: int64, -100 on special tokens and padding.
        """
        return token_losses(logits_BLC.flatten(0, 1), bio_BL.flatten()).sum()


class EntityClassificationHead(_EntityHead):
    """Predict the type of each mention from the mean of its hidden states (Eq. 9, 10).

    `classes` is the number of entity types E. With a single type the loss is always 0.
    """

    def forward(self, hidden_BLH: Tensor, starts_BS: Tensor, ends_BS: Tensor) -> Tensor:
        """Return logits `[B, S, E]` of gold mentions (training) or predicted mentions.

        Args:
            hidden_BLH: Last hidden states of the encoder.
            starts_BS: int64, first token of each mention, padded with -1.
            ends_BS: int64, token after the last, padded with -1.
        """
        logits_BSE: Tensor = self.f(pool_spans(hidden_BLH, starts_BS, ends_BS))
        return logits_BSE

    @staticmethod
    def loss(logits_BSE: Tensor, labels_BS: Tensor) -> Tensor:
        """Sum the cross-entropy of all mentions, in nats (Eq. 11).

        Args:
            logits_BSE: Logits, any float dtype.
            labels_BS: int64, padded with -1.
        """
        return token_losses(logits_BSE.flatten(0, 1), labels_BS.flatten(), ignored=NO_SPAN).sum()
