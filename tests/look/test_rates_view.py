"""The view of rates: rates with both clips, the rates without them, and the epoch."""

from __future__ import annotations

import re

import pytest

import mslm_data as md
from mslm_data.api.loading import Shards
from mslm_data.look.corpus import Corpus
from mslm_data.look.render import render_view
from mslm_data.look.state import Choice, State
from mslm_data.look.views import rates
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
    assert f"joint in train, epoch {epoch}" in html


def test_view__reports_both_clips_with_a_fix(chem: Shards) -> None:
    html = drawn(chem, State())

    fires = html.count("<small>both clips fire</small>")
    assert 0 < fires < 16
    assert f"Both clips of Eq. 3 fire at {fires} of 16 pairs of rates, the hatched ones." in html
    assert "Choose a pair that is not hatched: a lower ELM or a higher BLM." in html


def test_view__names_the_rate_without_clipping(chem: Shards) -> None:
    points = rates.context(Corpus(chem), State())["lines"]

    for line in points:
        below = line[0]["clips_below"]
        assert below is not None
        elm = line[0]["point"].elm
        # Rates are rounded up in each row, so leave a margin around the named rate.
        for blm, fires in ((below * 0.6, True), (below * 1.5, False)):
            stats = mask_stats(
                chem["train"].chunks, md.strategy("joint", elm=elm, blm=blm), labels=chem.labels
            )
            assert stats.weights.saturated == fires


def test_view__marks_the_current_rates(chem: Shards) -> None:
    choice = Choice("joint", {"elm": "0.75", "blm": "0.225"})

    assert drawn(chem, State(strategies=(choice,))).count('aria-current="true"') == 1
    assert "aria-current" not in drawn(chem, State(strategies=(Choice("joint", {"elm": "0.3"}),)))


def test_notes__of_rows_and_strategy_link_to_the_rates(chem: Shards) -> None:
    state = State(strategies=(Choice("joint", {"elm": "1", "blm": "0"}),))

    for view in ("rows", "strategy"):
        live, file = (
            str(render_view(view, Corpus(chem), state, live=live)[0]) for live in (True, False)
        )
        assert '<a href="rates?s1=joint&amp;s1.elm=1&amp;s1.blm=0">Rates</a> shows' in live
        assert '<a href="#rates">Rates</a> shows' in file


def test_view__without_both_rates_names_a_strategy(chem: Shards) -> None:
    assert "Choose joint" in drawn(chem, State(strategies=(Choice("span"),)))
