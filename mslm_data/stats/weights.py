"""Loss weights of ELM and BLM tokens: Abaho et al. 2024, Eq. 2 to 5, and alternatives.

All schemes compute weights from numbers of masked tokens. As in the paper, weights sum to 1, except
those of `fixed`, so that schemes can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from mslm_data.registry import did_you_mean

Weights: TypeAlias = tuple[float, float]
"""`(w_elm, w_blm)`."""

BETA = 0.9999
"""Default beta: the largest that Cui et al. 2019 use."""

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


def fixed_weights(n_elm: int, n_blm: int, w_elm: float, w_blm: float) -> Weights:
    """Return the given weights, for any number of masked tokens. They need not sum to 1.

    Raises:
        ValueError: A number of tokens is negative, or a weight is negative or not finite.
    """
    _check(n_elm, n_blm)
    if not all(math.isfinite(weight) and weight >= 0 for weight in (w_elm, w_blm)):
        raise ValueError(
            f"weights: fixed needs two numbers of 0 or more, got {w_elm:g} and {w_blm:g}"
        )
    return float(w_elm), float(w_blm)


def inverse_frequency_weights(n_elm: int, n_blm: int) -> Weights:
    """Return weights in proportion to `1 / N_ELM` and `1 / N_BLM`.

    For two kinds, this is Eq. 2 of Abaho et al. 2024 without clip and softmax: `w_elm = N_BLM /
    (N_ELM + N_BLM)`. Both kinds have the same total weight, so terms weigh less if they are the
    more frequent kind.

    Args:
        n_elm: Number of tokens masked by ELM in the training split.
        n_blm: Number of tokens masked by BLM in the training split. If one of the numbers is 0, the
            weights are `(0.5, 0.5)`, because the formula would give weight 0 to the other kind.

    Raises:
        ValueError: A number is negative.
    """
    _check(n_elm, n_blm)
    return _shares(n_blm, n_elm)


def effective_number_weights(n_elm: int, n_blm: int, beta: float = BETA) -> Weights:
    """Return weights in proportion to `1 / E_n`, `E_n = (1 - beta**n) / (1 - beta)`.

    Reference: Cui et al. 2019, Prop. 1. A beta of 0 gives equal weights, a beta near 1 inverse
    frequencies. `E_n` is at most `1 / (1 - beta)`. With the paper's betas, 0.9 to 0.9999, counts
    above about 100,000 tokens give equal weights, so large corpora need a larger beta. The paper's
    weights sum to the number of classes, here 2; these sum to 1.

    Args:
        n_elm: Number of tokens masked by ELM in the training split.
        n_blm: Number of tokens masked by BLM in the training split. If one of the numbers is 0, the
            weights are `(0.5, 0.5)`, as in `inverse_frequency_weights`.
        beta: In `[0, 1)`. Default: 0.9999.

    Raises:
        ValueError: A number is negative, or beta is out of range.
    """
    _check(n_elm, n_blm)
    if not 0 <= beta < 1:
        raise ValueError(f"weights: effective-number needs a beta in [0, 1), got {beta:g}")

    return _shares(_effective_number(n_blm, beta), _effective_number(n_elm, beta))


def _effective_number(count: int, beta: float) -> float:
    """Return `1 - beta**count`, which is proportional to `E_n`."""
    if beta == 0 or count == 0:
        return float(count > 0)

    # expm1 avoids the cancellation in `1 - beta**count` for beta near 1.
    return -math.expm1(count * math.log(beta))


@dataclass(frozen=True, slots=True)
class Scheme:
    """A named function from numbers of masked tokens to weights.

    Attributes:
        name: Name with its numbers, such as `paper` or `effective-number=0.9999`.
        weigh: `(n_elm, n_blm)` -> `(w_elm, w_blm)`.
    """

    name: str
    weigh: Callable[[int, int], Weights]

    @classmethod
    def parse(cls, text: str) -> Scheme:
        """Parse a scheme, as given to `--weights`.

        Args:
            text: `paper`, `released`, `inverse-frequency`, `effective-number[=BETA]` or
                `fixed=W_ELM,W_BLM`.

        Raises:
            ValueError: The name is unknown, or the numbers are wrong for the scheme.
        """
        name, equals, values = text.partition("=")
        if name not in _SCHEMES:
            raise ValueError(f"weights: unknown '{name}'{did_you_mean(name, _SCHEMES)}")
        weigh, takes, default = _SCHEMES[name]

        numbers = _parse_numbers(values) if equals else list(default)
        if numbers is None or len(numbers) != takes:
            raise ValueError(f"weights: expected {_FORMS[takes].format(name)}, got '{text}'")
        weigh(1, 1, *numbers)  # raises if a number is out of range

        full = f"{name}={','.join(f'{number:.12g}' for number in numbers)}" if takes else name
        return cls(full, lambda n_elm, n_blm: weigh(n_elm, n_blm, *numbers))


_SCHEMES: dict[str, tuple[Callable[..., Weights], int, tuple[float, ...]]] = {
    "paper": (mask_specific_weights, 0, ()),
    "released": (released_weights, 0, ()),
    "inverse-frequency": (inverse_frequency_weights, 0, ()),
    "effective-number": (effective_number_weights, 1, (BETA,)),
    "fixed": (fixed_weights, 2, ()),
}
"""Name -> function, number of values after `=`, and their defaults."""

_FORMS = ("{0} alone", "{0} or {0}=BETA", "{0}=W_ELM,W_BLM")
"""Syntax of a scheme, by its number of values."""


def schemes(*also: str) -> list[Scheme]:
    """Return all schemes that need no numbers, then other schemes, without duplicates.

    Args:
        *also: Other schemes, in the syntax of `Scheme.parse`.

    Raises:
        ValueError: See `Scheme.parse`.
    """
    complete = [name for name, (_, takes, default) in _SCHEMES.items() if takes == len(default)]
    by_name = {scheme.name: scheme for scheme in map(Scheme.parse, [*complete, *also])}
    return list(by_name.values())


def _parse_numbers(text: str) -> list[float] | None:
    """Parse numbers separated by commas; None if one is no number."""
    try:
        return [float(number) for number in text.split(",")]
    except ValueError:
        return None


def _check(n_elm: int, n_blm: int) -> None:
    if not (n_elm >= 0 and n_blm >= 0):
        raise ValueError(f"weights: expected numbers of tokens, got n_elm={n_elm}, n_blm={n_blm}")


def _raw(n_elm: int, n_blm: int) -> Weights:
    """Return Eq. 2; 0.5 and 0.5 without masks."""
    _check(n_elm, n_blm)
    total = n_elm + n_blm
    if not total:
        return 0.5, 0.5
    return 1 - n_elm / total, 1 - n_blm / total


def _shares(elm: float, blm: float) -> Weights:
    """Return two numbers as shares of their sum; 0.5 and 0.5 if either is 0."""
    if not (elm and blm):
        return 0.5, 0.5
    return elm / (elm + blm), blm / (elm + blm)


def _softmax(elm: float, blm: float) -> Weights:
    total = math.exp(elm) + math.exp(blm)
    return math.exp(elm) / total, math.exp(blm) / total
