"""Weighs ELM-masked and BLM-masked tokens, by Abaho et al. 2024, Eq. 2 to 5, and in other ways.

All weigh by numbers of masked sub-word tokens. All but `fixed` sum to 1, as the paper's do, so that
they can be compared.
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
"""The largest beta that Cui et al. 2019 try, and the default here."""

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
        n_elm: Tokens that ELM masks in the training split.
        n_blm: Tokens that BLM masks in the training split. Both 0 gives `(0.5, 0.5)`, where Eq. 2
            would divide by 0.

    Raises:
        ValueError: A number is negative.
    """
    weights = MaskSpecificWeights.from_counts(n_elm, n_blm)
    return weights.w_elm, weights.w_blm


def released_weights(n_elm: int, n_blm: int) -> Weights:
    """Return `(w_elm, w_blm)` as the paper's released code computes them from two numbers.

    Its clip for ELM reads the weight of BLM: `w_elm = max(0.5, w_blm)` stands where Eq. 3 has
    `max(0.5, w_elm)` (mykelismyname/MSLM at c9cde41, `utils.py:332`). Both numbers 0 raise
    ZeroDivisionError there and give `(0.5, 0.5)` here.

    The released code counts the training and validation splits together. `mask-stats` counts one
    split, so its `released` weights differ from the original's where the two splits' shares differ.
    Add the numbers of both splits for those of the original.

    Args:
        n_elm: Tokens that ELM masks.
        n_blm: Tokens that BLM masks.

    Raises:
        ValueError: A number is negative.
    """
    _, blm_raw = _raw(n_elm, n_blm)
    return _softmax(max(0.5, blm_raw), min(0.5, blm_raw))


def fixed_weights(n_elm: int, n_blm: int, w_elm: float, w_blm: float) -> Weights:
    """Return the weights given, whatever is masked; they are not made to sum to 1.

    Raises:
        ValueError: A number of tokens is negative, or a weight is negative or not finite.
    """
    _check(n_elm, n_blm)
    if not all(math.isfinite(weight) and weight >= 0 for weight in (w_elm, w_blm)):
        raise ValueError(
            f"weights: expected two numbers of 0 or more for fixed, got {w_elm:g} and {w_blm:g}"
        )
    return float(w_elm), float(w_blm)


def inverse_frequency_weights(n_elm: int, n_blm: int) -> Weights:
    """Return weights in proportion to `1 / N_ELM` and `1 / N_BLM`.

    For two kinds that is Eq. 2 of Abaho et al. 2024 without the clip and the softmax:
    `w_elm = N_BLM / (N_ELM + N_BLM)`. Each kind has the same total weight, so terms weigh less
    where they are the more frequent kind.

    Args:
        n_elm: Tokens that ELM masks in the training split.
        n_blm: Tokens that BLM masks in the training split. If either number is 0 the weights are
            `(0.5, 0.5)`: the formula would give the only kind that is masked a weight of 0.

    Raises:
        ValueError: A number is negative.
    """
    _check(n_elm, n_blm)
    return _shares(n_blm, n_elm)


def effective_number_weights(n_elm: int, n_blm: int, beta: float = BETA) -> Weights:
    """Return weights in proportion to `1 / E_n`, `E_n = (1 - beta**n) / (1 - beta)`.

    This is Cui et al. 2019, Prop. 1. Beta 0 gives equal weights, and beta near 1 the inverse
    frequency. `E_n` is never above `1 / (1 - beta)`: with the paper's own betas, 0.9 to 0.9999,
    counts beyond some 100,000 tokens give equal weights, so large corpora need a larger beta. The
    paper makes the weights sum to the number of classes, here 2; these sum to 1, half of that.

    Args:
        n_elm: Tokens that ELM masks in the training split.
        n_blm: Tokens that BLM masks in the training split. If either number is 0 the weights are
            `(0.5, 0.5)`, as in `inverse_frequency_weights`.
        beta: In `[0, 1)`.

    Raises:
        ValueError: A number is negative, or beta is out of range.
    """
    _check(n_elm, n_blm)
    if not 0 <= beta < 1:
        raise ValueError(f"weights: expected a beta in [0, 1) for effective-number, got {beta:g}")

    return _shares(_effective_number(n_blm, beta), _effective_number(n_elm, beta))


def _effective_number(count: int, beta: float) -> float:
    """Return `1 - beta**count`, to which Cui et al.'s `E_n` is proportional."""
    if beta == 0 or count == 0:
        return float(count > 0)

    # expm1 keeps the digits that `1 - beta**count` loses for a beta near 1.
    return -math.expm1(count * math.log(beta))


@dataclass(frozen=True, slots=True)
class Scheme:
    """A named way to weigh the two kinds of masked tokens.

    Attributes:
        name: The name with its numbers, such as `paper` or `effective-number=0.9999`.
        weigh: `(n_elm, n_blm)` -> `(w_elm, w_blm)`.
    """

    name: str
    weigh: Callable[[int, int], Weights]

    @classmethod
    def parse(cls, text: str) -> Scheme:
        """Return the scheme that a text names, as `--weights` takes it.

        Args:
            text: `paper`, `released`, `inverse-frequency`, `effective-number[=BETA]` or
                `fixed=W_ELM,W_BLM`.

        Raises:
            ValueError: An unknown name, or numbers that the scheme does not take.
        """
        name, equals, given = text.partition("=")
        if name not in _SCHEMES:
            raise ValueError(f"weights: unknown '{name}'{did_you_mean(name, _SCHEMES)}")
        weigh, takes, default = _SCHEMES[name]

        numbers = _numbers(given) if equals else list(default)
        if numbers is None or len(numbers) != takes:
            raise ValueError(f"weights: expected {_FORMS[takes].format(name)}, got '{text}'")
        weigh(1, 1, *numbers)  # raises for numbers that are out of range

        full = f"{name}={','.join(f'{number:.12g}' for number in numbers)}" if takes else name
        return cls(full, lambda n_elm, n_blm: weigh(n_elm, n_blm, *numbers))


_SCHEMES: dict[str, tuple[Callable[..., Weights], int, tuple[float, ...]]] = {
    "paper": (mask_specific_weights, 0, ()),
    "released": (released_weights, 0, ()),
    "inverse-frequency": (inverse_frequency_weights, 0, ()),
    "effective-number": (effective_number_weights, 1, (BETA,)),
    "fixed": (fixed_weights, 2, ()),
}
"""Name -> function, how many numbers it takes after `=`, and their defaults."""

_FORMS = ("{0} alone", "{0} or {0}=BETA", "{0}=W_ELM,W_BLM")
"""How a scheme is written, by how many numbers it takes."""


def schemes(*also: str) -> list[Scheme]:
    """Return the schemes that need no numbers, then others, each once.

    Args:
        *also: Others, as `Scheme.parse` takes them.

    Raises:
        ValueError: As `Scheme.parse`.
    """
    usual = [name for name, (_, takes, default) in _SCHEMES.items() if takes == len(default)]
    by_name = {scheme.name: scheme for scheme in map(Scheme.parse, [*usual, *also])}
    return list(by_name.values())


def _numbers(given: str) -> list[float] | None:
    """Return the numbers that stand behind a name, None where something else does."""
    try:
        return [float(number) for number in given.split(",")]
    except ValueError:
        return None


def _check(n_elm: int, n_blm: int) -> None:
    if not (n_elm >= 0 and n_blm >= 0):
        raise ValueError(f"weights: expected numbers of tokens, got n_elm={n_elm}, n_blm={n_blm}")


def _raw(n_elm: int, n_blm: int) -> Weights:
    """Return Eq. 2; halves where nothing is masked."""
    _check(n_elm, n_blm)
    total = n_elm + n_blm
    if not total:
        return 0.5, 0.5
    return 1 - n_elm / total, 1 - n_blm / total


def _shares(elm: float, blm: float) -> Weights:
    """Return two numbers as shares of their sum; halves if either is 0."""
    if not (elm and blm):
        return 0.5, 0.5
    return elm / (elm + blm), blm / (elm + blm)


def _softmax(elm: float, blm: float) -> Weights:
    total = math.exp(elm) + math.exp(blm)
    return math.exp(elm) / total, math.exp(blm) / total
