"""Draws rows with their mentions and masks, tables and charts, for pages, notebooks and the manual.

There is one palette, `look/look.css`, and one set of templates, `templates/`, so that the page of
`mslm-data look`, a notebook's cell and the manual's gallery show the same thing. What is drawn is
HTML that needs no script, no style in an element, and nothing from elsewhere. All of it stands in
an element of the class `mslm`. Templates escape every text, so callers pass plain strings.
"""

from __future__ import annotations

import importlib.resources
from functools import cache
from typing import Any


@cache
def style_sheet() -> str:
    """Return the style sheet of what is drawn here."""
    sheet = importlib.resources.files(__package__).joinpath("look", "look.css")
    return sheet.read_text(encoding="utf-8")


def macros(template: str) -> Any:
    """Return the macros of a template here, as functions that return HTML: `macros("parts.html")`.

    jinja2 is imported when something is drawn, as most programs draw nothing.
    """
    from mslm_data.draw.environment import environment

    return environment().get_template(template).module


def notebook_html(*parts: str) -> str:
    """Return what a notebook shows of an object: parts in HTML, with the style sheet."""
    return f'<div class="mslm shown"><style>{style_sheet()}</style>{"".join(parts)}</div>'
