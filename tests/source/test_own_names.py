"""Only a format's own file knows its name, its suffixes and its class."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest

import mslm_data
from mslm_data.source import SOURCES

ROOT = Path(mslm_data.__file__).parent
TABLE = "source/table.py"
SHAPES = "source/reading/shapes"
"""Formats of rows are shapes, and have the names of the tools that write them."""
WORDS = frozenset({"text", "notes", "offsets", "hub"})
"""Names of sources that are also columns, options or words."""
EXPORTS = frozenset({"conll", "docbin", "jsonl"})
"""Names of formats that are written too."""
SHARED = frozenset(
    {
        ".txt",
        ".text",
        ".tsv",
        ".csv",
        ".tab",
        ".xml",
        ".json",
        ".jsonl",
        ".ndjson",
        ".parquet",
        ".arrow",
    }
)
"""Suffixes of files that several formats have."""
KNOWN = {
    # The default of `about.protected` is decided before any source is imported.
    ("pipeline.py", "i2b2"),
    ("pipeline.py", "omop"),
}
PLAIN_LINES = {"api/annotating.py", "builds/line_sink.py"}
"""`annotate FILE` writes a line for each line, so it asks the source of plain text for its units."""


@functools.cache
def constants(path: Path) -> frozenset[str]:
    """Return the strings of a module, except docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return frozenset(
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
    )


def others() -> list[Path]:
    """Return all modules, except the formats, the shapes of rows and the table."""
    paths = [(path, path.relative_to(ROOT).as_posix()) for path in sorted(ROOT.rglob("*.py"))]
    return [
        path
        for path, name in paths
        if name != TABLE and not name.startswith(("source/formats/", SHAPES))
    ]


@pytest.mark.parametrize("name", [name for name in SOURCES.names() if name not in WORDS | EXPORTS])
def test_only_its_file_knows_the_name_of_a_format(name: str) -> None:
    found = {
        (path.relative_to(ROOT).as_posix(), name) for path in others() if name in constants(path)
    }

    assert found <= KNOWN


def test_only_its_file_knows_the_suffixes_of_a_format() -> None:
    own = {suffix for name in SOURCES.names() for suffix in SOURCES.load(name).suffixes} - SHARED

    found = [(path, suffix) for path in others() for suffix in constants(path) if suffix in own]

    assert {".ann", ".conllu", ".spacy", ".xmi"} <= own
    assert not found


def test_only_the_table_knows_the_class_of_a_format() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for path in others()
        if "mslm_data.source.formats." in path.read_text(encoding="utf-8")
    }

    assert found == PLAIN_LINES
