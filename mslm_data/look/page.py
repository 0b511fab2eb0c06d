"""Draws the page as one file without scripts or external resources."""

from __future__ import annotations

from mslm_data._version import __version__
from mslm_data.look.corpus import Corpus
from mslm_data.look.render import render, render_view, style, style_hash
from mslm_data.look.state import State
from mslm_data.look.views import VIEWS, load_view

ROWS = 100
"""Default number of rows in a file."""


def draw_page(corpus: Corpus, state: State, *, rows: int = ROWS) -> str:
    """Return the page. Equal input gives equal bytes.

    Args:
        corpus: The folder.
        state: Split, strategies and filters.
        rows: Maximum number of rows.
    """
    views = [
        {
            "name": name,
            "title": load_view(name).TITLE,
            "html": render_view(
                name, corpus, state, live=False, **({"count": rows} if name == "rows" else {})
            )[0],
        }
        for name in VIEWS
    ]
    names = ", ".join(choice.name for choice in state.strategies)
    return render(
        "page.html",
        title=f"{corpus.shards.manifest.name} under {names}",
        state=state,
        views=views,
        style=style(),
        style_hash=style_hash(),
        version=__version__,
    )
