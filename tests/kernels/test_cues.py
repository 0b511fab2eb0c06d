"""The kernel for cues, compared with a search from each cue on its own."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.context import FLAGS
from mslm_data.kernels.cues import AND, COMMA, EVERY, OTHER, reach
from tests.reference import cues as twin

some_flags = st.one_of(
    st.just(frozenset()), st.frozensets(st.integers(0, len(FLAGS) - 1), max_size=2)
)
flag_sets = st.one_of(some_flags, st.just(frozenset(range(len(FLAGS)))))
words = st.fixed_dictionaries(
    {
        "mention": st.sampled_from([False, False, True]),
        "goes_on": st.booleans(),
        "before": some_flags,
        "after": st.one_of(st.just(frozenset()), flag_sets),
        "ends": st.one_of(st.just(frozenset()), st.just(frozenset()), flag_sets),
        "kind": st.sampled_from([OTHER, OTHER, COMMA, AND]),
    }
)


def bits(sets: list[frozenset[int]]) -> np.ndarray:
    return np.array([sum(1 << flag for flag in flags) for flags in sets], np.uint8)


def test_every__has_all_flags() -> None:
    assert (1 << len(FLAGS)) - 1 == EVERY


@given(st.lists(st.lists(words, max_size=16), min_size=1, max_size=3))
def test_reach__equals_the_scope_of_each_cue(sentences: list[list[dict]]) -> None:
    line = [word for sentence in sentences for word in sentence]
    bounds = np.cumsum([0, *map(len, sentences)])
    firsts = set(bounds.tolist())
    mentions: list[int] = []
    number = -1
    for w, word in enumerate(line):
        continues = word["goes_on"] and w not in firsts and w > 0 and mentions[w - 1] >= 0
        if word["mention"] and not continues:
            number += 1
        mentions.append(number if word["mention"] else -1)
    columns = {name: [word[name] for word in line] for name in ("before", "after", "ends", "kind")}
    expected = set()
    for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        expected |= twin.reach(
            range(start, stop),
            mentions,
            columns["before"],
            columns["after"],
            columns["ends"],
            columns["kind"],
            len(FLAGS),
        ) if stop > start else set()  # fmt: skip

    flags = np.zeros(number + 1, np.uint8)
    reach(
        np.stack([bounds[:-1], bounds[1:]], axis=1),
        np.array(mentions, np.int64),
        bits(columns["before"]),
        bits(columns["after"]),
        bits(columns["ends"]),
        np.array(columns["kind"], np.uint8),
        flags,
    )

    found = {(m, f) for m in range(number + 1) for f in range(len(FLAGS)) if flags[m] >> f & 1}
    assert found == expected
