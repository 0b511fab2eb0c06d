"""Generate the sidebar from lists of links.

On the pages in `LISTED`, list items that begin with a link become entries of the sidebar, under the
heading of the list.
"""

from __future__ import annotations

import re

from sphinx.application import Sphinx

LISTED = ("index", "speed")
"""Pages with the lists of links."""

_ITEM = re.compile(r"^\* \[[^\]]*\]\(([\w./-]+)\.md\)", re.MULTILINE)
_SECTION = re.compile(r"^## (.+)\n", re.MULTILINE)


def rewrite_page(app: Sphinx, name: str, source: list[str]) -> None:  # noqa: ARG001
    """Add a hidden toctree after each list of links (a `source-read` handler)."""
    if name in LISTED:
        source[0] = with_navigation(source[0])


def with_navigation(markdown: str) -> str:
    """Return Markdown with a hidden toctree after each list of links to pages."""
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
