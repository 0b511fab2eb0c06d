"""The charts of the view of strategies."""

from __future__ import annotations

import re

import pytest

import mslm_data as md
from mslm_data.api.loading import Shards
from mslm_data.draw.charts import Histogram
from mslm_data.look.corpus import Corpus
from mslm_data.look.state import Choice, State
from mslm_data.look.views import strategy as view
from mslm_data.stats import mask_stats


def charts_of(shards: Shards, *names: str) -> list[list[Histogram]]:
    state = State(strategies=tuple(map(Choice, names)))
    return [result["charts"] for result in view.context(Corpus(shards), state)["results"]]


def drawn(chart: Histogram) -> int:
    """Return the sum of all counts, as a pointer over each bin shows them."""
    counts = [re.search(r": ([\d,]+)", one.tip) for one in chart.bins]
    return sum(int(count[1].replace(",", "")) for count in counts if count)


@pytest.mark.parametrize("name", ["joint", "span", "elm"])
def test_charts__count_every_row_and_run(chem: Shards, name: str) -> None:
    strategy = md.strategy(name)
    stats = mask_stats(chem["train"].chunks, strategy, labels=chem.labels)

    ((per_row, rates, runs),) = charts_of(chem, name)

    assert drawn(per_row) == drawn(rates) == stats.sequences == len(chem["train"])
    assert drawn(runs) == sum(stats.run_lengths)
    assert per_row.bins[0].tip.startswith(f"0: {stats.rows_without_mask:,}")
    owing = sum(bar[2] for one in per_row.bins for bar in one.bars if bar[0] == "o")
    assert bool(owing) == bool(stats.rows_under_budget)


def test_charts__of_several_strategies_share_a_scale(chem: Shards) -> None:
    both = charts_of(chem, "token", "elm")
    ((*alone,),) = charts_of(chem, "elm")

    for first, second in zip(*both, strict=True):
        assert [said for _, said in first.lines] == [said for _, said in second.lines]
    assert [chart.lines for chart in both[1]] != [chart.lines for chart in alone]
