"""Lets links between files of the project lead to pages of the manual.

Pages are read where the code is, too, so their links name files, some of which the manual shows
under another name.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]

SHOWN = {
    "GLOSSARY.md": "reference/glossary",
    "CHANGELOG.md": "reference/changelog",
    "SECURITY.md": "reference/security",
    "CONTRIBUTING.md": "reference/contributing",
    "DECISIONS.md": "reference/decisions",
    "mslm_data/shard/FORMAT.md": "reference/format",
    "experiments/README.md": "reference/experiments",
}
"""A file of the project -> the page that has its text."""
_OTHERS = {
    "README.md": "index",
    "examples": "reference/programs",
}
"""A file or folder -> the page that shows what is in it."""

_IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)\s:]+)\)")
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def of_page(app: Sphinx, name: str, source: list[str]) -> None:  # noqa: ARG001
    """Let the links of a page in `docs/` lead to pages."""
    if not name.startswith("reference/"):
        source[0] = led(source[0], folder=Path("docs", name).parent, page=name)


def led(markdown: str, *, folder: Path, page: str) -> str:
    """Return Markdown whose links lead to pages, and whose images are found.

    Args:
        markdown: The text of a file.
        folder: The file's folder within the project.
        page: The page that shows it.
    """

    def lead(link: re.Match[str]) -> str:
        words, target, place = link[1], link[2], link[3] or ""
        if ":" in target:
            return link[0]

        file = Path(os.path.normpath(folder / target)).as_posix()
        shown = SHOWN.get(file) or _OTHERS.get(file)
        if shown is None and file.startswith("docs/") and file.endswith(".md"):
            shown = file.removeprefix("docs/").removesuffix(".md")
        if shown is not None:
            way = os.path.relpath(f"{shown}.md", Path(page).parent)
            return f"[{words}]({way}{place})"

        # Programs can be downloaded; a folder cannot be shown.
        if (ROOT / file).is_file() and not file.endswith(".md"):
            way = os.path.relpath(ROOT / file, (ROOT / "docs" / page).parent)
            return f"[{words}]({way})"
        return words

    def show(image: re.Match[str]) -> str:
        file = ROOT / os.path.normpath(folder / image[2])
        return f"![{image[1]}]({os.path.relpath(file, (ROOT / 'docs' / page).parent)})"

    return _IMAGE.sub(show, _LINK.sub(lead, markdown))
