"""Generate the page on citation from `CITATION.cff`."""

from __future__ import annotations

from typing import Any

import yaml

from _site.links import ROOT

_ENTRY = {"software": "software", "conference-paper": "inproceedings"}
"""Type of a work in the Citation File Format -> type of its BibTeX entry."""

_PAGE = """\
# How to cite

Cite the package with the version that you used: `mslm-data --version` prints it, and the
`manifest.json` of each built folder keeps it. Cite the paper too if you use `joint` masking, its
weighted losses, or its heads.

```bibtex
{entries}
```

Cite the source of your strategy too, which is in [the gallery](strategies.md), and the source of
your corpus, which is in the output of `mslm-data recipes NAME` and in the `README.md` of the shard
folder.

`CITATION.cff` has the same entries in the Citation File Format.
"""


def page() -> str:
    """Render the page."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    (paper,) = cited["references"]
    entries = bibtex("mslm-data", cited), bibtex("abaho-2024-mslm", paper)
    return _PAGE.format(entries="\n\n".join(entries))


def bibtex(key: str, work: dict[str, Any]) -> str:
    """Return a BibTeX entry.

    Args:
        key: Citation key.
        work: A work in the Citation File Format.
    """
    fields = {
        "title": f"{{{work['title']}}}",
        "author": " and ".join(map(_author, work["authors"])),
        "booktitle": work.get("collection-title"),
        "version": work.get("version"),
        "year": work.get("year") or str(work.get("date-released", ""))[:4],
        "doi": work.get("doi"),
        "url": work.get("url"),
    }
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
    return "\n".join([f"@{_ENTRY[work['type']]}{{{key},", *lines, "}"])


def _author(author: dict[str, str]) -> str:
    """Return a person as `Family, Given`, or an organisation in braces, for BibTeX."""
    if "name" in author:
        return f"{{{author['name']}}}"
    return f"{author['family-names']}, {author['given-names']}"
