"""Rewrite links to files of the project as links to pages of the manual.

Markdown files are also read in the repository, so their links are paths of files. Some files are
pages of another name in the manual.
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
    "tools/requirements/README.md": "reference/compatibility",
}
"""File of the project -> page with its text."""
_OTHERS = {
    "README.md": "index",
    "examples": "reference/programs",
}
"""File or folder -> page with its contents."""

_IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)\s:]+)\)")
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def rewrite_page(app: Sphinx, name: str, source: list[str]) -> None:  # noqa: ARG001
    """Rewrite the links of a page in `docs/` (a `source-read` handler)."""
    if not name.startswith("reference/"):
        source[0] = resolve_links(source[0], folder=Path("docs", name).parent, page=name)


def resolve_links(markdown: str, *, folder: Path, page: str) -> str:
    """Rewrite the links and image paths of a Markdown file.

    Args:
        markdown: Text of the file.
        folder: Folder of the file, relative to the project.
        page: Name of the page with this text.
    """

    def resolve_link(link: re.Match[str]) -> str:
        words, target, place = link[1], link[2], link[3] or ""
        if ":" in target:
            return link[0]

        file = Path(os.path.normpath(folder / target)).as_posix()
        target_page = SHOWN.get(file) or _OTHERS.get(file)
        if target_page is None and file.startswith("docs/") and file.endswith(".md"):
            target_page = file.removeprefix("docs/").removesuffix(".md")
        if target_page is not None:
            relative = os.path.relpath(f"{target_page}.md", Path(page).parent)
            return f"[{words}]({relative}{place})"

        # Other files can be downloaded. Links to folders become plain text.
        if (ROOT / file).is_file() and not file.endswith(".md"):
            relative = os.path.relpath(ROOT / file, (ROOT / "docs" / page).parent)
            return f"[{words}]({relative})"
        return words

    def resolve_image(image: re.Match[str]) -> str:
        file = ROOT / os.path.normpath(folder / image[2])
        return f"![{image[1]}]({os.path.relpath(file, (ROOT / 'docs' / page).parent)})"

    return _IMAGE.sub(resolve_image, _LINK.sub(resolve_link, markdown))
