"""Masked diffusion: a rate drawn anew for each row, and a coin for each of its units.

A plan of this strategy has `rates` beside `kinds`, by which the loss is divided; docs/diffusion.md
says how a model is trained and measured with both.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import numpy as np

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, Ragged
from mslm_data.kernels.diffuse import diffuse_rows, draw_rates
from mslm_data.mask.corruption import Corruption, corrupt
from mslm_data.mask.plan import MaskPlan
from mslm_data.mask.rng import RATE, RowRng
from mslm_data.mask.strategy import Origin, Strategy
from mslm_data.mask.units import Units, mentions, runs
from mslm_data.registry import Help

UnitsOfDiffusion = Literal["tokens", "words", "mentions"]

_NEEDS = {"tokens": set[str](), "words": {"word_ids"}, "mentions": {"mentions"}}


@dataclass(frozen=True, slots=True, repr=False)
class Diffusion(Strategy):
    """Mask each unit of a row by a coin, at a rate that is drawn anew for each row and epoch.

    This is the forward process of masked diffusion with a linear schedule (Sahoo et al. 2024, Eq. 8
    to 10; Nie et al. 2025, algorithm 1). A row's rate t is uniform in `[low, high]`, each unit is
    masked with chance t, and a loss divided by t is a bound on the row's -log p. No budget rounds:
    with one, the chance of a token would not be t. Hidden tokens always become `[MASK]`, and
    `[UNK]` is masked like any other token.

    t is a function of key, seed and epoch, as masks are. So neither ranks nor groups of rows by
    length change it. Of `dllm` and NeMo Automodel, which draw t from a generator with a state, this
    has the law and not the numbers.

    Raises:
        ValueError: Rates that are not `0 < low < high <= 1`, or, with `complement`, a `low` of
            half or more.
    """

    units: Annotated[
        UnitsOfDiffusion,
        Help(
            "Hidden whole: single `tokens`, `words`, or `mentions` and every token outside of "
            "them. Only masked mentions are of kind ELM."
        ),
    ] = "tokens"
    low: Annotated[
        float,
        Help(
            "The lowest rate, above 0: the variance of a loss divided by its rate grows with "
            "-log(low)."
        ),
    ] = 0.001
    high: Annotated[float, Help("The highest rate.")] = 1.0
    complement: Annotated[
        bool,
        Help(
            "Whether epoch 2k + 1 masks what epoch 2k shows, at one less its rate. Then no rate is "
            "above 1 - `low`."
        ),
    ] = False
    sampling: Annotated[
        Literal["kronecker", "uniform"],
        Help(
            "How rates are drawn: `kronecker` takes frac(u + epoch / golden ratio) with one u for "
            "each row, so that a row's rates cover the interval evenly over epochs; `uniform` "
            "draws anew in each epoch."
        ),
    ] = "kronecker"
    origin: Origin | None = field(
        default=None, compare=False, kw_only=True, metadata={"option": False}
    )

    def __post_init__(self) -> None:
        if not 0 < self.low < self.high <= 1:
            raise ValueError(
                f"low, high: expected 0 < low < high <= 1, got {self.low} and {self.high}"
            )
        if self.complement and self.low >= self._highest:
            raise ValueError(
                f"low: expected less than 0.5 with complement, so that 1 - t is no less, got "
                f"{self.low}"
            )

    @property
    def needs(self) -> frozenset[str]:
        return frozenset(_NEEDS[self.units])

    @property
    def follows_training(self) -> bool:
        return False

    @property
    def _highest(self) -> float:
        return min(self.high, 1 - self.low) if self.complement else self.high

    def table(self) -> dict[str, Any]:
        return {
            "use": "diffusion",
            "units": self.units,
            "low": self.low,
            "high": self.high,
            "complement": self.complement,
            "sampling": self.sampling,
        }

    def plan_with(self, examples: Examples, rng: RowRng) -> MaskPlan:
        # Both epochs of a pair throw the same coins at the same rate.
        is_second = self.complement and rng.epoch % 2 == 1
        coins = rng.for_pick(0)
        if is_second:
            coins = replace(coins, epoch=rng.epoch - 1)
        rates = self._rates(coins)

        offsets = examples.input_ids.offsets
        span_offsets = examples.span_starts.offsets
        if self.units != "mentions":
            span_offsets = np.zeros(len(offsets), np.int64)
        kinds = np.empty(len(examples.input_ids.values), np.uint8)
        diffuse_rows(
            offsets,
            examples.word_ids.values,
            span_offsets,
            examples.span_starts.values,
            examples.span_ends.values,
            self.units == "words",
            rates,
            is_second,
            coins.streams(),
            kinds,
        )
        return MaskPlan(
            kinds=Ragged(kinds, offsets),
            unspent=np.zeros(len(examples), np.int64),
            rates=np.float32(1) - rates if is_second else rates,
        )

    def corrupt_with(self, examples: Examples, plan: MaskPlan, rng: RowRng) -> Ragged:
        return corrupt(examples, plan, Corruption(), seed=rng.seed, epoch=rng.epoch)

    def _rates(self, rng: RowRng) -> Array:
        """Return t of each row, float32 `[N]`."""
        step = 0
        if self.sampling == "kronecker":
            # One stream for all epochs, along which each epoch, or pair of them, is a step.
            step = rng.epoch // 2 if self.complement else rng.epoch
            rng = replace(rng, epoch=0)

        rates = np.empty(len(rng.keys), np.float32)
        draw_rates(rng.streams(RATE), step, self.low, self._highest, rates)
        return rates


def find_units(examples: Examples, name: str) -> Units:
    """Return what the strategy masks whole: every token that is not special is in one unit.

    Args:
        examples: N rows of T tokens.
        name: `tokens`, `words` or `mentions`, as `Diffusion.units`.
    """
    words_of_tokens = examples.word_ids.values
    if name == "words":
        return runs(examples, words_of_tokens)

    numbers = np.arange(len(words_of_tokens), dtype=np.int32)
    if name == "mentions":
        # Tokens of a mention have the number of its first, which is that of no neighbour.
        firsts = np.repeat(examples.input_ids.offsets[:-1], examples.span_starts.lengths)
        firsts += examples.span_starts.values
        lengths = mentions(examples).lengths
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        starts = np.repeat(firsts, lengths)
        numbers[starts + within] = starts
    numbers[words_of_tokens < 0] = -1
    return runs(examples, numbers)
