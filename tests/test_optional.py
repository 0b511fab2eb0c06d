"""Optional packages come in by `_optional.load`, which says what to install and keeps them quiet."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import mslm_data
from mslm_data._optional import _EXTRA_OF

PACKAGE = Path(mslm_data.__file__).parent


def optional_imports(tree: ast.AST) -> dict[str, int]:
    """Return the optional packages that are imported by a statement, each with its line.

    Statements under `if TYPE_CHECKING:` never run, so they are left out.
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


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(PACKAGE.rglob("*.py")) if PACKAGE / "torch" not in path.parents],
    ids=lambda path: str(path.relative_to(PACKAGE)),
)
def test_optional__outside_torch_is_loaded_before_it_is_imported(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    for package, line in optional_imports(ast.parse(text)).items():
        assert f'load("{package}"' in text, f"{path.name}:{line}: load {package} by _optional.load"


def test_optional_imports__sees_late_ones() -> None:
    code = "def f():\n    import spacy\nif TYPE_CHECKING:\n    import torch\nimport numpy"

    assert optional_imports(ast.parse(code)) == {"spacy": 2}
