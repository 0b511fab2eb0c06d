"""Imports of optional packages with `_optional.load`, which sets quiet defaults."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import mslm_data
from mslm_data._optional import _EXTRA_OF

PACKAGE = Path(mslm_data.__file__).parent


def optional_imports(tree: ast.AST) -> dict[str, int]:
    """Return the imported optional packages with their line numbers.

    Statements under `if TYPE_CHECKING:` are skipped, as they never run.
    """
    found: dict[str, int] = {}
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            if name.partition(".")[0] in _EXTRA_OF:
                found[name.partition(".")[0]] = node.lineno
        found |= optional_imports(node)
    return found


def test_load__precedes_each_import_outside_torch() -> None:
    may_import = re.compile(rf"^\s*(?:import|from) .*\b(?:{'|'.join(_EXTRA_OF)})\b", re.MULTILINE)
    imports = [
        (path, package, line)
        for path in sorted(PACKAGE.rglob("*.py"))
        if PACKAGE / "torch" not in path.parents and may_import.search(path.read_text("utf-8"))
        for package, line in optional_imports(ast.parse(path.read_text("utf-8"))).items()
    ]

    not_loaded = [
        f"{path.relative_to(PACKAGE)}:{line}: load {package} by _optional.load"
        for path, package, line in imports
        if f'load("{package}"' not in path.read_text("utf-8")
    ]

    assert imports
    assert not_loaded == []


def test_optional_imports__finds_late_imports() -> None:
    code = "def f():\n    import spacy\nif TYPE_CHECKING:\n    import torch\nimport numpy"

    assert optional_imports(ast.parse(code)) == {"spacy": 2}
