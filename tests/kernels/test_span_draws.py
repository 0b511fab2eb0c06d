from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.ragged import Ragged
from mslm_data.kernels.span_draws import (
    CLOSED,
    END,
    OPEN,
    draw_length,
    place_spans,
    run_from,
)
from mslm_data.mask.span_picks import geometric_lengths, uniform_lengths
from tests.kernels.fairness import critical_value
from tests.reference import spans as twin

LAWS = {
    "uniform": (uniform_lengths(2, 4), twin.UNIFORM_2_4),
    "geometric": (geometric_lengths(0.2, 10), twin.GEOMETRIC),
}
STREAMS = st.integers(0, 2**64 - 1)
some_states = st.lists(st.lists(st.sampled_from([END, CLOSED, OPEN]), max_size=12), max_size=5)


def chances(law: str) -> list[float]:
    table = LAWS[law][0].astype(object)
    return [
        float(Fraction(int(now - before), 2**53))
        for before, now in zip([0, *table[:-1]], table, strict=True)
    ]


@given(STREAMS, st.integers(0, 2**40), st.sampled_from(sorted(LAWS)))
def test_draw_length__equals_twin(stream, k, law):
    sums, weights = LAWS[law]

    assert draw_length(np.uint64(stream), k, sums) == twin.drawn_length(stream, k, weights)


def test_geometric_lengths__equal_spanbert():
    found = chances("geometric")

    expected = [0.2241, 0.1792, 0.1434, 0.1147, 0.0918, 0.0734, 0.0587, 0.0470, 0.0376, 0.0301]
    assert [round(chance, 4) for chance in found] == expected
    assert round(sum(length * chance for length, chance in enumerate(found, 1)), 3) == 3.797


def test_uniform_lengths__are_equally_likely():
    assert chances("uniform") == pytest.approx([0, 1 / 3, 1 / 3, 1 / 3])


@pytest.mark.parametrize("law", LAWS)
def test_draw_length__keeps_its_law(law):
    streams = np.arange(20_000, dtype=np.uint64)
    counts = Counter(int(draw_length(stream, 3, LAWS[law][0])) for stream in streams)

    usual = {
        length: 20_000 * chance
        for length, chance in enumerate(chances(law), 1)
        if 20_000 * chance >= 5
    }
    statistic = sum(
        (counts[length] - expected) ** 2 / expected for length, expected in usual.items()
    )
    assert statistic < critical_value(len(usual) - 1)
    assert sum(counts[length] for length in counts if length not in usual) < 30


@pytest.mark.parametrize(
    ("state", "size"),
    [
        ([OPEN, OPEN, OPEN, OPEN], 3),
        ([OPEN, OPEN, END, OPEN], 2),
        ([OPEN, OPEN], 2),
        ([OPEN, OPEN, CLOSED], 0),
        ([CLOSED], 0),
        ([END], 0),
    ],
)
def test_run_from__ends_at_special_tokens_and_avoids_closed_ones(state, size):
    assert run_from(np.array(state, np.uint8), 0, 3) == size


@given(st.data(), some_states, st.sampled_from(sorted(LAWS)))
def test_place_spans__equals_its_twin(data, rows, law):
    """Also that `places` is restored for the next row."""
    sums, weights = LAWS[law]
    states = Ragged.from_rows(rows, np.uint8)
    quota = np.array(
        data.draw(st.lists(st.integers(0, 9), min_size=len(rows), max_size=len(rows))), np.int64
    )
    drawn = data.draw(st.lists(STREAMS, min_size=2 * len(rows), max_size=2 * len(rows)))
    streams = np.array(drawn, np.uint64).reshape(2, len(rows))
    left, out = quota.copy(), np.full(len(states.values), 7, np.uint8)
    place_spans(states.offsets, states.values.copy(), left, sums, streams, 1, out)

    for i, row in enumerate(rows):
        state, due, expected = list(row), int(quota[i]), [7] * len(row)
        for k, t in enumerate(twin.shuffled(int(streams[0, i]), range(len(row)))):
            if due == 0 or state[t] != OPEN:
                continue
            most = min(twin.drawn_length(int(streams[1, i]), k, weights), due)
            span = [t]
            while len(span) < most and span[-1] + 1 < len(row) and state[span[-1] + 1] != END:
                span.append(span[-1] + 1)
            if all(state[s] == OPEN for s in span):
                due -= len(span)
                for s in span:
                    state[s], expected[s] = CLOSED, 1
        assert out[states.offsets[i] : states.offsets[i + 1]].tolist() == expected
        assert left[i] == due


def test_lengths__sum_to_one_in_integers():
    for sums, weights in LAWS.values():
        exact = [Fraction(2**53) * part / sum(weights) for part in accumulate(weights)]
        assert sums.tolist() == [int(part) for part in exact]
        assert sums[-1] == 2**53
