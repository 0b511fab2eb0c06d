"""Run the notebooks of `docs/notebooks`, and generate a page of each with its outputs.

Cells run in this process, which has already imported their packages, so a notebook takes seconds.
Notebooks rely only on `_repr_html_`, so Jupyter shows the same.
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
    """Return page -> text, for all notebooks."""
    return {
        f"reference/notebook-{path.stem.replace('_', '-')}": page(path)
        for path in sorted(FOLDER.glob("*.ipynb"))
    }


def page(notebook: Path) -> str:
    """Run a notebook in an empty folder, and render its page.

    Raises:
        RuntimeError: A cell fails; the message has its number.
    """
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {"__name__": "__main__"}
    lines: list[str] = []
    with _scratch_folder():
        for number, cell in enumerate(cells, 1):
            source = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                lines += [source, ""]
                continue
            try:
                output, value = run_cell(source, names)
            except Exception as error:
                raise RuntimeError(f"{notebook.name}: cell {number}: {error!r}") from error
            lines += ["```python", source, "```", "", *_render_output(output, value)]

    lines += [
        f"Download it: {{download}}`{notebook.name} <../notebooks/{notebook.name}>`.",
        "What it shows here was made with this page.",
        "",
    ]
    return "\n".join(lines)


def run_cell(source: str, names: dict[str, Any]) -> tuple[str, Any]:
    """Run a cell.

    Args:
        source: Python code.
        names: Global variables of the notebook, updated.

    Returns:
        Printed output, and the value of the last statement if it is an expression, else None.
    """
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)  # noqa: S102 - code of the manual
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307
    return printed.getvalue(), value


def _render_output(output: str, value: Any) -> list[str]:
    """Return the output of a cell as Markdown lines."""
    lines = []
    if output:
        lines += ["```text", output.rstrip("\n"), "```", ""]
    if value is None:
        return lines

    draw = getattr(value, "_repr_html_", None)
    drawn = draw() if draw is not None else f"<pre>{html.escape(repr(value))}</pre>"
    return [*lines, "```{raw} html", f'<div class="shown">{drawn}</div>', "```", ""]


@contextlib.contextmanager
def _scratch_folder() -> Iterator[None]:
    """Work in an empty folder, with one torch thread, as tiny tensors are slower with several."""
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
