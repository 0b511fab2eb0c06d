"""Masked diffusion: a rate drawn for each row, and an independent draw for each of its units.

A plan of this strategy has `rates` besides `kinds`, by which the loss is divided. docs/diffusion.md
shows training and evaluation with both.

Rates are drawn for each row and not spread over a batch, so that they do not depend on machines.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, Ragged, count_up
from mslm_data.kernels.diffuse import diffuse_rows, draw_rates
from mslm_data.mask.corruption import Corruption, corrupt
from mslm_data.mask.plan import MaskPlan
from mslm_data.mask.rng import RATE, RowRng
from mslm_data.mask.strategy import Origin, Strategy
from mslm_data.mask.units import Units, mentions, runs

DiffusionUnits = Literal["tokens", "words", "mentions"]

_NEEDS = {"tokens": set[str](), "words": {"word_ids"}, "mentions": {"mentions"}}


@dataclass(frozen=True, slots=True, repr=False)
class Diffusion(Strategy):
    """Mask each unit of a row independently, at a rate drawn for each row and epoch.

    This is the forward process of masked diffusion with a linear schedule (Sahoo et al. 2024, Eq. 8
    to 10; Nie et al. 2025, algorithm 1). The rate t of a row is uniform in `[low, high]`. Each unit
    is masked with probability t. The loss divided by t is an upper bound on the row's negative
    log-likelihood. There is no budget, because with a budget the probability of a token would not
    be t. Masked tokens always become `[MASK]`, and `[UNK]` is masked like any other token.

    t is a function of key, seed and epoch, like masks, so it does not depend on ranks or length
    buckets. `dllm` and NeMo Automodel draw t from a stateful generator: the distribution is the
    same, the numbers differ.

    Raises:
        ValueError: Not `0 < low < high <= 1`, or `low` is 0.5 or more with `complement`.
    """

    units: Annotated[
        DiffusionUnits,
        Meta(
            description="Units that are masked whole: single `tokens`, `words`, or `mentions` and "
            "every token outside of them. Only masked mentions are of kind ELM."
        ),
    ] = "tokens"
    low: Annotated[
        float,
        Meta(
            gt=0,
            lt=1,
            description="Minimum rate, above 0. The variance of a loss divided by its rate grows "
            "with -log(low).",
        ),
    ] = 0.001
    high: Annotated[float, Meta(gt=0, le=1, description="Maximum rate.")] = 1.0
    complement: Annotated[
        bool,
        Meta(
            description="Whether epoch 2k + 1 masks exactly the units that epoch 2k leaves "
            "visible, at the rate 1 - t. No rate is then above 1 - `low`."
        ),
    ] = False
    sampling: Annotated[
        Literal["kronecker", "uniform"],
        Meta(
            description="Sampling of rates: `kronecker` is frac(u + epoch / golden ratio) with one "
            "u per row, so the rates of a row cover the interval evenly over epochs; `uniform` "
            "draws independently in each epoch."
        ),
    ] = "kronecker"
    origin: Origin | None = field(default=None, init=False, compare=False)

    def __post_init__(self) -> None:
        if self.low >= self.high:
            raise ValueError(f"low, high: expected low < high, got {self.low} and {self.high}")
        if self.complement and self.low >= self._highest:
            raise ValueError(
                f"low: expected less than 0.5 with complement, because rates are at most 1 - low, "
                f"got {self.low}"
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
        # Both epochs of a pair draw the same numbers at the same rate; the second inverts them.
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
            # One u per row for all epochs. Each epoch, or pair of epochs, is one step.
            step = rng.epoch // 2 if self.complement else rng.epoch
            rng = replace(rng, epoch=0)

        rates = np.empty(len(rng.keys), np.float32)
        draw_rates(rng.streams(RATE), step, self.low, self._highest, rates)
        return rates


def find_units(examples: Examples, name: str) -> Units:
    """Return the units of masked diffusion: every non-special token is in exactly one unit.

    Args:
        examples: N rows of T tokens.
        name: Value of `Diffusion.units`: `tokens`, `words` or `mentions`.
    """
    word_ids = examples.word_ids.values
    if name == "words":
        return runs(examples, word_ids)

    # Each token is a unit by itself. Tokens of a mention share the number of its first token.
    numbers = np.arange(len(word_ids), dtype=np.int32)
    if name == "mentions":
        firsts = np.repeat(examples.input_ids.offsets[:-1], examples.span_starts.lengths)
        firsts += examples.span_starts.values
        lengths = mentions(examples).lengths
        numbers[count_up(firsts, lengths)] = np.repeat(firsts, lengths)
    numbers[word_ids < 0] = -1
    return runs(examples, numbers)
