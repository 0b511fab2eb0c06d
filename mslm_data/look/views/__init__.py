"""The views of the page: a module each.

A view's module has `TITLE`, `TEMPLATE`, the name of a file in `templates/`, and a function
`context(corpus, state)`, which returns what the template reads besides `corpus`, `state` and
`live`.

What takes long is a job: `job = corpus.jobs.get("overlap", key, function)`. On the live page it may
not be ready, and the template then writes `{% include "wait.html" %}`, which draws its progress and
asks again; a file waits for it.
"""

from __future__ import annotations

import importlib
from typing import Any, Protocol

from mslm_data.look.corpus import Corpus
from mslm_data.look.state import State

VIEWS = ("rows", "strategy", "rates", "corpus", "batches", "take")
"""Names of the modules, in the order of the page."""
FRAGMENTS = (*VIEWS, "counts")
"""Names that a server answers; `counts` is a part of `rows`."""


class View(Protocol):
    """What the module of a view has."""

    TITLE: str
    TEMPLATE: str

    def context(self, corpus: Corpus, state: State) -> dict[str, Any]:
        """Return what the template reads."""
        ...


def load_view(name: str) -> View:
    """Return a view's module by a name of `VIEWS`."""
    view: Any = importlib.import_module(f"{__package__}.{name}")
    return view  # type: ignore[no-any-return]
