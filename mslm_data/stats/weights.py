"""Loss weights of ELM and BLM tokens, which sum to 1: Abaho et al. 2024, Eq. 2 to 5."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

Weights: TypeAlias = tuple[float, float]
"""`(w_elm, w_blm)`."""

SATURATED = (
    "more tokens are masked by ELM than by BLM, so both clips of Eq. 3 fire and the weights of "
    "Eq. 5 are 0.5 and 0.5: the loss does not distinguish terms from other words"
)
"""Text of the warning for `MaskSpecificWeights.saturated`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskSpecificWeights:
    """The loss weights of ELM and BLM tokens, equation by equation.

    At the paper's headline rates (ELM 1.0, BLM 0.075), the vocabulary decides whether the weights
    are saturated. With BERT's cased vocabulary, they are saturated on all four measured corpora:
    BC2GM, BC5CDR-chem, BC5CDR-disease and NCBI-disease. With PubMedBERT's, they are not saturated
    on BC5CDR-chem (N_ELM 11,743, N_BLM 11,831; weights .5009 and .4991) and BC5CDR-disease (8,708
    and 11,831; .5379 and .4621).

    Attributes:
        w_elm_raw: Eq. 2: `1 - N_ELM / (N_ELM + N_BLM)`; 0.5 without masks.
        w_blm_raw: Eq. 2: `1 - N_BLM / (N_ELM + N_BLM)`; 0.5 without masks.
        w_elm_clipped: Eq. 3: at least 0.5.
        w_blm_clipped: Eq. 3: at most 0.5.
        w_elm: Eq. 5: softmax of the clipped weights, in `[0.5, 0.732)`.
        w_blm: Eq. 5: `1 - w_elm`.
        saturated: Whether Eq. 3 clips both weights. This happens if ELM masks more tokens than BLM;
            the weights are then 0.5 and 0.5, independent of the counts.
    """

    w_elm_raw: float
    w_blm_raw: float
    w_elm_clipped: float
    w_blm_clipped: float
    w_elm: float
    w_blm: float
    saturated: bool

    @classmethod
    def from_counts(cls, n_elm: int, n_blm: int) -> MaskSpecificWeights:
        """Compute Eq. 2 to 5 from the numbers of masked tokens in the training split.

        Raises:
            ValueError: A number is negative.
        """
        elm_raw, blm_raw = _raw(n_elm, n_blm)
        elm_clipped = max(0.5, elm_raw)
        blm_clipped = min(0.5, blm_raw)
        elm, blm = _softmax(elm_clipped, blm_clipped)

        return cls(
            w_elm_raw=elm_raw,
            w_blm_raw=blm_raw,
            w_elm_clipped=elm_clipped,
            w_blm_clipped=blm_clipped,
            w_elm=elm,
            w_blm=blm,
            saturated=elm_raw < 0.5 < blm_raw,
        )


def mask_specific_weights(n_elm: int, n_blm: int) -> Weights:
    """Return `(w_elm, w_blm)` of Abaho et al. 2024, Eq. 2 to 5.

    `MaskSpecificWeights` has the values of each equation.

    Args:
        n_elm: Number of tokens masked by ELM in the training split.
        n_blm: Number of tokens masked by BLM in the training split. If both numbers are 0, Eq. 2 is
            undefined and the weights are `(0.5, 0.5)`.

    Raises:
        ValueError: A number is negative.
    """
    weights = MaskSpecificWeights.from_counts(n_elm, n_blm)
    return weights.w_elm, weights.w_blm


def released_weights(n_elm: int, n_blm: int) -> Weights:
    """Return `(w_elm, w_blm)` as computed by the paper's released code.

    Its clip for ELM reads the weight of BLM: `w_elm = max(0.5, w_blm)` instead of `max(0.5, w_elm)`
    in Eq. 3 (mykelismyname/MSLM at c9cde41, `utils.py:332`). If both numbers are 0, the code raises
    ZeroDivisionError; here the weights are `(0.5, 0.5)`.

    The released code counts the training and validation splits together; `mask-stats` counts one
    split. To reproduce its weights, pass the sums of both splits.

    Args:
        n_elm: Number of tokens masked by ELM.
        n_blm: Number of tokens masked by BLM.

    Raises:
        ValueError: A number is negative.
    """
    _, blm_raw = _raw(n_elm, n_blm)
    return _softmax(max(0.5, blm_raw), min(0.5, blm_raw))


def scaled_weights(w_elm: float, w_blm: float, *, n_elm: int, n_blm: int) -> Weights:
    """Return the weights times the factor that makes their mean over all targets 1.

    A loss with these weights, divided by its number of targets, is as large as one without weights,
    so that the learning rate may stay::

        stats = mask_stats(shards["train"].chunks, strategy, labels=shards.labels)
        weights = md.scaled_weights(4, 1, n_elm=stats.n_elm, n_blm=stats.n_blm)
        batches = md.Batches(shards["train"], strategy, weights=weights)

    Args:
        w_elm: Weight of ELM tokens, such as those of terms.
        w_blm: Weight of BLM tokens.
        n_elm: Number of ELM tokens among the targets of the training split.
        n_blm: Number of BLM tokens.

    Raises:
        ValueError: A number is negative or not finite, or all targets have weight 0.
    """
    numbers = (w_elm, w_blm, n_elm, n_blm)
    if not all(math.isfinite(number) and number >= 0 for number in numbers):
        raise ValueError(f"weights: expected numbers of at least 0, got {numbers}")
    total = w_elm * n_elm + w_blm * n_blm
    if not total:
        raise ValueError(f"weights: expected a target with a weight, got {numbers}")
    factor = (n_elm + n_blm) / total
    return w_elm * factor, w_blm * factor


SCHEMES: dict[str, Callable[[int, int], Weights]] = {
    "paper": mask_specific_weights,
    "released": released_weights,
}
"""Name -> function from numbers of masked tokens to weights."""


def _raw(n_elm: int, n_blm: int) -> Weights:
    """Return Eq. 2; 0.5 and 0.5 without masks."""
    if not (n_elm >= 0 and n_blm >= 0):
        raise ValueError(f"weights: expected numbers of tokens, got n_elm={n_elm}, n_blm={n_blm}")

    total = n_elm + n_blm
    if not total:
        return 0.5, 0.5
    return 1 - n_elm / total, 1 - n_blm / total


def _softmax(elm: float, blm: float) -> Weights:
    total = math.exp(elm) + math.exp(blm)
    return math.exp(elm) / total, math.exp(blm) / total
