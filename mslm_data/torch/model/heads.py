"""The function f of MSLM's two heads (Abaho et al. 2024, Eq. 7 and 10).

The detection head applies it to each token's hidden state, the classification head to the mean of
each mention's hidden states (`pool_spans`, Eq. 9).
"""

from __future__ import annotations

from torch import nn


class EntityHead(nn.Sequential):
    """Compute logits `[..., classes]` of hidden states `[..., H]`.

    The paper does not specify f. Here it is a hidden layer of the encoder's size, ReLU, dropout and
    an output layer. The paper also concatenates a trained vector with each hidden state. The vector
    is the same for all of them, so it would only add a bias to the hidden layer, which has one.
    """

    def __init__(self, hidden_size: int, classes: int, *, dropout: float = 0.1) -> None:
        """Create the layers with random weights.

        Args:
            hidden_size: H.
            classes: Number of output classes: tags in Eq. 7, entity types in Eq. 10.
            dropout: Dropout probability between the two layers.
        """
        super().__init__(
            nn.Linear(hidden_size, hidden_size),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden_size, classes),
        )
