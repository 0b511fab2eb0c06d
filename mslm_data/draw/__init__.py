"""Draws rows with their mentions and masks, and tables, for pages, notebooks and the manual.

There is one palette and one way to draw a sentence, `sentences.py` with `look/look.css`, so that a
report, a notebook's cell and the manual's gallery show the same thing. What is drawn is HTML that
needs no script and nothing from elsewhere. All of it stands in an element of the class `mslm`.
"""

from __future__ import annotations

import importlib.resources
from functools import cache


@cache
def look() -> str:
    """Return the style sheet of what is drawn here."""
    sheet = importlib.resources.files(__package__).joinpath("look", "look.css")
    return sheet.read_text(encoding="utf-8")


def shown(*parts: str) -> str:
    """Return what a notebook shows of an object: parts in HTML, with the style sheet."""
    return f'<div class="mslm shown"><style>{look()}</style>{"".join(parts)}</div>'
