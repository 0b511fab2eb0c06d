"""What each strategy masks in the whole split: N_ELM, N_BLM, every weight, rates, labels."""

from __future__ import annotations

from typing import Any

from mslm_data.draw.charts import Histogram, cut_tail, histogram, name_bins
from mslm_data.look.corpus import Corpus
from mslm_data.look.counts import count_strategies
from mslm_data.look.state import State
from mslm_data.stats.counts import LONGEST_RUN, MAX_MASKED, RATE_BINS, MaskStats
from mslm_data.stats.effective_rates import effective_rates
from mslm_data.stats.warnings import find_warnings
from mslm_data.stats.weights import schemes

TITLE = "Strategy"
TEMPLATE = "strategy.html"


def context(corpus: Corpus, state: State) -> dict[str, Any]:
    """Return the counts of the split, with what follows from them."""
    counted = count_strategies(corpus, state)
    # Strategies share a scale, so that their bars can be compared.
    there = [of.split for of in counted if of.split is not None]
    tops = [max((draw(stats, 0).largest for stats in there), default=0) for draw in _CHARTS]
    found = [
        {
            "name": of.name,
            "job": of.job,
            "stats": of.split,
            "rates": effective_rates(of.strategy, of.split),
            "schemes": [
                (scheme.name, *scheme.weigh(of.split.n_elm, of.split.n_blm)) for scheme in schemes()
            ],
            "warnings": list(find_warnings(of.strategy, of.split)),
            "charts": [draw(of.split, top) for draw, top in zip(_CHARTS, tops, strict=True)],
        }
        for of in counted
        if of.split is not None
    ]
    waiting = [of.job for of in counted if of.split is None]
    return {"found": found, "job": waiting[0] if waiting else None}


def _per_row(stats: MaskStats, top: int) -> Histogram:
    """Return the histogram of masked tokens in a row, whose axis reaches `top` at least."""
    rows = cut_tail(stats.masked_per_row)
    owing = [*stats.owing_per_row, *[0] * (len(rows) - len(stats.owing_per_row))]
    owing = [*owing[: len(rows) - 1], sum(owing[len(rows) - 1 :])]
    is_open = len(rows) < len(stats.masked_per_row) or len(rows) > MAX_MASKED
    return histogram(
        name_bins(0, len(rows), open_end=is_open),
        rows,
        owing,
        title="Masked tokens in a row",
        caption="rows",
        x="masked tokens",
        part="under budget",
        mean=stats.masked_tokens / stats.sequences if stats.sequences else None,
        top=top,
    )


def _rates(stats: MaskStats, top: int) -> Histogram:
    """Return the histogram of the masked share of a row; see `_per_row`."""
    last = max((k for k, rows in enumerate(stats.rate_per_row) if rows), default=0) + 1
    return histogram(
        [f"{k / RATE_BINS:.0%}" for k in range(last)],
        stats.rate_per_row[:last],
        title="Masked share of a row",
        caption="rows",
        x="share of the tokens, from",
        # Places are counted from the middle of the first bin, and rates from its left edge.
        mean=stats.realised_rate * RATE_BINS - 0.5,
        top=top,
    )


def _runs(stats: MaskStats, top: int) -> Histogram:
    """Return the histogram of the length of runs; see `_per_row`."""
    runs = cut_tail(stats.run_lengths[1:])
    is_open = len(runs) < len(stats.run_lengths) - 1 or len(runs) >= LONGEST_RUN
    return histogram(
        name_bins(1, len(runs), open_end=is_open),
        runs,
        title="Masked tokens side by side",
        caption="runs",
        x="tokens in a run",
        mean=stats.mean_run_length - 1 if stats.mean_run_length else None,
        top=top,
    )


_CHARTS = (_per_row, _rates, _runs)
