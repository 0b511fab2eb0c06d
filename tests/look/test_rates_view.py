"""The view of rates: counts at each pair, pairs with both clips, and the epoch."""

from __future__ import annotations

import re

import pytest

import mslm_data as md
from mslm_data.api.loading import Shards
from mslm_data.look.corpus import Corpus
from mslm_data.look.render import render_view
from mslm_data.look.state import Choice, State
from mslm_data.stats import mask_stats


def drawn(shards: Shards, state: State, *, live: bool = False) -> str:
    return str(render_view("rates", Corpus(shards, live=False), state, live=live)[0])


@pytest.mark.parametrize("epoch", [0, 3])
def test_view__counts_the_epoch_of_the_page(chem: Shards, epoch: int) -> None:
    html = drawn(chem, State(epoch=epoch))

    train = chem["train"].examples()
    expected = []
    for elm in (0.25, 0.5, 0.75, 1.0):
        for blm in (0.0, 0.075, 0.15, 0.225):
            plan = md.strategy("joint", elm=elm, blm=blm).plan(train, seed=0, epoch=epoch)
            expected.append("{:,} / {:,}".format(*plan.counts()))
    assert re.findall(r"N_BLM </span>(.*?)</small>", html) == expected
    assert f"train, epoch {epoch}, at the paper" in html


def test_view__says_where_both_clips_fire(chem: Shards) -> None:
    html = drawn(chem, State())

    fires = html.count("<small>both clips fire</small>")
    assert 0 < fires < 16
    assert f"Both clips of Eq. 3 fire at {fires} of 16 pairs of rates, the ones" in html
    assert "lower ELM or raise BLM" in html


@pytest.mark.parametrize(("elm", "blm"), [(0.25, 0.04), (0.75, 0.225), (1.0, 0.0)])
def test_view__says_what_the_current_rates_give(chem: Shards, elm: float, blm: float) -> None:
    options = {"elm": f"{elm}", "blm": f"{blm}"}
    html = drawn(chem, State(strategies=(Choice("joint", options),)))

    stats = mask_stats(
        chem["train"].chunks, md.strategy("joint", elm=elm, blm=blm), labels=chem.labels
    )
    weights = stats.weights
    line = html.partition("<p data-now>")[2].partition("</p>")[0]
    assert line.startswith(
        f"Now: ELM {elm}, BLM {blm}: N_ELM {stats.n_elm:,}, N_BLM {stats.n_blm:,}, "
        f"w_ELM {weights.w_elm:.4f}, w_BLM {weights.w_blm:.4f}; "
    )
    assert ("<b>both clips fire</b>" in line) == weights.saturated


def test_view__has_a_map_for_each_strategy_with_both_rates(chem: Shards) -> None:
    choices = (
        Choice("joint"),
        Choice("span"),
        Choice("joint", {"elm": "0.5", "count": "bernoulli"}),
    )

    state = State(strategies=choices)
    maps = re.findall(r'<article data-strategy="(.*?)">(.*?)</article>', drawn(chem, state), re.S)

    assert [name for name, _ in maps] == ["joint", "joint 2"]
    for (name, html), choice in zip(maps, (choices[0], choices[2]), strict=True):
        alone = drawn(chem, State(strategies=(choice,)))
        assert f"<h3>{name}</h3>" in html
        cells = re.findall(r"N_BLM </span>(.*?)</small>", html)
        assert len(cells) == 16
        assert cells == re.findall(r"N_BLM </span>(.*?)</small>", alone)


def test_view__marks_the_current_rates(chem: Shards) -> None:
    choice = Choice("joint", {"elm": "0.75", "blm": "0.225"})

    assert drawn(chem, State(strategies=(choice,))).count('aria-current="true"') == 1
    assert "aria-current" not in drawn(chem, State(strategies=(Choice("joint", {"elm": "0.3"}),)))


def test_cells__of_a_strategy_from_a_file_have_its_options(chem: Shards) -> None:
    corpus = Corpus(chem)
    choice = corpus.add("own.toml", md.strategy("joint", elm=0.3, pool="generic_only"))

    html = str(render_view("rates", corpus, State(strategies=(choice,)), live=True)[0])

    addresses = re.findall(r'<a href="rows\?(.*?)"', html)
    assert addresses[1] == "s1=joint&amp;s1.pool=generic_only&amp;s1.elm=0.25&amp;s1.blm=0.075"
    assert len(set(addresses)) == 16
    assert "Now: ELM 0.3, BLM 0.15" in html


def test_notes__lead_from_rows_and_strategy_to_the_rates(chem: Shards) -> None:
    state = State(strategies=(Choice("joint", {"elm": "1", "blm": "0"}),))

    for view in ("rows", "strategy"):
        live, file = (
            str(render_view(view, Corpus(chem), state, live=live)[0]) for live in (True, False)
        )
        assert '<a href="rates?s1=joint&amp;s1.elm=1&amp;s1.blm=0">Rates</a> shows' in live
        assert '<a href="#rates">Rates</a> shows' in file


def test_view__without_both_rates_names_a_strategy(chem: Shards) -> None:
    assert "Choose joint" in drawn(chem, State(strategies=(Choice("span"),)))
