"""Notes whose lines were joined by commas."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mslm_data.data.document import Document
from mslm_data.segment.clinical import Clinical
from mslm_data.segment.joined import part_lines
from mslm_data.segment.rules import sentence_starts
from mslm_data.segment.wordlists import word_lists
from tests import made
from tests.segment import scoring

VISIT = (
    "SUBJECTIVE:,  This 23-year-old woman presents with a cough.  ‖It began in Oslo, in May.,"
    "‖MEDICATIONS: , Her only medication is loratadine 10 mg p.o. q.d.,‖ALLERGIES: , None known.,"
    "‖OBJECTIVE:,Vitals:  Weight was 130.5 pounds, pressure 124/78.,‖HEENT:  Throat red, dry.,"
    "‖Neck:  Supple.,‖Lungs:  Clear.,‖ASSESSMENT:,  Allergic rhinitis.,‖PLAN:,1.  She will try "
    "cetirizine 10 mg q.d., Nasonex, and saline.,‖2.  Samples b.i.d.,‖3.  Seen with J. Doe, M.D., "
    "Chief of Allergy."
)
OPERATION = (
    "PREOPERATIVE DIAGNOSES: , 1.  Bunion, left foot.,‖2.  Long metatarsal, left foot,‖TITLE OF "
    "OPERATION: ,  1. Osteotomy.,‖2. Screw fixation, 1.5 mm, left foot.,‖ANESTHESIA: , Local, "
    "5,000 units of heparin., ‖The patient tolerated this., ‖He went home, St. Olav's Rd., Oslo."
)
LISTS = (
    "PLAN:,- Rest,‖- Fluids, e.g., tea.,‖• Return in 2 wks.,,‖Thank Dr. [**Name 1**], "
    '‖COMMENT: ,He said "no.",‖Then he left?,‖23 minutes were spent.'
)
CAPITALS = "WELL-APPEARING.,‖Lungs clear.,‖Heart regular.,‖No edema of legs, arms."


@pytest.mark.parametrize("marked", [VISIT, OPERATION, LISTS, CAPITALS])
def test_sentence_starts__of_joined_lines(marked: str) -> None:
    text, starts, _ = scoring.read(marked)

    found = [
        sentence.start for sentence in made.sentences_of(Clinical(), Document(id="d", text=text))
    ]

    assert found == [0, *sorted(starts)]


def test_heads__of_joined_lines_may_be_sentences() -> None:
    text = "PLAN:,Rest.,ALLERGIES: , None."

    assert sentence_starts(text, heads="next") == [0, 12]
    assert sentence_starts(text, heads="own") == [0, 6, 12, 25]


@pytest.mark.parametrize(
    "text",
    [
        "Seen by J. Doe, M.D., Ph.D., and Dr. B.,Jr., on May 3., He left.",
        "Lasix 20 mg q.d., Norvasc 5 mg q.d., aspirin, e.g., 1,000 mg., 3.,5 or 0.,7 a day.",
        "Pain.,Denies fever, chills, etc., Then he left.",
        "Plan: rest, fluids,WBC: 5, and 1. Rest,2. Sleep.",
    ],
)
def test_part_lines__leaves_notes_that_were_not_joined(text: str) -> None:
    assert part_lines(text, word_lists()) == text


texts = st.lists(
    st.sampled_from(
        [",", ",", " ", ".", ":", "PLAN", "Rest", "M.D", "q.d", "1.", "5", "-", "\n", '"', "\x01", "é"]
    ),
    max_size=40,
).map("".join)  # fmt: skip


@given(texts)
def test_part_lines__changes_commas_to_line_ends_and_nothing_else(text: str) -> None:
    parted = part_lines(text, word_lists())

    assert len(parted) == len(text)
    assert all(
        got == given or (given, got) == (",", "\n") for given, got in zip(text, parted, strict=True)
    )


@given(texts)
def test_sentences__hold_every_character_of_joined_lines(text: str) -> None:
    sentences = made.sentences_of(Clinical(), Document(id="d", text=text))

    inside = {place for start, end in sentences for place in range(start, end)}
    assert all(text[place].isspace() for place in set(range(len(text))) - inside)


@pytest.mark.parametrize("unit", [",", ", ", ":,", ".,A", "Rest.,Aa", ",Aa ", ", PLAN: ,", ".,1"])
def test_part_lines__time_grows_with_length_only(unit: str) -> None:
    """A rule that is quadratic in some text would take hours here."""
    text = "PLAN:,Clear.,Rest.,Home " + unit * (200_000 // len(unit))

    assert len(part_lines(text, word_lists())) == len(text)
