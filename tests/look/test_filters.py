"""Pages of rows that pass filters, against a check of each row."""

from __future__ import annotations

import numpy as np
import pytest

import mslm_data as md
from mslm_data.api.loading import Shards
from mslm_data.look import filters
from mslm_data.look.corpus import Corpus
from mslm_data.look.filters import References, find_page
from mslm_data.look.seen import find_seen
from mslm_data.look.state import State
from mslm_data.metrics import NEW, KnownMentions, mention_texts

STRATEGIES = {"joint": md.strategy("joint", elm=0.5, blm=0.05), "span": md.strategy("span")}
STATES = {
    "none": State(),
    "label": State(label="Chemical"),
    "no mention": State(only=("no-mention",)),
    "lengths": State(least=10, most=20),
    "document": State(doc=":1"),
    "no mask": State(only=("no-mask",)),
    "differ": State(only=("differ",)),
    "two": State(only=("no-mention",), least=15),
    "nothing": State(doc="nowhere"),
}


def passes(shards: Shards, row: int, state: State) -> bool:
    """Return whether a row passes, by its columns as plain values."""
    split = shards["train"]
    columns, examples = split[row], split.take(np.array([row]))
    plans = [strategy.plan(examples).kinds.values for strategy in STRATEGIES.values()]
    return all(
        [
            not state.label or bool(columns["span_labels"]),
            state.doc in columns["doc_id"],
            state.least is None or len(columns["input_ids"]) >= state.least,
            state.most is None or len(columns["input_ids"]) <= state.most,
            "no-mention" not in state.only or not columns["span_starts"],
            "no-mask" not in state.only or any(not plan.any() for plan in plans),
            "differ" not in state.only or any((plan != plans[0]).any() for plan in plans),
        ]
    )


@pytest.mark.parametrize("name", STATES)
def test_find_page__returns_passing_rows_once_in_order(
    chem: Shards, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "_FIRST_CHUNK", 4)
    state, split = STATES[name], chem["train"]
    expected = [row for row in range(len(split)) if passes(chem, row, state)]

    onward, row = [], 0
    while row < len(split):
        page = find_page(split, state.change(row=row), STRATEGIES, count=7)
        assert page.start == row < page.stop
        onward += page.rows.tolist()
        row = page.stop
    backward: list[int] = []
    while row > 0:
        page = find_page(split, state.change(row=row), STRATEGIES, count=7, back=True)
        assert page.start < page.stop == row
        backward = [*page.rows.tolist(), *backward]
        row = page.start

    assert onward == backward == expected


def test_find_page__finds_mentions_absent_from_training(chem: Shards) -> None:
    test, corpus = chem["test"], Corpus(chem)
    seen = find_seen(corpus)

    def terms(split: str, row: int) -> set[str]:
        columns = chem[split][row]
        spans = zip(columns["span_starts"], columns["span_ends"], strict=True)
        decode = corpus.tokenizer.decode
        return {decode(columns["input_ids"][start:end]).lower() for start, end in spans}

    known = set().union(*(terms("train", row) for row in range(len(chem["train"]))))
    expected = [row for row in range(len(test)) if terms("test", row) - known]

    page = find_page(
        test, State(split="test", only=("unseen",)), {}, count=99, references=References(seen=seen)
    )

    assert page.rows.tolist() == expected
    assert 0 < len(expected) < len(test)
    assert not len(
        find_page(
            chem["train"], State(only=("unseen",)), {}, count=9, references=References(seen=seen)
        ).rows
    )


def test_find_page__has_the_known_mentions_of_evaluate(chem: Shards) -> None:
    test, corpus = chem["test"], Corpus(chem)
    known = KnownMentions.from_rows(chem["train"], corpus.tokenizer)
    is_new = [
        NEW in known.classify(mention_texts(test.take(np.array([row])), corpus.tokenizer))
        for row in range(len(test))
    ]

    references = References(seen=find_seen(corpus))
    state = State(split="test", only=("unseen",))
    page = find_page(test, state, {}, count=99, references=references)

    assert page.rows.tolist() == np.flatnonzero(is_new).tolist()


def test_find_page__scans_a_bounded_number_of_rows(
    chem: Shards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "MAX_SCANNED", 10)

    page = find_page(chem["train"], State(doc="nowhere", row=5), {}, count=7)

    assert (len(page.rows), page.start, page.stop) == (0, 5, 15)
