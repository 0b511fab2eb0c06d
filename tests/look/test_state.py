"""The state of the page, and its address."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.errors import CallError
from mslm_data.look.state import Choice, State, read_state

WORDS = st.text(min_size=1, max_size=8)
CHOICES = st.builds(Choice, WORDS, st.dictionaries(WORDS, WORDS, max_size=2))
STATES = st.builds(
    State,
    view=st.just("rows"),
    split=st.sampled_from(["train", "test"]),
    row=st.integers(0, 2**63 - 1),
    strategies=st.lists(CHOICES, min_size=1, max_size=3).map(tuple),
    seed=st.integers(0, 2**63 - 1),
    epoch=st.integers(0, 2**63 - 1),
    label=st.just("") | WORDS,
    doc=st.just("") | WORDS,
    least=st.none() | st.integers(0, 9),
    most=st.none() | st.integers(0, 9),
    only=st.lists(WORDS, max_size=2).map(tuple),
    extra=st.dictionaries(WORDS.map("batches.{}".format), WORDS, max_size=2),
)


def read(query: str) -> State:
    return read_state(parse_qsl(query), view="rows", splits=["train", "test"], start=State())


@given(STATES)
def test_address__restores_the_state(state: State) -> None:
    assert read(state.address()) == state


@pytest.mark.parametrize(
    "query", ["split=dev", "seed=-1", "row=x", "epoch=1.5", "least=٣", f"seed={2**63}"]
)
def test_read_state__refuses_what_is_not_there(query: str) -> None:
    name = query.partition("=")[0]
    with pytest.raises(CallError, match={"row": "first row", "least": "tokens"}.get(name, name)):
        read(query)


@pytest.mark.parametrize("query", ["s4=joint", "s1=joint&s4.elm=0.3"])
def test_read_state__refuses_a_fourth_strategy(query: str) -> None:
    with pytest.raises(CallError, match="at most 3"):
        read(query)


def test_address__keeps_strategies_that_cannot_be_used_in_their_places() -> None:
    state = State(strategies=(Choice("span"),), unusable={1: Choice("pmi", {"rate": "0.2"})})

    assert state.address() == "s1=pmi&s1.rate=0.2&s2=span"
