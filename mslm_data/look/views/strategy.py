"""Counts of each strategy in the whole split: N_ELM, N_BLM, weights, rates and labels."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from mslm_data.draw.charts import Histogram, cut_tail, histogram, name_bins
from mslm_data.look.corpus import Corpus
from mslm_data.look.counts import count_strategies
from mslm_data.look.state import State
from mslm_data.stats.counts import LONGEST_RUN, MAX_MASKED, RATE_BINS, MaskStats
from mslm_data.stats.effective_rates import ROUNDED_UP, effective_rates
from mslm_data.stats.warnings import find_warnings
from mslm_data.stats.weights import SCHEMES

TITLE = "Strategy"
TEMPLATE = "strategy.html"


def context(corpus: Corpus, state: State) -> dict[str, Any]:
    """Return the counts of the split, with weights, rates, warnings and charts."""
    counted = count_strategies(corpus, state)
    ready = {counts.name: counts.split for counts in counted if counts.split is not None}
    results = []
    for counts in counted:
        if counts.name not in ready:
            continue
        stats = ready[counts.name]
        rates = effective_rates(counts.strategy, stats)
        results.append(
            {
                "name": counts.name,
                "stats": stats,
                "rates": rates,
                "explanation": ROUNDED_UP if any(rate.is_rounded_up for rate in rates) else "",
                "schemes": [
                    (name, *weigh(stats.n_elm, stats.n_blm)) for name, weigh in SCHEMES.items()
                ],
                "warnings": list(find_warnings(counts.strategy, stats)),
            }
        )
    waiting = [counts.job for counts in counted if counts.name not in ready]
    return {
        "results": results,
        "charts": _charts(ready),
        "job": waiting[0] if waiting else None,
    }


def _charts(stats_by_name: Mapping[str, MaskStats]) -> list[list[Histogram]]:
    """Return the charts in groups to draw beside each other.

    Args:
        stats_by_name: Name of each strategy -> counts of the split.

    Returns:
        One group for a single strategy. Of several strategies, a group for each kind of chart, with
        the same axes, so that bars can be compared.
    """
    groups = []
    for draw in _CHARTS:
        alone = [draw(stats, 0, 0) for stats in stats_by_name.values()]
        top = max((chart.largest for chart in alone), default=0)
        bins = max((len(chart.bins) for chart in alone), default=0)
        groups.append([draw(stats, top, bins) for stats in stats_by_name.values()])
    if len(stats_by_name) <= 1:
        return [[chart for group in groups for chart in group]]
    return [
        [
            dataclasses.replace(
                chart, title=f"{name}: {chart.title}", description=f"{name}: {chart.description}"
            )
            for name, chart in zip(stats_by_name, group, strict=True)
        ]
        for group in groups
    ]


def _cut(values: Sequence[int], bins: int) -> list[int]:
    """Cut the tail of a histogram, which then has at least some bins."""
    return _pad(cut_tail(values, fewest=max(bins, 4)), bins)


def _pad(values: Sequence[int], size: int) -> list[int]:
    """Return values with zeros after them, up to a size."""
    return [*values, *[0] * (size - len(values))]


def _per_row(stats: MaskStats, top: int, bins: int) -> Histogram:
    """Return the histogram of masked tokens in a row.

    Args:
        stats: Counts of the split.
        top: Minimum of the axis' upper end.
        bins: Minimum number of bins.
    """
    rows = _cut(stats.masked_per_row, bins)
    owing = _pad(stats.owing_per_row, len(rows))
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


def _rates(stats: MaskStats, top: int, bins: int) -> Histogram:
    """Return the histogram of the masked share of a row."""
    last = max((k for k, rows in enumerate(stats.rate_per_row) if rows), default=0) + 1
    last = max(last, bins)
    return histogram(
        [f"{k / RATE_BINS:.0%}" for k in range(last)],
        _pad(stats.rate_per_row[:last], last),
        title="Masked share of a row",
        caption="rows",
        x="share of the tokens, from",
        # Charts count from the middle of the first bin, rates from its left edge.
        mean=stats.realised_rate * RATE_BINS - 0.5,
        top=top,
    )


def _runs(stats: MaskStats, top: int, bins: int) -> Histogram:
    """Return the histogram of the lengths of runs of masked tokens."""
    runs = _cut(stats.run_lengths[1:], bins)
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
