"""The views of the page, one module each.

A view has a `TITLE`, a `TEMPLATE` in `templates/`, and a function `context(corpus, state)`, which
returns the template's variables besides `corpus`, `state` and `live`.

Long computations are jobs: `job = corpus.background.get("overlap", key, function)`. On the live
page a job may be unfinished. The template then includes `wait.html`, which shows the progress and
requests the view again. A file waits for all jobs.
"""

from __future__ import annotations

import importlib
from typing import Any, Protocol

from mslm_data.look.corpus import Corpus
from mslm_data.look.state import State

VIEWS = ("rows", "strategy", "rates", "corpus", "take")
"""Names of the modules, in the order of the page."""


class View(Protocol):
    """Members of a view's module."""

    TITLE: str
    TEMPLATE: str

    def context(self, corpus: Corpus, state: State) -> dict[str, Any]:
        """Return the variables of the template."""
        ...


def load_view(name: str) -> View:
    """Import a view's module by its name."""
    view: Any = importlib.import_module(f"{__package__}.{name}")
    return view  # type: ignore[no-any-return]
