"""Warnings about counted masks with which training is pointless or not as intended."""

from __future__ import annotations

from collections.abc import Iterator

from mslm_data.mask.pick import AnyPick, Pick
from mslm_data.mask.plan import Objective
from mslm_data.mask.strategy import Curriculum, Mixture, Recipe, Strategy
from mslm_data.stats.counts import ALL_MASKED, MaskStats
from mslm_data.stats.weights import SATURATED


def find_warnings(strategy: Strategy, stats: MaskStats) -> Iterator[str]:
    """Yield a sentence for each warning, with a remedy."""
    if stats.weights.saturated:
        yield f"{SATURATED}; lower --elm or raise --blm"
    if masks_all(strategy, stats):
        yield f"{ALL_MASKED}; lower the rates"
    if not stats.mentions and _masks_mentions(strategy):
        yield (
            "the strategy masks mentions, but no row has a mention; build the corpus with an "
            "annotator ([annotate] use), or choose a strategy without mentions, such as token"
        )
    yield from _limit(strategy, stats)


def masks_all(strategy: Strategy, stats: MaskStats) -> bool:
    """Return whether every token is masked, so that none is left to predict the masked ones from.

    A causal model predicts all tokens from those before them.
    """
    return stats.all_masked and Objective.CAUSAL not in strategy.objectives


def _masks_mentions(part: Strategy | AnyPick) -> bool:
    """Return whether a strategy or pick reads mentions to mask them, and not to spare them."""
    if isinstance(part, Recipe):
        return any(map(_masks_mentions, part.picks))
    if isinstance(part, Mixture | Curriculum):
        return any(map(_masks_mentions, part.parts))

    spares_mentions = isinstance(part, Pick) and part.eligible.where == "generic"
    return "mentions" in part.needs and not spares_mentions


def _limit(strategy: Strategy, stats: MaskStats) -> Iterator[str]:
    """Yield a warning if the limit per row lowers the share of masked tokens."""
    options = {} if strategy.origin is None else strategy.origin.options
    max_masked = options.get("max_masked")
    rate = options.get("rate")
    if not max_masked or not isinstance(rate, float | int):
        return

    rows = sum(stats.masked_per_row)
    at_limit = sum(stats.masked_per_row[max_masked:])
    if at_limit > rows / 10 and stats.realised_rate < 0.9 * rate:
        yield (
            f"{at_limit:,} of {rows:,} rows reach the limit of {max_masked} masked tokens, so "
            f"{stats.realised_rate:.2%} of the tokens are masked instead of {rate:.2%}; "
            "pass --set max_masked=0 to remove the limit"
        )
