"""Draw rows with mentions and masks, tables and charts, for pages, notebooks and the manual.

All of them share a palette, `look/look.css`, and the templates in `templates/`. The output is HTML
without scripts, inline styles or external resources, in an element of class `mslm`. Templates
escape all text, so callers pass plain strings.
"""

from __future__ import annotations

import importlib.resources
from functools import cache
from typing import Any


@cache
def style_sheet() -> str:
    """Return the style sheet of all drawings."""
    sheet = importlib.resources.files(__package__).joinpath("look", "look.css")
    return sheet.read_text(encoding="utf-8")


def macros(template: str) -> Any:
    """Return the macros of a template as functions that return HTML: `macros("parts.html")`.

    jinja2 is imported on the first call, because most programs draw nothing.
    """
    from mslm_data.draw.environment import environment

    return environment().get_template(template).module


def notebook_html(*parts: str) -> str:
    """Return the HTML of an object in a notebook: the style sheet, then the parts."""
    return f'<div class="mslm shown"><style>{style_sheet()}</style>{"".join(parts)}</div>'
