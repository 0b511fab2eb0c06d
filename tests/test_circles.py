"""Circular imports between modules, including imports within functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import mslm_data

PACKAGE = Path(mslm_data.__file__).parent


def module_of(path: Path, root: Path) -> str:
    """Return the dotted name of a file. The root is the folder that contains the package."""
    name = ".".join(path.relative_to(root).with_suffix("").parts)
    return name.removesuffix(".__init__")


def imports_of(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield `(module, name)` of each `from module import name` in a file.

    Imports for type checkers are skipped, as they never run.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                yield from imports_of(other)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)
        else:
            yield from imports_of(node)


def graph_of(package: Path) -> dict[str, set[str]]:
    """Return the imports of each module of a package."""
    files = {module_of(path, package.parent): path for path in package.rglob("*.py")}
    graph: dict[str, set[str]] = {}
    for module, path in files.items():
        found = imports_of(ast.parse(path.read_text(encoding="utf-8")))
        names = {f"{of}.{name}" if f"{of}.{name}" in files else of for of, name in found}
        graph[module] = (names & set(files)) - {module}
    return graph


def circle_in(package: Path) -> list[str]:
    """Return the modules of a circular import, or an empty list."""
    try:
        TopologicalSorter(graph_of(package)).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_circle_in__package_has_none() -> None:
    assert len(graph_of(PACKAGE)) > 200
    assert circle_in(PACKAGE) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from made.b import x", True),
        ("def late():\n    from made import b", True),
        ("if TYPE_CHECKING:\n    from made.b import x", False),
        ("from made.c import x", False),
    ],
)
def test_circle_in__finds_late_imports(text: str, found: bool, tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    (made / "__init__.py").touch()
    (made / "a.py").write_text(text)
    (made / "b.py").write_text("from made.a import y")
    (made / "c.py").touch()

    assert bool(circle_in(made)) == found
