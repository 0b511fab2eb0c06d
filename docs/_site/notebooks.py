"""Runs the notebooks of `docs/notebooks`, and writes a page of each with what it showed.

Cells run in this process, which has imported already what they need, so that a notebook takes
seconds. A notebook uses nothing of Jupyter but `_repr_html_`, and shows the same there.
"""

from __future__ import annotations

import ast
import contextlib
import html
import io
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from _site.links import ROOT

FOLDER = ROOT / "docs" / "notebooks"


def pages() -> dict[str, str]:
    """Return page -> its text, for each notebook."""
    return {
        f"reference/notebook-{path.stem.replace('_', '-')}": page(path)
        for path in sorted(FOLDER.glob("*.ipynb"))
    }


def page(notebook: Path) -> str:
    """Run a notebook in an empty folder, and return its page.

    Raises:
        RuntimeError: A cell failed; its number is named.
    """
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {"__name__": "__main__"}
    lines: list[str] = []
    with _elsewhere():
        for number, cell in enumerate(cells, 1):
            source = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                lines += [source, ""]
                continue
            try:
                said, value = ran(source, names)
            except Exception as error:
                raise RuntimeError(f"{notebook.name}: cell {number}: {error!r}") from error
            lines += ["```python", source, "```", "", *_shown(said, value)]

    lines += [
        f"Download it: {{download}}`{notebook.name} <../notebooks/{notebook.name}>`.",
        "What it shows here was made with this page.",
        "",
    ]
    return "\n".join(lines)


def ran(source: str, names: dict[str, Any]) -> tuple[str, Any]:
    """Run a cell; return what it printed, and the value of its last line if that is an expression.

    Args:
        source: Python.
        names: What earlier cells have defined; it is added to.
    """
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)  # noqa: S102 - the manual's own code
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307
    return printed.getvalue(), value


def _shown(said: str, value: Any) -> list[str]:
    """Return what a notebook would show below a cell."""
    lines = []
    if said:
        lines += ["```text", said.rstrip("\n"), "```", ""]
    if value is None:
        return lines

    draw = getattr(value, "_repr_html_", None)
    drawn = draw() if draw is not None else f"<pre>{html.escape(repr(value))}</pre>"
    return [*lines, "```{raw} html", f'<div class="shown">{drawn}</div>', "```", ""]


@contextlib.contextmanager
def _elsewhere() -> Iterator[None]:
    """Work in an empty folder, with one thread, as small tensors take longer with several."""
    before = os.getcwd()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)
            torch.set_num_threads(threads)
