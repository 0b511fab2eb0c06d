"""Loss weights of ELM-masked and BLM-masked tokens: the paper's (Abaho et al. 2024, Eq. 2 to 5), and others beside it.

All but `fixed` sum to 1, as the paper's do, so that they can be compared. What they are of is counted in tokens.
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
    "more tokens are masked by ELM than by BLM, so both clips of Eq. 3 fire and Eq. 5 makes the weights 0.5 and 0.5: "
    "they carry no information, the loss does not tell terms from other words"
)
"""`MaskSpecificWeights.saturated` in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskSpecificWeights:
    """The loss weights of ELM-masked and BLM-masked tokens, with the steps on the way.

    Attributes:
        w_elm_raw: Eq. 2: `1 - N_ELM / (N_ELM + N_BLM)`; 0.5 where nothing is masked.
        w_blm_raw: Likewise.
        w_elm_clipped: Eq. 3: at least 0.5.
        w_blm_clipped: Eq. 3: at most 0.5.
        w_elm: Eq. 5: softmax of the two; in `[0.5, 0.732)`.
        w_blm: Likewise; the two sum to 1.
        saturated: Both clips changed something (they do together, where more ELM tokens are masked than BLM): the
            weights are 0.5 and 0.5 and tell the two apart no longer. So it is at the paper's own headline rates.
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
            ValueError: A negative number.
        """
        elm_raw, blm_raw = _raw(n_elm, n_blm)
        elm_clipped, blm_clipped = max(0.5, elm_raw), min(0.5, blm_raw)
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
    """Return `(w_elm, w_blm)`, the weights of Abaho et al. 2024, Eq. 2 to 5; `MaskSpecificWeights` tells the steps.

    Args:
        n_elm: Tokens that ELM masks in the training split.
        n_blm: Tokens that BLM masks there. Both 0 gives `(0.5, 0.5)`, where Eq. 2 would divide by 0.

    Raises:
        ValueError: A negative number.
    """
    weights = MaskSpecificWeights.of(n_elm, n_blm)
    return weights.w_elm, weights.w_blm


def released_weights(n_elm: int, n_blm: int) -> Weights:
    """Return `(w_elm, w_blm)` as the paper's released code has them: its clip for ELM reads the weight of BLM.

    `w_elm = max(0.5, w_blm)` stands where Eq. 3 has `max(0.5, w_elm)` (mykelismyname/MSLM at c9cde41,
    `utils.py:332`). Both numbers 0 raise ZeroDivisionError there and give `(0.5, 0.5)` here.

    Raises:
        ValueError: A negative number.
    """
    _, blm_raw = _raw(n_elm, n_blm)
    return _softmax(max(0.5, blm_raw), min(0.5, blm_raw))


def fixed_weights(n_elm: int, n_blm: int, w_elm: float, w_blm: float) -> Weights:
    """Return the weights given, whatever is masked; they are not made to sum to 1.

    Raises:
        ValueError: A negative number of tokens; a weight that is negative or not finite.
    """
    _check(n_elm, n_blm)
    if not all(math.isfinite(weight) and weight >= 0 for weight in (w_elm, w_blm)):
        raise ValueError(
            f"weights: expected two numbers of 0 or more for fixed, got {w_elm:g} and {w_blm:g}"
        )
    return float(w_elm), float(w_blm)


def inverse_frequency_weights(n_elm: int, n_blm: int) -> Weights:
    """Return weights in proportion to `1 / N_ELM` and `1 / N_BLM`.

    For two kinds that is Eq. 2 of Abaho et al. 2024 without the clip and the softmax: `w_elm = N_BLM / (N_ELM +
    N_BLM)`. So each kind has the same total weight, and where terms are the more frequent they weigh less.

    Args:
        n_elm: Tokens that ELM masks in the training split.
        n_blm: Tokens that BLM masks there. Where either is 0 there is nothing to balance: `(0.5, 0.5)`, as otherwise
            the only kind that there is would weigh nothing.

    Raises:
        ValueError: A negative number.
    """
    _check(n_elm, n_blm)
    return _shares(n_blm, n_elm)


def effective_number_weights(n_elm: int, n_blm: int, beta: float = BETA) -> Weights:
    """Return weights in proportion to `1 / E_n`, `E_n = (1 - beta**n) / (1 - beta)` (Cui et al. 2019, Prop. 1).

    Beta 0 gives equal weights and beta near 1 the inverse frequency. `E_n` is never above `1 / (1 - beta)`: with the
    paper's own betas, 0.9 to 0.9999, counts beyond some 100,000 tokens give equal weights, so large corpora want
    a larger one. The paper makes the weights sum to the number of classes, here 2; these sum to 1, half of that.

    Args:
        n_elm: Tokens that ELM masks in the training split.
        n_blm: Tokens that BLM masks there; where either is 0, `(0.5, 0.5)`, see `inverse_frequency_weights`.
        beta: In `[0, 1)`.

    Raises:
        ValueError: A negative number, or another beta.
    """
    _check(n_elm, n_blm)
    if not 0 <= beta < 1:
        raise ValueError(f"weights: expected a beta in [0, 1) for effective-number, got {beta:g}")
    elm, blm = (
        -math.expm1(n * math.log(beta)) if beta and n else float(n > 0) for n in (n_elm, n_blm)
    )
    return _shares(blm, elm)


@dataclass(frozen=True, slots=True)
class Scheme:
    """A named way to weigh.

    Attributes:
        name: As it is asked for, with its numbers: `paper`, `effective-number=0.9999`.
        weigh: `(n_elm, n_blm)` -> `(w_elm, w_blm)`.
    """

    name: str
    weigh: Callable[[int, int], Weights]

    @classmethod
    def of(cls, text: str) -> Scheme:
        """Read one: `paper`, `released`, `inverse-frequency`, `effective-number[=BETA]`, `fixed=W_ELM,W_BLM`.

        Raises:
            ValueError: Another name, or numbers that it does not take.
        """
        name, equals, given = text.partition("=")
        if name not in _SCHEMES:
            raise ValueError(f"weights: unknown '{name}'{did_you_mean(name, _SCHEMES)}")
        weigh, takes, default = _SCHEMES[name]
        try:
            numbers = [float(number) for number in given.split(",")] if equals else list(default)
        except ValueError:
            numbers = []
        if len(numbers) != takes:
            raise ValueError(f"weights: expected {_FORMS[takes].format(name)}, got '{text}'")
        weigh(1, 1, *numbers)  # which refuses wrong numbers
        full = f"{name}={','.join(f'{number:.12g}' for number in numbers)}" if takes else name
        return cls(full, lambda n_elm, n_blm: weigh(n_elm, n_blm, *numbers))


_SCHEMES: dict[str, tuple[Callable[..., Weights], int, tuple[float, ...]]] = {
    "paper": (mask_specific_weights, 0, ()),
    "released": (released_weights, 0, ()),
    "inverse-frequency": (inverse_frequency_weights, 0, ()),
    "effective-number": (effective_number_weights, 1, (BETA,)),
    "fixed": (fixed_weights, 2, ()),
}
"""Name -> function, how many numbers it takes after `=`, and what they are where none is given."""
_FORMS = ("{0} alone", "{0} or {0}=BETA", "{0}=W_ELM,W_BLM")


def schemes(*also: str) -> list[Scheme]:
    """Return those that need no numbers, and others that are asked for, each once.

    Raises:
        ValueError: See `Scheme.of`.
    """
    usual = [
        Scheme.of(name) for name, (_, takes, default) in _SCHEMES.items() if takes == len(default)
    ]
    return list({scheme.name: scheme for scheme in [*usual, *map(Scheme.of, also)]}.values())


def _check(n_elm: int, n_blm: int) -> None:
    if n_elm < 0 or n_blm < 0:
        raise ValueError(f"weights: expected numbers of tokens, got n_elm={n_elm}, n_blm={n_blm}")


def _raw(n_elm: int, n_blm: int) -> Weights:
    _check(n_elm, n_blm)
    total = n_elm + n_blm
    return (1 - n_elm / total, 1 - n_blm / total) if total else (0.5, 0.5)


def _shares(elm: float, blm: float) -> Weights:
    """Return two numbers as shares of their sum, and halves where either is 0."""
    return (elm / (elm + blm), blm / (elm + blm)) if elm and blm else (0.5, 0.5)


def _softmax(elm: float, blm: float) -> Weights:
    total = math.exp(elm) + math.exp(blm)
    return math.exp(elm) / total, math.exp(blm) / total
