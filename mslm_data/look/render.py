"""Renders the views."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
from functools import cache
from typing import Any

from markupsafe import Markup, escape

from mslm_data.draw import style_sheet
from mslm_data.draw.environment import environment
from mslm_data.log import plain
from mslm_data.look.corpus import Corpus
from mslm_data.look.state import State
from mslm_data.look.views import load_view


def render(template: str, **context: Any) -> Markup:
    """Render a template of the page."""
    templates = environment("mslm_data.look")
    templates.filters["code"] = mark_code
    return Markup(templates.get_template(template).render(**context))  # noqa: S704


def mark_code(text: str) -> Markup:
    """Escape a text, and set what stands between backticks as code."""
    text = plain(text, keep="\n\t")
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a backtick without its other
        return escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else part
        for place, part in enumerate(parts)
    )


def render_view(
    name: str, corpus: Corpus, state: State, *, live: bool, **options: Any
) -> tuple[Markup, State]:
    """Render a view.

    Args:
        name: A name in `VIEWS`.
        corpus: The folder.
        state: The requested state.
        live: Add links and forms for a server.
        **options: Further arguments of the view's `context`.

    Returns:
        HTML, and the state on display: the first row may differ from the requested one.
    """
    view = load_view(name)
    context = view.context(corpus, state, **options)
    shown: State = context.get("state", state)
    context = {"corpus": corpus, "live": live, **context, "state": shown}
    return render(view.TEMPLATE, **context), shown


@cache
def style() -> Markup:
    """Return the style sheet."""
    sheet = importlib.resources.files(__package__).joinpath("static", "page.css")
    return Markup(style_sheet() + sheet.read_text(encoding="utf-8"))  # noqa: S704


def style_hash() -> str:
    """Return the digest of the style sheet, the only one that the file's policy allows."""
    digest = hashlib.sha256(style().encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
