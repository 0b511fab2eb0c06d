from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.annotate.overlaps import flatten
from mslm_data.data.document import Span
from mslm_data.data.documents import Mentions
from mslm_data.data.reason import Reason
from tests import made


@st.composite
def spans(draw: st.DrawFn) -> list[Span]:
    drawn = draw(
        st.lists(
            st.tuples(st.integers(0, 20), st.integers(1, 8), st.sampled_from("XY")), max_size=10
        )
    )
    return [Span(start, start + length, label) for start, length, label in drawn]


def slow_flatten(given_spans: list[Span]) -> tuple[list[Span], Counter[str]]:
    """Repeatedly take the longest mention without overlaps.

    Ties go to the leftmost, then to the first.
    """
    kept: list[Span] = []
    left_out: Counter[str] = Counter()
    left = list(enumerate(given_spans))
    while left:
        number, best = min(
            left, key=lambda item: (-(item[1].end - item[1].start), item[1].start, item[0])
        )
        left = [item for item in left if item[0] != number]
        clash = [other for other in kept if other.start < best.end and best.start < other.end]
        if not clash:
            kept.append(best)
        elif any(other[:2] == best[:2] for other in clash):
            left_out[Reason("same place")] += 1
        elif any(other.start <= best.start and best.end <= other.end for other in clash):
            left_out[Reason("inside another")] += 1
        else:
            left_out[Reason("overlaps another")] += 1
    return sorted(kept), left_out


@given(st.lists(spans(), max_size=5))
def test_flatten__equals_its_twin_in_each_document(rows: list[list[Span]]) -> None:
    """Documents stand side by side on the line, without a character between."""
    bases = 28 * np.arange(len(rows))

    kept, left_out = flatten(Mentions.from_rows(rows, bases))

    of_each = [slow_flatten(of_document) for of_document in rows]
    assert kept.spans(bases) == [flat for flat, _ in of_each]
    assert left_out == sum((reasons for _, reasons in of_each), Counter())


def test_flatten__keeps_concepts_and_scores_of_mentions() -> None:
    rows = [[Span(4, 6, "b", "C2", 0.25), Span(0, 3, "a", "C1", 0.5), Span(1, 2, "a", "C3", 1.0)]]

    kept, _ = flatten(Mentions.from_rows(rows, np.zeros(1, np.int64)))

    assert made.spans_of(kept) == [rows[0][1], rows[0][0]]


INSIDE, SAME, OVER = map(Reason, ("inside another", "same place", "overlaps another"))


@pytest.mark.parametrize(
    ("some", "kept", "left_out"),
    [
        ([], [], {}),
        ([Span(1, 3, "b"), Span(0, 5, "a")], [Span(0, 5, "a")], {INSIDE: 1}),
        ([Span(0, 5, "b"), Span(0, 5, "a")], [Span(0, 5, "b")], {SAME: 1}),
        ([Span(3, 6, "b"), Span(1, 4, "a")], [Span(1, 4, "a")], {OVER: 1}),
        ([Span(0, 2, "a"), Span(2, 4, "b")], [Span(0, 2, "a"), Span(2, 4, "b")], {}),
        ([Span(0, 4, "a"), Span(3, 9, "b"), Span(8, 11, "c")], [Span(3, 9, "b")], {OVER: 2}),
    ],
)
def test_flatten__worked_examples(
    some: list[Span], kept: list[Span], left_out: dict[Reason, int]
) -> None:
    assert made.flat(some) == (kept, left_out)
