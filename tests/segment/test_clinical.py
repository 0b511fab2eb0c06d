from __future__ import annotations

import random
import re
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.document import Document, Part, Placeholder
from mslm_data.segment import SEGMENTERS
from mslm_data.segment.clinical import Clinical
from mslm_data.segment.lines import read_lines
from mslm_data.segment.rules import sentence_starts
from mslm_data.segment.stops import stops
from mslm_data.segment.wordlists import (
    ABBREVIATIONS,
    HEADS,
    JOINERS,
    LETTERED,
    NEVER,
    RARELY,
    SOMETIMES,
    STARTERS,
)
from mslm_data.testing import check_segmenter
from tests import made
from tests.reference import note_lines
from tests.segment import scoring

CLINICAL = {
    ("dev", "next"): (1.0, 1.0, 1.0),
    ("dev", "own"): (1.0, 1.0, 1.0),
    ("held_out", "next"): (0.974, 0.965, 0.969),
    ("held_out", "own"): (0.976, 0.976, 0.976),
}
"""Precision, recall and F1 of sentence starts, as documented in `Clinical`."""

SENTENCIZER = {
    ("dev", "next"): (0.723, 0.628, 0.672),
    ("dev", "own"): (0.723, 0.544, 0.621),
    ("held_out", "next"): (0.73, 0.704, 0.717),
    ("held_out", "own"): (0.73, 0.648, 0.686),
}

FRAGMENTS = (
    "HISTORY:", "FINAL REPORT", "Allergies: PCN", "1.", "2)", "- ", "# ", "•", "Dr.", "b.i.d.", "p.o.", "y.o.", "vs.",
    "0.5", "[**2101-3-4**]", "[**Last Name\n(un) 7**]", "[**", "**]", "J.", "hepatitis C.", "He", "she", "pain.Denies",
    "...", "?", "!", "a.m.", "(", ").", '."', "____", "3", "wks.", "CHF", "\x01", "www.a.Bc", "x" * 50, "NEURO- ",
    "e\u0301.", "腫瘍。",
)  # fmt: skip
GAPS = (
    " ",
    "  ",
    "\n",
    "\n\n",
    "\r\n",
    "\r\n\r\n",
    "\n   ",
    "",
    "\t",
    "\f",
    "\u2028",
    "\u00a0",
    "\x85",
    "\x1c",
    "\r",
    "\v",
)

note_texts = st.lists(
    st.tuples(st.one_of(st.sampled_from(FRAGMENTS), made.some_words), st.sampled_from(GAPS)),
    max_size=30,
).map(lambda pairs: "".join(map("".join, pairs)))
heads = pytest.mark.parametrize("heads", ["next", "own"])


@st.composite
def notes(draw: st.DrawFn) -> Document:
    text = draw(note_texts)
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=6)))
    pairs = [(a, b) for a, b in list(pairwise(cuts))[::2] if text[a:b] == text[a:b].strip()]
    placeholders = tuple(Placeholder(a, b) for a, b in pairs)
    return Document(
        id="d", text=text, placeholders=placeholders, spans=draw(made.flat_spans(text, "X"))
    )


@heads
@pytest.mark.parametrize("part", ["dev", "held_out"])
def test_clinical__has_the_documented_scores(part: str, heads: str) -> None:
    segmenter = Clinical(heads=heads)  # type: ignore[arg-type]
    score = scoring.score(
        part,
        lambda text: [s.start for s in made.sentences_of(segmenter, Document(id="d", text=text))],
        heads=heads,
    )

    assert score == CLINICAL[part, heads]
    if heads == "next":
        name = part.replace("_", "-")
        assert re.search(rf"{name}\s.* {score.f1:.3f} ", str(Clinical.__doc__)), (
            "the docstring states another F1"
        )


@heads
@pytest.mark.parametrize("part", ["dev", "held_out"])
def test_score__sentencizer_has_the_documented_scores(part: str, heads: str) -> None:
    nlp = pytest.importorskip("spacy").blank("en")
    nlp.add_pipe("sentencizer")

    def starts(text: str) -> list[int]:
        return [s.start_char + len(s.text) - len(s.text.lstrip()) for s in nlp(text).sents]

    score = scoring.score(part, starts, heads=heads)

    assert score == SENTENCIZER[part, heads]
    if heads == "next":
        assert re.search(
            rf"{part.replace('_', '-')}\s.* {score.f1:.3f}$", str(Clinical.__doc__), re.MULTILINE
        )


def test_gold__has_nineteen_snippets() -> None:
    parts = {part: scoring.snippets(part) for part in ("dev", "held_out")}

    assert {part: len(found) for part, found in parts.items()} == {"dev": 11, "held_out": 8}
    for snippet in (snippet for found in parts.values() for snippet in found.values()):
        marks = sorted(snippet.starts | snippet.headed)
        assert all(not snippet.text[at].isspace() for at in marks)
        assert 0 not in marks


@heads
@given(document=notes())
def test_sentences__pass_the_checks_and_split_no_placeholder(
    heads: str, document: Document
) -> None:
    segmenter = SEGMENTERS.make("clinical", {"heads": heads})

    check_segmenter(segmenter, [document])

    for sentence in made.sentences_of(segmenter, document):
        for start, end, *_ in document.placeholders:
            assert not start < sentence.start < end


@heads
@given(text=note_texts)
def test_sentence_starts__increase_and_are_no_white_space(heads: str, text: str) -> None:
    starts = sentence_starts(text, heads=heads)  # type: ignore[arg-type]

    assert starts == sorted(set(starts))
    assert all(not text[start].isspace() for start in starts)
    assert starts[:1] == ([len(text) - len(text.lstrip())] if text.strip() else [])
    for found in re.finditer(r"\[\*\*[^\[\]]{0,200}?\*\*\]|(?<!_)___(?!_)", text):
        assert not any(found.start() < start < found.end() for start in starts)


def test_sentence_starts__are_equal_for_blanks_and_placeholders_in_brackets() -> None:
    blank = "Discussed (by phone, with Dr.\n___).\nSeen by ___. ___ denies pain.\n____\nFin."
    named = re.sub("(?<!_)___(?!_)", "[**Name 1**]", blank)

    pieces = [
        [text[start:end] for start, end in pairwise([*sentence_starts(text), len(text)])]
        for text in (blank, named)
    ]

    assert pieces[0] == [piece.replace("[**Name 1**]", "___") for piece in pieces[1]]
    assert pieces[0] == [
        "Discussed (by phone, with Dr.\n___).\n",
        "Seen by ___. ",
        "___ denies pain.\n",
        "____\n",
        "Fin.",
    ]


@given(note_texts)
def test_read_lines__equal_their_twin(text: str) -> None:
    found = read_lines(text, capitals=False)

    got = [(line.start, line.end, line.first, line.blank_before) for line in found]
    assert got == note_lines.lines(text)


@given(note_texts)
def test_stops__equal_their_twin(text: str) -> None:
    assert stops(text) == note_lines.stops(text)


@given(note_texts)
def test_heads__own_only_adds_sentence_starts(text: str) -> None:
    assert set(sentence_starts(text, heads="next")) <= set(sentence_starts(text, heads="own"))


@pytest.mark.parametrize("part", ["dev", "held_out"])
def test_sentences__do_not_depend_on_line_ends(part: str) -> None:
    for text, *_ in scoring.snippets(part).values():
        lines = [sentence_text(text, "\n"), sentence_text(text.replace("\n", "\r\n"), "\r\n")]

        assert lines[0] == lines[1]


def sentence_text(text: str, line_end: str) -> list[str]:
    found = made.sentences_of(Clinical(), Document(id="d", text=text))
    return [text[start:end].replace(line_end, "\n") for start, end in found]


def marked(text: str) -> tuple[str, list[int]]:
    snippet = scoring.read(text)
    return snippet.text, sorted(snippet.starts)


@pytest.mark.parametrize(
    "text",
    [
        "Seen by Dr. Jones. ‖He left.",
        "Given 40 mg p.o. Lasix b.i.d. ‖Then stopped.",
        "A 60 y.o. Hispanic male, 1.5 cm mass vs. cyst.",
        "At 3 p.m. on 4/5. ‖T 98.6. ‖Cr 1.2. ‖On day 3. ‖She improved.",
        "Dr. J. R. Smith has hepatitis C. ‖Labs pending.",
        "Plan: 1. Rest. ‖2. Fluids.",
        "1. Rest\n‖2. Fluids\n‖- salt\n‖• water",
        "Denies pain. ‖sleeping well. ‖? fever.",
        "Pain.‖Denies fever; see www.Example.Org for more.",
        'He said "stop." ‖Then left.',
        "Call Dr. [**Last Name (un)\n45**] today. ‖[**Name 1**] agrees.",
        "Follow up with Dr.\nJones at 3.",
        "Labs etc. were sent to the\nlab.",
        "No. ‖No. 3 is better.",
        "The cough, dull and worse at night, was given a score of 2 out of\n10. ‖Follow up soon.",
        "Film shows a small effusion at the right base and no sign of pneumonia;\nthere is mild edema. ‖Stable.",
        "Hold metoprolol if the systolic pressure falls any below\n95. ‖He is well and was seen by the whole\nteam.",
        "1. rest\n‖2. fluids\n‖7. salt",
        "no matches of [** the first\n\n2. and second **] kind. ‖End.",
    ],
)
def test_sentence_starts__of_difficult_texts(text: str) -> None:
    plain, starts = marked(text)

    assert sentence_starts(plain)[1:] == starts


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("PLAN:\nRest.", [0, 6]),
        ("PLAN:\n\nRest.", [0, 7]),
        ("PLAN\n\nRest.", [0, 6]),
        ("PLAN: rest.", [0]),
        ("PLAN:\nALLERGIES:\nNone.", [0, 6, 17]),
    ],
)
def test_heads__start_the_next_sentence_or_are_a_sentence(text: str, own: list[int]) -> None:
    assert sentence_starts(text, heads="own") == own
    assert sentence_starts(text, heads="next") == (own[:-1] if len(own) > 1 else own)


@pytest.mark.parametrize(
    "unit",
    [". ", ".", "a.Bb", "[**", "\n", "x ", "1. ", "A: ", '."', "! ", "_", "\x01", "\t\n", "a-"],
)
def test_sentence_starts__take_linear_time(unit: str) -> None:
    """Eight times as much text takes at most twenty times as long; a quadratic rule, 64 times."""
    seconds = {}
    for num_characters in (12_500, 100_000):
        text = unit * (num_characters // len(unit))
        runs = []
        for _ in range(3):
            began = time.process_time()
            sentence_starts(text)
            runs.append(time.process_time() - began)
        seconds[num_characters] = min(runs)

    assert seconds[100_000] < 20 * seconds[12_500] + 0.02


def test_word_lists__are_lower_case_and_disjoint() -> None:
    lists = (NEVER, SOMETIMES, RARELY, STARTERS, LETTERED, JOINERS, HEADS)

    for word in frozenset.union(*lists):
        assert word == word.lower().strip()
        assert not word.endswith(".")
    assert len(ABBREVIATIONS) == len(NEVER) + len(SOMETIMES) + len(RARELY)


def test_sentences__split_no_placeholder_of_real_notes(real) -> None:
    from mslm_data.source import SOURCES

    source = SOURCES.make("notes", {})
    documents = [
        record
        for paths in source.find([real / "clinical/notes"]).values()
        for path in paths
        for part in source.cut(Part(str(path)), target_bytes=1 << 30)
        for record in source.read(part)
        if isinstance(record, Document)
    ]
    random.Random(0).shuffle(documents)
    num_sentences = 0
    for document in documents:
        sentences = made.sentences_of(Clinical(), document)
        num_sentences += len(sentences)
        for placeholder in document.placeholders:
            assert not any(
                placeholder.start < sentence.start < placeholder.end for sentence in sentences
            )

    assert 6 * len(documents) < num_sentences < 9 * len(documents)
