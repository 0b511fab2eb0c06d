"""Makes the navigation from the lists of links on a page, so that a page is named once.

On the pages in `LISTED`, links that begin an item of a list below a heading are pages of the
sidebar, under that heading.
"""

from __future__ import annotations

import re

from sphinx.application import Sphinx

LISTED = ("index", "speed")
"""Pages whose lists of links make the navigation."""

_ITEM = re.compile(r"^\* \[[^\]]*\]\(([\w./-]+)\.md\)", re.MULTILINE)
_SECTION = re.compile(r"^## (.+)\n", re.MULTILINE)


def of_page(app: Sphinx, name: str, source: list[str]) -> None:  # noqa: ARG001
    """Add the pages that a list of links names to the sidebar."""
    if name in LISTED:
        source[0] = with_navigation(source[0])


def with_navigation(markdown: str) -> str:
    """Return Markdown with a hidden table of contents behind each list of links to pages."""
    before, *sections = _SECTION.split(markdown)
    parts = [before]
    for heading, text in zip(sections[::2], sections[1::2], strict=True):
        parts.append(f"## {heading}\n{text}")
        pages = _ITEM.findall(text)
        if pages:
            options = [f":caption: {heading}", ":hidden:", ":maxdepth: 1"]
            lines = ["```{toctree}", *options, "", *pages, "```"]
            parts.append("\n".join(["", *lines, "", ""]))
    return "".join(parts)
