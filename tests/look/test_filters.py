"""Pages of rows that pass filters, against a check of each row."""

from __future__ import annotations

import numpy as np
import pytest

import mslm_data as md
from mslm_data.api.loading import Shards
from mslm_data.look import filters
from mslm_data.look.corpus import Corpus
from mslm_data.look.filters import Scan, count_matches, find_page
from mslm_data.look.seen import find_seen
from mslm_data.look.state import State
from mslm_data.look.term_shares import count_term_shares
from mslm_data.metrics import NEW, KnownMentions, mention_texts

STRATEGIES = (md.strategy("joint", elm=0.5, blm=0.05), md.strategy("span"))
STATES = {
    "none": State(),
    "label": State(label="Chemical"),
    "no mention": State(only=("no-mention",)),
    "lengths": State(least=10, most=20),
    "document": State(doc=":1"),
    "terms": State(terms=12),
    "no mask": State(only=("no-mask",)),
    "under budget": State(only=("under-budget",)),
    "differ": State(only=("differ",)),
    "two": State(only=("no-mention",), least=15),
    "nothing": State(doc="nowhere"),
    "new": State(split="test", only=("unseen",)),
    "not new": State(only=("unseen",)),
}


def passes(shards: Shards, row: int, state: State) -> bool:
    """Return whether a row passes, by its columns as plain values."""
    split = shards[state.split]
    columns, examples = split[row], split.take(np.array([row]))
    plans = [strategy.plan(examples) for strategy in STRATEGIES]
    kinds = [plan.kinds.values for plan in plans]
    return all(
        [
            not state.label or bool(columns["span_labels"]),
            state.doc in columns["doc_id"],
            state.least is None or len(columns["input_ids"]) >= state.least,
            state.most is None or len(columns["input_ids"]) <= state.most,
            state.terms is None or split.term_shares()[row] >= state.terms / 100,
            "no-mention" not in state.only or not columns["span_starts"],
            "no-mask" not in state.only or any(not one.any() for one in kinds),
            "under-budget" not in state.only
            or any(plan.unspent is not None and plan.unspent[0] > 0 for plan in plans),
            "differ" not in state.only or any((one != kinds[0]).any() for one in kinds),
            "unseen" not in state.only or has_new_mention(shards, state.split, row),
        ]
    )


def has_new_mention(shards: Shards, split: str, row: int) -> bool:
    """Return whether `evaluate` would count a mention of a row as new."""
    tokenizer = Corpus(shards).tokenizer
    known = KnownMentions.from_rows(shards["train"], tokenizer)
    return NEW in known.classify(mention_texts(shards[split].take(np.array([row])), tokenizer))


def scan_of(shards: Shards, state: State) -> Scan:
    return Scan(
        split=shards[state.split],
        state=state,
        strategies=STRATEGIES,
        seen=find_seen(Corpus(shards)),
        terms=count_term_shares(Corpus(shards), state).result,
    )


@pytest.mark.parametrize("name", STATES)
def test_find_page__returns_passing_rows_once_in_order(
    chem: Shards, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "_FIRST_CHUNK", 4)
    state = STATES[name]
    total = len(chem[state.split])
    expected = [row for row in range(total) if passes(chem, row, state)]

    onward, row = [], 0
    while row < total:
        page = find_page(scan_of(chem, state.change(row=row)), count=7)
        assert page.start == row < page.stop
        onward += page.rows.tolist()
        row = page.stop
    backward: list[int] = []
    while row > 0:
        page = find_page(scan_of(chem, state.change(row=row, back=True)), count=7)
        assert page.start < page.stop == row
        backward = [*page.rows.tolist(), *backward]
        row = page.start

    assert onward == backward == expected
    assert count_matches(scan_of(chem, state), lambda *_: None) == len(expected)


def test_find_page__without_two_strategies_no_row_differs(chem: Shards) -> None:
    for strategies in ((), STRATEGIES[:1]):
        state = State(only=("differ",))
        scan = Scan(split=chem["train"], state=state, strategies=strategies)

        assert len(find_page(scan, count=7).rows) == 0


def test_find_page__scans_a_bounded_number_of_rows(
    chem: Shards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "MAX_SCANNED", 10)

    page = find_page(scan_of(chem, State(doc="nowhere", row=5)), count=7)

    assert (len(page.rows), page.start, page.stop) == (0, 5, 15)
