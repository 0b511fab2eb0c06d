"""Notes with lines joined by commas."""

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
    "SUBJECTIVE:,  Mr. Made comes back with a cough of 3 weeks.  ‖It began in Oslo, in May.,"
    "‖MEDICATIONS: , He takes only metformin 500 mg p.o. b.i.d.,‖ALLERGIES: , None known.,"
    "‖OBJECTIVE:,Vitals:  Weight 80.5 kg, pressure 130/85.,‖EARS:  Not seen, for wax.,"
    "‖Chest:  Some wheezes, left.,‖Heart:  Regular.,‖ASSESSMENT:,  Bronchitis.,‖PLAN:,1.  Steam, "
    "codeine 30 mg q.h.s., Mucinex, and rest.,‖2.  Film t.i.d.,‖3.  Seen with J. Doe, M.D., "
    "Chief of Service."
)
OPERATION = (
    "DIAGNOSES: , 1.  Cyst, left hand.,‖2.  Scar, right elbow,‖TITLE OF "
    "OPERATION: ,  1. Excision.,‖2. Suture, 1.5 mm, left hand.,‖ANESTHESIA: , Local, "
    "5,000 units of heparin., ‖The hand was washed., ‖He went home, St. Olav's Rd., Oslo."
)
LISTS = (
    "PLAN:,- Rest,‖- Fluids, e.g., tea.,‖• Return in 2 wks.,,‖Thank Dr. [**Name 1**], "
    '‖COMMENT: ,He said "no.",‖Then he left?,‖23 minutes were spent.'
)
ITEMS = "1.  The heart is large.,‖2.  The valves are thin.,‖3.  Flow of 34, 19 mm."
CAPITALS = "WELL-APPEARING.,‖Lungs clear.,‖Heart regular.,‖No edema of legs, arms."


@pytest.mark.parametrize("marked", [VISIT, OPERATION, LISTS, ITEMS, CAPITALS])
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
def test_part_lines__leaves_other_notes_unchanged(text: str) -> None:
    assert part_lines(text, word_lists()) == text


texts = st.lists(
    st.sampled_from(
        [",", ",", " ", ".", ":", "PLAN", "Rest", "M.D", "q.d", "1.", "5", "-", "\n", '"', "\x01", "é"]
    ),
    max_size=40,
).map("".join)  # fmt: skip


@given(texts)
def test_part_lines__only_replaces_commas_by_line_ends(text: str) -> None:
    parted = part_lines(text, word_lists())

    assert len(parted) == len(text)
    assert all(
        got == given or (given, got) == (",", "\n") for given, got in zip(text, parted, strict=True)
    )


@given(texts)
def test_sentences__contain_every_character_of_joined_lines(text: str) -> None:
    sentences = made.sentences_of(Clinical(), Document(id="d", text=text))

    inside = {place for start, end in sentences for place in range(start, end)}
    assert all(text[place].isspace() for place in set(range(len(text))) - inside)


@pytest.mark.parametrize("unit", [",", ", ", ":,", ".,A", "Rest.,Aa", ",Aa ", ", PLAN: ,", ".,1"])
def test_part_lines__takes_linear_time(unit: str) -> None:
    """A quadratic rule would take hours on some of these texts."""
    text = "PLAN:,Clear.,Rest.,Home " + unit * (200_000 // len(unit))

    assert len(part_lines(text, word_lists())) == len(text)
