"""Picks of spans: runs of tokens or words at random positions, as in SPAN and SpanBERT."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Annotated

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from mslm_data.data.examples import Examples
from mslm_data.data.ragged import Array, make_offsets
from mslm_data.kernels.span_draws import END, OPEN, compose_spans, grow_spans, place_spans
from mslm_data.mask.budget import quotas
from mslm_data.mask.ingredient import Ingredient
from mslm_data.mask.plan import MaskKind, PlanBuilder
from mslm_data.mask.rate import Rate, rate_at
from mslm_data.mask.rng import BRANCH, LENGTH, SAMPLE, RowRng
from mslm_data.mask.units import free_tokens


class PlaceSpans(Ingredient, frozen=True, kw_only=True, tag_field="use", tag="place-spans"):
    """Mask spans of tokens that do not overlap, up to a budget in tokens.

    The row's tokens are visited once, in random order. At each token a length is drawn. The span is
    cut to the remaining budget and to the row's end, and skipped if it overlaps another span.

    Raises:
        ValueError: `shortest` is larger than `longest`.
    """

    rate: Annotated[
        Rate, Meta(description="Budget: share of the row's non-special tokens. Rounded up.")
    ]
    shortest: Annotated[int, Meta(ge=1, description="Minimum drawn length in tokens, 1 or more.")]
    longest: Annotated[
        int,
        Meta(description="Maximum drawn length in tokens. All lengths between are equally likely."),
    ]

    def __post_init__(self) -> None:
        if self.shortest > self.longest:
            raise ValueError(
                f"shortest, longest: expected shortest <= longest, got {self.shortest}, "
                f"{self.longest}"
            )

    def mask(self, examples: Examples, rng: RowRng, builder: PlanBuilder) -> None:
        # The kernel reads from `state` which tokens can be in a span, and which end one.
        state, real = free_tokens(examples, builder)
        state[examples.word_ids.values < 0] = END
        quota = quotas(rate_at(self.rate, rng), real, "up", rng)

        lengths = uniform_lengths(self.shortest, self.longest)
        streams = np.stack([rng.streams(SAMPLE), rng.streams(LENGTH)])
        base = MaskKind.BASE.value
        place_spans(examples.input_ids.offsets, state, quota, lengths, streams, base, builder.kinds)
        builder.unspent += quota


class GrowSpans(Ingredient, frozen=True, kw_only=True, tag_field="use", tag="grow-spans"):
    """Mask spans of whole words that may overlap, up to a budget in tokens.

    The last span is cut to the budget, so the budget is always spent exactly.
    """

    rate: Annotated[
        Rate, Meta(description="Budget: share of the row's non-special tokens. Rounded up.")
    ]
    chance: Annotated[
        float,
        Meta(
            gt=0,
            lt=1,
            description="Success probability of the geometric distribution of lengths.",
        ),
    ]
    longest: Annotated[int, Meta(ge=1, description="Maximum length of a span, in words.")]
    mentions: Annotated[
        bool,
        Meta(
            description="Whether each turn masks a mention instead of a span with probability 1/2."
        ),
    ] = False

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"word_ids", "mentions"} if self.mentions else {"word_ids"})

    def mask(self, examples: Examples, rng: RowRng, builder: PlanBuilder) -> None:
        offsets = examples.input_ids.offsets
        words = examples.word_ids.values
        _, real = free_tokens(examples, builder)
        quota = quotas(rate_at(self.rate, rng), real, "up", rng)

        starts = examples.span_starts.values
        ends = examples.span_ends.values
        # With offsets of 0, the kernel sees no mention.
        if self.mentions:
            mention_offsets = examples.span_starts.offsets
        else:
            mention_offsets = np.zeros_like(offsets)

        lengths = geometric_lengths(self.chance, self.longest)
        streams = np.stack([rng.streams(SAMPLE), rng.streams(LENGTH), rng.streams(BRANCH)])
        grow_spans(
            offsets, words, mention_offsets, starts, ends, quota, lengths, streams, builder.kinds
        )
        builder.unspent += quota


class ComposeSpans(Ingredient, frozen=True, kw_only=True, tag_field="use", tag="compose-spans"):
    """Mask a number of tokens in a number of spans that depend on the row's length alone.

    A row of n tokens has `rate * n` masked tokens and `masked / mean` spans, both rounded to the
    nearest, halves to the even number. At least one token is masked and one is not. All masks with
    these numbers whose first token is not masked and whose last one is are equally likely.
    """

    rate: Annotated[
        Rate, Meta(description="Share of the row's free tokens, neither special nor masked.")
    ]
    mean: Annotated[int, Meta(ge=1, description="Mean length of a span in tokens, 1 or more.")]

    def mask(self, examples: Examples, rng: RowRng, builder: PlanBuilder) -> None:
        offsets = examples.input_ids.offsets
        state, _ = free_tokens(examples, builder, unknown=True)
        free = np.diff(make_offsets(state == OPEN)[offsets])
        masked = quotas(rate_at(self.rate, rng), free, "nearest", rng)
        masked = np.minimum(np.maximum(masked, 1), np.maximum(free - 1, 0))
        spans = np.maximum(np.rint(masked / self.mean).astype(np.int64), 1)
        spans = np.minimum(spans, free - masked)

        streams = np.stack([rng.streams(SAMPLE), rng.streams(LENGTH)])
        base = MaskKind.BASE.value
        compose_spans(offsets, state, masked, spans, streams, base, builder.kinds)


@lru_cache(maxsize=32)
def uniform_lengths(shortest: int, longest: int) -> npt.NDArray[np.uint64]:
    """Return the cumulative distribution of equally likely lengths in `[shortest, longest]`."""
    return _table([Fraction(length >= shortest) for length in range(1, longest + 1)])


@lru_cache(maxsize=32)
def geometric_lengths(chance: float, longest: int) -> npt.NDArray[np.uint64]:
    """Return the cumulative distribution of a geometric distribution truncated at `longest`.

    The probability of length l is proportional to `(1 - chance)**(l - 1)`. For 0.2 and 10, the mean
    is 3.797 (Joshi et al. 2020: 3.8).
    """
    # Through the decimal of `chance`: 0.2 as a float is not exactly 1/5.
    failure = 1 - Fraction(str(chance))
    return _table([failure**length for length in range(longest)])


def _table(weights: list[Fraction]) -> Array:
    """Return the cumulative probabilities of lengths 1, 2, …, in units of 2**-53, uint64.

    `kernels.span_draws.draw_length` reads the table. Fractions make it equal on all machines.
    """
    total = sum(weights)
    return np.array([int(2**53 * part / total) for part in accumulate(weights)], np.uint64)
