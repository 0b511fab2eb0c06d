"""Draw rows as text, with marks or colours around mentions and masked tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mslm_data.draw.marked_rows import Group, TokenRun
from mslm_data.log import plain

Marks = Mapping[str, tuple[str, str]]
"""`mention`, or the class of a kind of mask ("e", "b") -> text before and after."""

BRACKETS: Marks = {"mention": ("", ""), "e": ("[[", "]]"), "b": ("<", ">")}
"""Marks without colours."""

COLOURS: Marks = {
    "mention": ("\x1b[1;36m", "\x1b[0m"),
    "e": ("\x1b[30;41m", "\x1b[0m"),
    "b": ("\x1b[30;43m", "\x1b[0m"),
}
"""Codes of terminals: mentions are cyan, terms on red, other words on yellow."""

LEGEND = (
    Group("", "label", "", runs=[TokenRun("mention", "", differs=False)]),
    Group("   ", None, "", runs=[TokenRun("masked as a term (ELM)", "e", differs=False)]),
    Group("   ", None, "", runs=[TokenRun("masked as another word (BLM)", "b", differs=False)]),
)
"""Groups that explain the marks."""


def as_text(groups: Sequence[Group], marks: Marks) -> str:
    """Return a row as one line, such as `{[[Aspirin]]}Chemical helps <with> pain`.

    Args:
        groups: The row, from `draw_line`. Its control characters are escaped.
        marks: `BRACKETS` or `COLOURS`.
    """
    return "".join(group.before + _group_text(group, marks) for group in groups)


def _group_text(group: Group, marks: Marks) -> str:
    if group.label is None:
        return "".join(_marked(run.text, run.kind, marks) for run in group.runs)

    inside = "".join(_marked(run.text, run.kind or "mention", marks) for run in group.runs)
    flags = f" ({group.flags})" if group.flags else ""
    start = _marked("{", "mention", marks)
    return f"{start}{inside}{_marked(f'}}{group.label}{flags}', 'mention', marks)}"


def _marked(text: str, kind: str, marks: Marks) -> str:
    before, after = marks.get(kind, ("", ""))
    return f"{before}{plain(text)}{after}"
