"""Counts add up, from a batch to a folder, and say when something is lost without a reason."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.accounts import Counts
from mslm_data.data.document import SetAside
from mslm_data.data.reason import Reason

SHORT = Reason("too short", advice={"ids": "{set} source.ids=line"})
LONG = Reason("too long", is_rule=True)

_REASONS = st.sampled_from([SHORT, LONG])
_NUMBERS = st.integers(0, 1000)


@st.composite
def some_counts(draw: st.DrawFn) -> Counts:
    """Draw counts that keep the law."""
    counts = Counts(written=draw(_NUMBERS), mentions=draw(_NUMBERS), cut_pieces=0)
    for reason in draw(st.lists(_REASONS, max_size=3)):
        counts.put_aside(SetAside("train:0", "train.tsv:1", reason, draw(st.integers(-1, 9))))
        counts.leave_out(reason, draw(_NUMBERS))
        counts.adjust(reason.text, draw(_NUMBERS))
        counts.not_choose(reason.text)
    counts.read = counts.written + sum(counts.set_aside.values())
    counts.given_mentions = counts.mentions + sum(counts.left_out.values())
    return counts


@given(some_counts(), some_counts(), some_counts())
def test_add__is_a_monoid_that_keeps_the_law(one: Counts, two: Counts, three: Counts) -> None:
    assert (one + two) + three == one + (two + three)
    assert one + two == two + one
    assert one + Counts() == Counts() + one
    assert sum([one, two, three], Counts()).read == one.read + two.read + three.read

    (one + two + three).check()


@given(some_counts())
def test_counts__survive_json_with_their_reasons(counts: Counts) -> None:
    counts = counts + Counts()  # sorted keys

    again = msgspec.json.decode(msgspec.json.encode(counts), type=Counts)

    assert again == counts
    assert [vars_of(reason) for reason in again.reasons.values()] == [
        vars_of(reason) for reason in counts.reasons.values()
    ]


def vars_of(reason: Reason) -> tuple[object, ...]:
    return reason.text, reason.code, dict(reason.advice), reason.is_rule


@pytest.mark.parametrize("lost", ["read", "given_mentions"])
def test_check__sees_a_loss_without_a_reason(lost: str) -> None:
    counts = Counts(read=3, written=3, given_mentions=5, mentions=5)
    counts.check()

    setattr(counts, lost, 9)

    with pytest.raises(ValueError, match="expected"):
        counts.check()


def test_counts__refuse_less_than_nothing() -> None:
    with pytest.raises(msgspec.ValidationError, match="read"):
        msgspec.json.decode(b'{"read": -1}', type=Counts)
