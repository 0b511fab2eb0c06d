"""Circular imports between modules, including imports within functions."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest


def graph_of(package: str) -> dict[str, set[str]]:
    """Return the imports of each module of a package, except those for type checkers."""
    graph = grimp.build_graph(package, cache_dir=None, exclude_type_checking_imports=True)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def circle_in(package: str) -> list[str]:
    """Return the modules of a circular import, or an empty list."""
    try:
        TopologicalSorter(graph_of(package)).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_circle_in__package_has_none() -> None:
    assert len(graph_of("mslm_data")) > 200
    assert circle_in("mslm_data") == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from made.b import x", True),
        ("def late():\n    from made import b", True),
        (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from made.b import x",
            False,
        ),
        ("from made.c import x", False),
    ],
)
def test_circle_in__finds_late_imports(
    text: str, found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "made"
    made.mkdir()
    (made / "__init__.py").touch()
    (made / "a.py").write_text(text)
    (made / "b.py").write_text("from made.a import y")
    (made / "c.py").touch()
    monkeypatch.syspath_prepend(tmp_path)

    assert bool(circle_in("made")) == found
