from __future__ import annotations

from mslm_data.draw.marked_rows import Group, TokenRun
from mslm_data.draw.text_rows import BRACKETS, COLOURS, LEGEND, as_text

ROW = [
    Group(
        "", "Chemical", "negated", runs=[TokenRun("As", "e", False), TokenRun("pirin", "", False)]
    ),
    Group(" ", None, "", runs=[TokenRun("hel\x1bps", "", False), TokenRun(" no", "b", False)]),
]


def test_as_text__marks_mentions_and_masks_and_escapes_the_text() -> None:
    assert as_text(ROW, BRACKETS) == r"{[[As]]pirin}Chemical (negated) hel\u001bps< no>"


def test_as_text__colours_end_where_they_begin() -> None:
    line = as_text(ROW, COLOURS)

    assert line.count("\x1b[0m") == line.count("\x1b[") - line.count("\x1b[0m")
    assert "\x1b[30;41mAs\x1b[0m\x1b[1;36mpirin\x1b[0m" in line
    assert "[[" not in as_text(LEGEND, COLOURS)
