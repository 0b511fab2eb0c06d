"""Draws the page as one file without scripts or external resources."""

from __future__ import annotations

from mslm_data._version import __version__
from mslm_data.look.corpus import Corpus
from mslm_data.look.options import to_text
from mslm_data.look.render import render, render_view, style, style_hash
from mslm_data.look.state import State
from mslm_data.look.views import VIEWS, load_view

ROWS = 100
"""Default number of rows in a file."""


def draw_page(corpus: Corpus, state: State, *, rows: int = ROWS) -> str:
    """Return the page. Equal input gives equal bytes.

    The view of the state is first. Rows, the longest view, are last.

    Args:
        corpus: The folder.
        state: View, split, strategies and filters.
        rows: Maximum number of rows.

    Raises:
        MslmDataError: A strategy or an option is unknown, or a file is missing.
        ValueError: A value of a strategy is invalid.
    """
    for choice in state.strategies:
        corpus.make(choice)

    views = [
        {
            "name": name,
            "title": load_view(name).TITLE,
            "html": render_view(
                name, corpus, state, live=False, **({"count": rows} if name == "rows" else {})
            )[0],
        }
        for name in _order(state.view)
    ]
    names = ", ".join(choice.name for choice in state.strategies)
    return render(
        "page.html",
        title=f"{corpus.shards.manifest.name} under {names}",
        corpus=corpus,
        state=state,
        strategies=_options(corpus, state),
        views=views,
        style=style(),
        style_hash=style_hash(),
        version=__version__,
    )


def _order(first: str) -> list[str]:
    """Return the names of the views in the order of the file."""
    return sorted(VIEWS, key=lambda name: (name == "rows", name != first))


def _options(corpus: Corpus, state: State) -> dict[str, str]:
    """Return the name of each strategy -> its options as text, also those at their defaults."""
    listed = {}
    for made in corpus.strategies(state.strategies):
        origin = made.strategy.origin
        options = {} if origin is None else origin.options
        texts = {option: to_text(value) for option, value in options.items()}
        listed[made.name] = ", ".join(f"{option} {text}" for option, text in texts.items() if text)
    return listed
