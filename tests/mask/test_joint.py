from __future__ import annotations

import re
import sys
from pathlib import Path

import mslm_data as md
from tests.generate import fixed_examples, row_of
from tests.reference import joint as twins


def test_joint_released__pieces_of_a_first_word_stand_alone():
    """`hem ##och ##rom ##ato ##sis` is five units. With two more words, the mention is three units and two words."""
    row = row_of([5, 2, 3, 1], [(0, 1), (1, 3)])

    assert twins.released_pieces(row) == [
        (1, 2, 0),
        (2, 3, 0),
        (3, 4, 0),
        (4, 5, 0),
        (5, 6, 0),
        (6, 7, 0),
        (7, 11, 0),
    ]


def test_one_row__page_names_the_files_that_run():
    examples = fixed_examples()
    strategy = md.strategy("joint")
    files = set()

    def see(frame, event, _):
        if event == "call" and frame.f_code.co_name != "<module>":
            files.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        strategy.corrupt(examples, strategy.plan(examples))
    finally:
        sys.setprofile(before)

    room = Path(md.__file__).parent / "mask"
    ran = {path.relative_to(room.parent).as_posix() for path in room.glob("*.py")}
    ran = {name for name in ran if str(room.parent / name) in files}
    page = (Path(__file__).parents[2] / "docs" / "one_row.md").read_text("utf-8")
    assert set(re.findall(r"`(mask/\w+\.py)`", page)) == ran
