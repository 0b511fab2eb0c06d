from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.document import Sentence, Span
from mslm_data.data.reason import Reason
from mslm_data.source.reading import standoff
from mslm_data.source.reading.records import RecordError
from mslm_data.source.reading.standoff import Annotation, OffsetSource

TEXT = "red, sore\nskin"


def test_place__keeps_matching_mentions() -> None:
    placed = OffsetSource().place(TEXT, [Annotation([(5, 9)], "Sign", "sore", "C1")])

    assert placed.spans == (Span(5, 9, "Sign", "C1"),)
    assert placed.unplaced == {}


@pytest.mark.parametrize(
    ("mention", "reason"),
    [
        (Annotation([(5, 9)], "Sign", "sora"), standoff.MISMATCH),
        (Annotation([(5, 99)], "Sign"), standoff.OUTSIDE),
        (Annotation([(-1, 3)], "Sign"), standoff.OUTSIDE),
        (Annotation([(5, 5)], "Sign"), standoff.NO_WIDTH),
        (Annotation([(9, 5)], "Sign"), standoff.NO_WIDTH),
        (Annotation([(5, 9)], ""), standoff.NO_LABEL),
        (Annotation([], "Sign"), standoff.NO_OFFSETS),
    ],
)
def test_place__counts_mentions_that_do_not_match(mention: Annotation, reason: str) -> None:
    placed = OffsetSource().place(TEXT, [mention, mention])

    assert placed.spans == ()
    assert placed.unplaced == {reason: 2}


def test_place__lets_white_space_differ() -> None:
    placed = OffsetSource().place(TEXT, [Annotation([(5, 14)], "Sign", "sore skin  ")])

    assert placed.spans == (Span(5, 14, "Sign"),)


@pytest.mark.parametrize("words", [None, ""])
def test_place__compares_no_empty_words(words: str | None) -> None:
    placed = OffsetSource().place(TEXT, [Annotation([(5, 9)], "Sign", words)])

    assert placed.spans == (Span(5, 9, "Sign"),)


@pytest.mark.parametrize(
    ("discontinuous", "spans", "unplaced", "adjusted"),
    [
        ("hull", (Span(0, 14, "Sign"),), {}, {"discontinuous": 1}),
        ("set_aside", (), {standoff.DISCONTINUOUS: 1}, {}),
    ],
)
def test_place__counts_discontinuous_mentions_either_way(
    discontinuous: standoff.Discontinuous,
    spans: tuple[Span, ...],
    unplaced: dict[Reason, int],
    adjusted: dict[str, int],
) -> None:
    mention = Annotation([(10, 14), (0, 3)], "Sign", "red skin")

    assert OffsetSource(discontinuous=discontinuous).place(TEXT, [mention]) == (
        spans,
        unplaced,
        adjusted,
    )


def test_place__joins_fragments_with_white_space_between() -> None:
    mention = Annotation([(5, 9), (10, 14)], "Sign", "sore skin")

    placed = OffsetSource(discontinuous="set_aside").place(TEXT, [mention])

    assert placed.spans == (Span(5, 14, "Sign"),)
    assert placed.adjusted == {}


def test_lay_out__fills_gaps_between_pieces() -> None:
    text, bounds, _ = OffsetSource().lay_out([(8, "skin"), (0, "sore"), (5, "")], [])

    assert text == "sore   \nskin"
    assert bounds == (Sentence(0, 4), Sentence(8, 12))


@pytest.mark.parametrize("offset", [3, standoff.MAX_GAP + 5])
def test_lay_out__refuses_overlaps_and_far_offsets(offset: int) -> None:
    with pytest.raises(RecordError, match=f"got offset {offset}"):
        OffsetSource().lay_out([(0, "sore"), (offset, "skin")], [])


@given(
    st.lists(st.text(min_size=1), min_size=1), st.sampled_from(["characters", "bytes", "utf-16"])
)
def test_in_characters__finds_laid_out_pieces_in_every_unit(
    words: list[str], unit: standoff.OffsetUnit
) -> None:
    words = [word.encode("utf-8", "replace").decode() for word in words]
    pieces, offset = [], 0
    for word in words:
        pieces.append((offset, word))
        offset += standoff.width(word, unit=unit) + 2

    text, bounds, _ = OffsetSource(offsets=unit).lay_out(pieces, [])
    at = standoff.in_characters(text, unit=unit)

    assert [text[bound.start : bound.end] for bound in bounds] == words
    assert [
        (at(start), at(start + standoff.width(word, unit=unit))) for start, word in pieces
    ] == list(bounds)


def test_in_characters__returns_minus_one_within_a_character() -> None:
    at = standoff.in_characters("ï\U0001d6fcx", unit="bytes")

    assert [at(offset) for offset in (0, 1, 2, 3, 6, 7, 8)] == [0, -1, 1, -1, 2, 3, -1]


def test_place__compares_fragments_separated_by_dots() -> None:
    fits = [
        Annotation([(0, 3), (10, 14)], "Sign", words)
        for words in ("red ... skin", "red [...] skin", "red \u2026 skin")
    ]
    misfits = [
        Annotation([(0, 3), (10, 14)], "Sign", words)
        for words in ("red ... sore", "red ...", "...")
    ]

    placed = OffsetSource().place(TEXT, [*fits, *misfits])

    assert placed.spans == (Span(0, 14, "Sign"),) * 3
    assert placed.misfits == 3


WORDS = "\U0001d6fc na\u00efve\r\nx aspirin, pain"
"""A text in which all units and newlines differ before `aspirin`."""
CONVENTIONS = [
    (unit, newlines, ends)
    for unit in ("characters", "utf-16", "bytes")
    for newlines in ("two", "one")
    for ends in ("exclusive", "inclusive")
]


def understood(unit: str, newlines: str, ends: str, word: str) -> tuple[int, int]:
    """Return the offsets of a word of `WORDS`, by counting the text before it."""
    before, _, _ = WORDS.partition(word)
    if newlines == "one":
        before = before.replace("\r\n", "\n")
    encoding, size = {
        "characters": ("utf-32-le", 4),
        "utf-16": ("utf-16-le", 2),
        "bytes": ("utf-8", 1),
    }[unit]
    start = len(before.encode(encoding)) // size
    return start, start + len(word) - (ends == "inclusive")


@pytest.mark.parametrize(("unit", "newlines", "ends"), CONVENTIONS)
@pytest.mark.parametrize("with_words", [("aspirin", "pain"), ("aspirin",)])
def test_offset_options__find_the_convention_by_the_words(
    unit: str, newlines: str, ends: str, with_words: tuple[str, ...]
) -> None:
    given = [
        Annotation(
            [understood(unit, newlines, ends, word)], "Sign", word if word in with_words else None
        )
        for word in ("aspirin", "pain")
    ]

    placed = OffsetSource().place(WORDS, given)

    assert [WORDS[span.start : span.end] for span in placed.spans] == ["aspirin", "pain"]


@pytest.mark.parametrize(("unit", "newlines", "ends"), CONVENTIONS)
def test_offset_options__are_followed__without_words(unit: Any, newlines: Any, ends: Any) -> None:
    given = [Annotation([understood(unit, newlines, ends, "aspirin")], "Sign")]
    options = OffsetSource(offsets=unit, newlines=newlines, ends=ends)

    (span,) = options.place(WORDS, given).spans

    assert WORDS[span.start : span.end] == "aspirin"


def test_offset_options__guess_nothing_without_words() -> None:
    beyond = Annotation([(0, len(WORDS) + 1)], "Sign")

    assert OffsetSource().place(WORDS, [beyond]).misfits == 1
    assert OffsetSource().place(WORDS, [Annotation([(0, 1)], "Sign")]).spans == (
        Span(0, 1, "Sign"),
    )
