"""Counts of each strategy in the whole split: N_ELM, N_BLM, weights, rates and labels."""

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
    """Return the counts of the split, with weights, rates, warnings and charts."""
    counted = count_strategies(corpus, state)
    # Charts of all strategies share a scale, so that bars can be compared.
    ready = [counts.split for counts in counted if counts.split is not None]
    tops = [max((draw(stats, 0).largest for stats in ready), default=0) for draw in _CHARTS]
    results = [
        {
            "name": counts.name,
            "job": counts.job,
            "stats": counts.split,
            "rates": effective_rates(counts.strategy, counts.split),
            "schemes": [
                (scheme.name, *scheme.weigh(counts.split.n_elm, counts.split.n_blm))
                for scheme in schemes()
            ],
            "warnings": list(find_warnings(counts.strategy, counts.split)),
            "charts": [draw(counts.split, top) for draw, top in zip(_CHARTS, tops, strict=True)],
        }
        for counts in counted
        if counts.split is not None
    ]
    waiting = [counts.job for counts in counted if counts.split is None]
    return {"results": results, "job": waiting[0] if waiting else None}


def _per_row(stats: MaskStats, top: int) -> Histogram:
    """Return the histogram of masked tokens in a row.

    Args:
        stats: Counts of the split.
        top: Minimum of the axis' upper end.
    """
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
    """Return the histogram of the masked share of a row."""
    last = max((k for k, rows in enumerate(stats.rate_per_row) if rows), default=0) + 1
    return histogram(
        [f"{k / RATE_BINS:.0%}" for k in range(last)],
        stats.rate_per_row[:last],
        title="Masked share of a row",
        caption="rows",
        x="share of the tokens, from",
        # Charts count from the middle of the first bin, rates from its left edge.
        mean=stats.realised_rate * RATE_BINS - 0.5,
        top=top,
    )


def _runs(stats: MaskStats, top: int) -> Histogram:
    """Return the histogram of the lengths of runs of masked tokens."""
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
