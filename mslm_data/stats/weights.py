"""Weighs ELM-masked and BLM-masked tokens by their numbers (Abaho et al. 2024, Eq. 2 to 5)."""

from __future__ import annotations

import math
from dataclasses import dataclass

SATURATED = (
    "more tokens are masked by ELM than by BLM, so both clips of Eq. 3 fire and Eq. 5 makes the "
    "weights 0.5 and 0.5: they carry no information, the loss does not tell terms from other words"
)
"""`MaskSpecificWeights.saturated` in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskSpecificWeights:
    """The loss weights of ELM-masked and BLM-masked tokens, equation by equation.

    At the paper's own headline rates (ELM 1.0, BLM 0.075) whether the weights are saturated depends
    on the vocabulary. With BERT's cased one they are on BC2GM, BC5CDR-chem, BC5CDR-disease and
    NCBI-disease, the four corpora measured. With PubMedBERT's they are not on BC5CDR-chem (N_ELM
    11,743, N_BLM 11,831; .5009 and .4991) nor on BC5CDR-disease (8,708 and 11,831; .5379 and
    .4621).

    Attributes:
        w_elm_raw: Eq. 2: `1 - N_ELM / (N_ELM + N_BLM)`; 0.5 where nothing is masked.
        w_blm_raw: Eq. 2: `1 - N_BLM / (N_ELM + N_BLM)`; 0.5 where nothing is masked.
        w_elm_clipped: Eq. 3: at least 0.5.
        w_blm_clipped: Eq. 3: at most 0.5.
        w_elm: Eq. 5: softmax of the clipped weights; in `[0.5, 0.732)`.
        w_blm: Eq. 5: `1 - w_elm`.
        saturated: Whether both clips changed something. They do so together, where more tokens are
            masked by ELM than by BLM: the weights are then 0.5 and 0.5, whatever the numbers.
    """

    w_elm_raw: float
    w_blm_raw: float
    w_elm_clipped: float
    w_blm_clipped: float
    w_elm: float
    w_blm: float
    saturated: bool

    @classmethod
    def of(cls, n_elm: int, n_blm: int) -> MaskSpecificWeights:
        """Compute Eq. 2 to 5 from the numbers of masked tokens in the training split.

        Raises:
            ValueError: A number is negative.
        """
        if n_elm < 0 or n_blm < 0:
            raise ValueError(
                f"weights: expected numbers of tokens, got n_elm={n_elm}, n_blm={n_blm}"
            )

        total = n_elm + n_blm
        elm_raw = 1 - n_elm / total if total else 0.5
        blm_raw = 1 - n_blm / total if total else 0.5

        elm_clipped = max(0.5, elm_raw)
        blm_clipped = min(0.5, blm_raw)

        powers = math.exp(elm_clipped) + math.exp(blm_clipped)

        return cls(
            w_elm_raw=elm_raw,
            w_blm_raw=blm_raw,
            w_elm_clipped=elm_clipped,
            w_blm_clipped=blm_clipped,
            w_elm=math.exp(elm_clipped) / powers,
            w_blm=math.exp(blm_clipped) / powers,
            saturated=elm_raw < 0.5 < blm_raw,
        )


def mask_specific_weights(n_elm: int, n_blm: int) -> tuple[float, float]:
    """Return `(w_elm, w_blm)` of Abaho et al. 2024, Eq. 2 to 5.

    `MaskSpecificWeights` has the values of each equation.

    Args:
        n_elm: Tokens that ELM masks in the training split.
        n_blm: Tokens that BLM masks in the training split. Both 0 gives `(0.5, 0.5)`, where Eq. 2
            would divide by 0.

    Raises:
        ValueError: A number is negative.
    """
    weights = MaskSpecificWeights.of(n_elm, n_blm)
    return weights.w_elm, weights.w_blm
