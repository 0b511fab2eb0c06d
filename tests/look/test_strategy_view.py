"""The charts of the view of strategies."""

from __future__ import annotations

import re

import pytest

import mslm_data as md
from mslm_data.api.loading import Shards
from mslm_data.draw.charts import Histogram
from mslm_data.look.corpus import Corpus
from mslm_data.look.render import render_view
from mslm_data.look.state import Choice, State
from mslm_data.look.views import strategy as view
from mslm_data.stats import mask_stats
from tests.cli.running import run


def charts_of(shards: Shards, *names: str) -> list[list[Histogram]]:
    """Return the groups of charts that are drawn beside each other."""
    state = State(strategies=tuple(map(Choice, names)))
    groups: list[list[Histogram]] = view.context(Corpus(shards), state)["charts"]
    return groups


def shown(shards: Shards, *choices: Choice) -> str:
    state = State(view="strategy", strategies=choices)
    return str(render_view("strategy", Corpus(shards), state, live=False)[0])


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


def test_charts__of_several_strategies_share_their_axes(chem: Shards) -> None:
    groups = charts_of(chem, "token", "elm")
    ((*alone,),) = charts_of(chem, "elm")

    assert len(groups) == len(alone) == 3
    for first, second in groups:
        assert [text for _, text in first.lines] == [text for _, text in second.lines]
        assert [(one.x, one.width) for one in first.bins] == [
            (one.x, one.width) for one in second.bins
        ]
        assert first.title == second.title.replace("elm: ", "token: ")
    assert [second.lines for _, second in groups] != [chart.lines for chart in alone]
    # Counts stay complete with other bins.
    assert [drawn(second) for _, second in groups] == [drawn(chart) for chart in alone]


def test_strategies__stand_beside_each_other(chem: Shards) -> None:
    assert '<div class="abreast n2">' in shown(chem, Choice("joint"), Choice("span"))
    assert "abreast" not in shown(chem, Choice("joint"))


@pytest.mark.parametrize(("elm", "blm"), [("0.5", "0.15"), ("1", "0"), ("0.25", "0.04")])
def test_rates__are_explained_as_mask_stats_does(chem: Shards, elm: str, blm: str) -> None:
    html = shown(chem, Choice("joint", {"elm": elm, "blm": blm}))
    done = run("mask-stats", chem.folder, "--strategy", "joint", "--elm", elm, "--blm", blm)

    explanation = "budget is rounded up, so rows with few mentions or tokens are masked above"
    assert (explanation in html) == (explanation in done.out)
    assert (explanation in html) == (blm != "0")


def test_labels__have_counts_and_the_masked_share(chem: Shards) -> None:
    html = shown(chem, Choice("joint", {"elm": "0.3"}))
    done = run("mask-stats", chem.folder, "--elm", "0.3", "--json").json

    row = html.partition('<th scope="row">Chemical</th>')[2].partition("</tr>")[0]
    mentions, tokens, masked = done["labels"]["Chemical"].values()
    share = f"{masked / mentions:.2%}"
    assert re.findall("<td.*?>(.*?)<", row) == [
        f"{mentions:,}",
        f"{tokens:,}",
        f"{masked:,}",
        share,
    ]
    assert f'"realised_elm">{share}<' in html  # of the only label


def test_weights__without_masks_are_none(chem: Shards) -> None:
    html = shown(chem, Choice("joint", {"elm": "0", "blm": "0"}))

    assert set(re.findall(r'data-count="w_\w+">(.*?)<', html)) == {"\N{EN DASH}"}
    assert "0.5000" not in html
