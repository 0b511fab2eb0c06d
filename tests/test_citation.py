"""CITATION.cff: valid, and for this version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mslm_data

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parent.parent
REQUIRED = {"cff-version", "message", "title", "authors"}
OF_REFERENCES = {"type", "title", "authors"}
ALLOWED = REQUIRED | {
    "abstract",
    "commit",
    "contact",
    "date-released",
    "doi",
    "identifiers",
    "keywords",
    "license",
    "license-url",
    "preferred-citation",
    "references",
    "repository",
    "repository-artifact",
    "repository-code",
    "type",
    "url",
    "version",
}
"""The keys of schema 1.2.0, which rejects others."""


@pytest.fixture(scope="module")
def citation() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def test_citation__keys_follow_the_schema(citation: dict[str, Any]) -> None:
    assert citation["cff-version"] == "1.2.0"
    assert set(citation) >= REQUIRED
    assert set(citation) <= ALLOWED
    for reference in citation["references"]:
        assert set(reference) >= OF_REFERENCES


def test_citation__authors_are_groups_or_have_both_names(citation: dict[str, Any]) -> None:
    for work in (citation, *citation["references"]):
        assert work["authors"]
        for author in work["authors"]:
            assert set(author) in ({"name"}, {"family-names", "given-names"})


def test_citation__has_this_version_and_licence(citation: dict[str, Any]) -> None:
    assert citation["version"] == mslm_data.__version__
    assert citation["license"] == "Apache-2.0"
    assert citation["title"] == "mslm-data"
