from __future__ import annotations

import pytest

import mslm_data as md
from mslm_data.stats import mask_stats
from mslm_data.stats.warnings import find_warnings
from tests.generate import examples_of, row_of

NO_MENTIONS = "masks mentions, but no row has a mention"


def warnings_of(strategy: md.Strategy) -> str:
    rows = examples_of([row_of([1] * 8)])
    return "\n".join(find_warnings(strategy, mask_stats(lambda: [rows], strategy, labels=["a"])))


GENERIC = {"units": "words", "budget": {"rate": 0.2}, "eligible": {"where": "generic"}}
MENTIONS = {"units": "mentions", "budget": {"rate": 0.2}}


MASKING = {
    "joint": md.strategy("joint"),
    "entitybert": md.strategy("entitybert"),
    "lim": md.strategy("lim"),
    "spanbert-ner": md.strategy("spanbert-ner"),
    "mixture": md.strategy(
        "mixture", parts=[md.strategy("token"), md.strategy("elm")], chances=[0.5, 0.5]
    ),
    "picks": md.strategy("picks", picks=[GENERIC, MENTIONS]),
}
SPARING = {
    "token": md.strategy("token"),
    "generic words": md.strategy("picks", picks=[GENERIC]),
    "joint without elm": md.strategy("joint", elm=0, pool="generic_only"),
    "curriculum": md.strategy(
        "curriculum",
        parts=[md.strategy("token"), md.strategy("picks", picks=[GENERIC])],
        epochs=[1],
    ),
}


@pytest.mark.parametrize("name", MASKING)
def test_find_warnings__strategies_that_mask_mentions_need_some(name: str) -> None:
    assert NO_MENTIONS in warnings_of(MASKING[name])


@pytest.mark.parametrize("name", SPARING)
def test_find_warnings__strategies_that_spare_mentions_need_none(name: str) -> None:
    assert NO_MENTIONS not in warnings_of(SPARING[name])
