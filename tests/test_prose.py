"""Unique names, public docstrings, and references in DECISIONS.md."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "mslm_data"

MANY_MODULES = {
    "__init__": "Python's own name",
}
"""Names shared by three or more modules, with the reason.

Modules of `cli/` and `look/views/` are not counted: they are named after their commands and
addresses.
"""


@lru_cache(maxsize=1)
def trees() -> dict[Path, ast.Module]:
    return {
        path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))
    }


@lru_cache(maxsize=1)
def definitions() -> list[tuple[Path, ast.Module | ast.ClassDef | ast.FunctionDef]]:
    """Return all modules, classes and functions, each with its file."""
    return [
        (path, node)
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
    ]


def classes() -> list[tuple[Path, ast.ClassDef]]:
    return [(path, node) for path, node in definitions() if isinstance(node, ast.ClassDef)]


def place(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def is_public(name: str) -> bool:
    return not name.startswith("_")


def documented(node: ast.ClassDef) -> set[str]:
    """Return the methods of a class that have a docstring."""
    return {
        method.name
        for method in node.body
        if isinstance(method, ast.FunctionDef) and ast.get_docstring(method)
    }


# Names ---------------------------------------------------------------------------------------------


def test_public_classes__have_unique_names() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, node in classes():
        if is_public(node.name):
            places[node.name].append(place(path, node.lineno))

    twice = {name: where for name, where in places.items() if len(where) > 1}

    assert not twice, "\n".join(f"{name}: {', '.join(where)}" for name, where in twice.items())


def test_modules__share_no_name_three_times() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in trees():
        if not {PACKAGE / "cli", PACKAGE / "look" / "views"} & set(path.parents):
            places[path.stem].append(str(path.relative_to(ROOT)))

    often = {n: where for n, where in places.items() if len(where) > 2 and n not in MANY_MODULES}

    assert not often, "\n".join(f"{name}: {', '.join(where)}" for name, where in often.items())


def test_public_methods__have_a_docstring_or_override_a_documented_method() -> None:
    inherited = set().union(
        *(
            documented(node)
            for _, node in classes()
            if any(
                isinstance(base, ast.Name) and base.id in ("ABC", "Protocol") for base in node.bases
            )
        )
    )

    silent = [
        f"{place(path, method.lineno)}: {node.name}.{method.name}"
        for path, node in classes()
        if is_public(node.name)
        for method in node.body
        if isinstance(method, ast.FunctionDef)
        and is_public(method.name)
        and method.name not in documented(node) | inherited
    ]

    assert not silent, "\n".join(silent)


# Words ---------------------------------------------------------------------------------------------


def test_docstrings__indent_continued_bullets() -> None:
    """An unindented line would end the list in the manual and in printed strategies."""
    broken = []
    for path, node in definitions():
        for line, following in pairwise((ast.get_docstring(node) or "").splitlines()):
            bullet = re.match(r" *\* ", line)
            if bullet is None:
                continue
            before = following[: bullet.end()].strip()
            if before and not before.startswith("*"):
                broken.append(f"{path.relative_to(ROOT)}: {line.strip()[:60]}")

    assert not broken, "\n".join(broken)


def test_decisions__name_existing_code() -> None:
    """The instructions to undo a decision, `NAME` in `FILE`, become stale when code moves."""
    decisions = (ROOT / "DECISIONS.md").read_text(encoding="utf-8")
    places = re.findall(r"`([\w.]+)`(?: and `[\w.]+`)?\s+in\s+`([\w/.-]+\.\w+)`", decisions)

    gone = []
    for name, file in places:
        path = next((root / file for root in (PACKAGE, ROOT) if (root / file).is_file()), None)
        if path is None or name.rpartition(".")[2] not in path.read_text(encoding="utf-8"):
            gone.append(f"{name} in {file}")

    assert len(places) > 5
    assert not gone, "\n".join(gone)
