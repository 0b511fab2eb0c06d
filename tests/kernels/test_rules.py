"""The rules of CONTRIBUTING for kernels, checked in every file."""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from pathlib import Path

from mslm_data import kernels

FILES = sorted(
    path for path in Path(kernels.__file__).parent.glob("*.py") if not path.stem.startswith("_")
)
NUMBERS = {"None", "int", "bool", "float", "np.int64", "np.uint64", "tuple[int, int]"}


def kernels_of(path: Path) -> list[ast.FunctionDef]:
    tree = ast.parse(path.read_text())
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


def test_kernels__use_only_numpy_and_other_kernels() -> None:
    assert len(FILES) > 20
    for path in FILES:
        imported = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                imported.add(node.module)
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
        own = {name for name in imported if name.startswith("mslm_data.kernels.")}

        assert imported - own <= {"__future__", "numpy", "typing"}, path.name
        assert "np.random" not in path.read_text(), path.name


def test_kernels__return_nothing_or_numbers() -> None:
    functions = [node for path in FILES for node in kernels_of(path)]

    returned = {ast.unparse(node.returns) for node in functions if node.returns is not None}

    assert {"None", "int"} < returned <= NUMBERS


def test_kernels__every_function_is_compiled_and_explained() -> None:
    functions = [(path, node) for path in FILES for node in kernels_of(path)]

    assert len(functions) > 80
    for path, node in functions:
        module = import_module(f"mslm_data.kernels.{path.stem}")
        arrays = [
            argument.arg
            for argument in node.args.args
            if ast.unparse(argument.annotation).startswith("Array")
        ]
        (decorator,) = node.decorator_list
        assert ast.unparse(decorator) in ("kernel", "inlined"), node.name
        doc = inspect.getdoc(getattr(module, node.name)) or ""
        explained = all(f"{name}: " in doc for name in arrays)
        assert explained or len(node.args.args) <= 3, f"{node.name}: expected a line for each array"
