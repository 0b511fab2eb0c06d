"""Inspect pages in a headless Chromium, if one is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.driver import CHROMIUM, browser

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")


def seen_on(folder: Path, pages: Sequence[str], *, look: str, width: int) -> Mapping[str, Any]:
    """Run JavaScript on pages, and return page -> result.

    Args:
        folder: Folder of the pages.
        pages: Paths in the folder.
        look: Body of a JavaScript function.
        width: Width of the window in pixels, in which a scroll bar takes no space.
    """
    seen = {}
    with browser(folder.parent / "chromium") as tab:
        for page in pages:
            tab.leave()  # so that `open` does not take the last page for this one
            tab.open(f"{folder.as_uri()}/{page}", width=width)
            tab.wait_for("true")
            seen[page] = tab.run(f"(() => {{{look}}})()")
    return seen
