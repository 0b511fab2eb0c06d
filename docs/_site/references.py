"""Generate the pages of `docs/reference` from the code and from files of the project."""

from __future__ import annotations

import inspect
import tomllib
from pathlib import Path
from typing import Any

import click
from sphinx.application import Sphinx

from _site import gallery, links, notebooks
from _site.options import option_table
from mslm_data import errors, pipeline
from mslm_data.annotate import ANNOTATORS
from mslm_data.cli.recipes import prose
from mslm_data.io import resources
from mslm_data.mask.file import PARTS, PICKS
from mslm_data.registry import Registry, list_options
from mslm_data.segment import SEGMENTERS
from mslm_data.source import SOURCES

_CITING = """\
# How to cite

Cite the package with the version that you used: `mslm-data --version` prints it, and the
`manifest.json` of each built folder keeps it. Cite the paper too if you use `joint` masking, its
weighted losses, or its heads. Cite the source of your strategy, which is in
[the gallery](strategies.md), and of your corpus, which is in the output of
`mslm-data recipes NAME` and in the `README.md` of the folder.

```{literalinclude} ../../CITATION.cff
:language: yaml
```
"""

_MODULES = (
    "mslm_data",
    "mslm_data.torch",
    "mslm_data.stats",
    "mslm_data.metrics",
    "mslm_data.testing",
)
"""Modules with public names."""
_ELSEWHERE = ("use", "options", "fetch")
"""Options of a stage that have a page or a table of their own."""


def write(docs: Path) -> None:
    """Write all pages of `docs/reference`, and delete pages that no longer exist."""
    pages = {
        **{page: _read_page(file, page) for file, page in links.SHOWN.items()},
        "reference/programs": _programs(),
        "reference/commands": _commands(),
        "reference/pipelines": _pipelines(),
        "reference/sources": _choices("Sources", "source", SOURCES),
        "reference/annotators": _choices("Annotators", "annotate", ANNOTATORS),
        "reference/segmenters": _choices("Segmenters", "segment", SEGMENTERS),
        "reference/python": _python(),
        "reference/errors": _errors(),
        "reference/citing": _CITING,
        "reference/strategies": gallery.page(),
        "reference/picks": _picks(),
        **notebooks.pages(),
    }
    for path in (docs / "reference").glob("*.md"):
        if f"reference/{path.stem}" not in pages:
            path.unlink()
    for page, text in pages.items():
        path = docs / f"{page}.md"
        path.parent.mkdir(exist_ok=True)
        # Keep unchanged files, so that Sphinx does not read them again.
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _read_page(file: str, page: str) -> str:
    """Return the text of a file of the project, with links to pages."""
    text = (links.ROOT / file).read_text(encoding="utf-8")
    return links.resolve_links(text, folder=Path(file).parent, page=page)


def _programs() -> str:
    """Render the page of example programs."""
    lines = [
        "# Example programs",
        "",
        "Each program trains an encoder on a shard folder, and saves it. The commands at its top",
        "start it in one process and in two; the tests run them. Run a command again to resume.",
        "",
    ]
    for path in sorted((links.ROOT / "examples").glob("*.py")):
        lines += [
            f"## {path.name}",
            "",
            f"```{{literalinclude}} ../../examples/{path.name}",
            ":language: python",
            "```",
            "",
        ]
    return "\n".join(lines)


def _commands() -> str:
    """Render the page of commands, by sphinx-click."""
    return "\n".join(
        [
            "# Commands",
            "",
            "```{eval-rst}",
            ".. click:: mslm_data.cli:cli",
            "   :prog: mslm-data",
            "   :nested: full",
            "```",
            "",
        ]
    )


def show_examples_as_code(app: Sphinx, context: click.Context, lines: list[str]) -> None:  # noqa: ARG001
    """Format the lines below `Example:` as a console block (a sphinx-click handler)."""
    shown: list[str] = []
    is_example = False
    for line in lines:
        words = line.removeprefix("|").rstrip()
        if words.strip() in ("Example:", "Examples:"):
            is_example = True
            shown += ["", words.strip(), "", ".. code-block:: console", ""]
        elif is_example and words.startswith("     "):
            shown.append(
                "    $ " + words.strip() if _begins_call(shown) else "      " + words.strip()
            )
        else:
            is_example = False
            shown.append(line)
    lines[:] = shown


def _begins_call(shown: list[str]) -> bool:
    """Return whether the next line begins a command: the last one does not end in a backslash."""
    return not shown[-1].endswith("\\")


def leave_out_nameless(app: Sphinx, context: click.Context, lines: list[str]) -> None:  # noqa: ARG001
    """Remove arguments without a name, kept for better errors (a sphinx-click handler)."""
    kept = []
    is_nameless = False
    for line in lines:
        if line.startswith(".. option::"):
            is_nameless = line.strip() == ".. option::"
        if not is_nameless:
            kept.append(line)
    lines[:] = kept


def _errors() -> str:
    """Render the page of errors, from their docstrings."""
    lines = [
        "# Errors and warnings",
        "",
        "A message gives the file or option, what was expected, what was found, and a fix. None",
        "contains text of a corpus. Errors that users can meet are classes of `mslm_data.errors`.",
        "Commands print warnings to stderr and continue. In Python, warnings about data and files",
        "use the logger `mslm_data`, warnings about calls of your program are `UserWarning`.",
        "",
        "```{eval-rst}",
    ]
    for name, value in vars(errors).items():
        if inspect.isclass(value) and issubclass(value, errors.MslmDataError):
            lines += [f".. autoexception:: mslm_data.errors.{name}", ""]
    return "\n".join([*lines, "```", ""])


def _pipelines() -> str:
    """Render the page of pipeline files: their tables, and the shipped files."""
    lines = [
        "# Pipeline files",
        "",
        "A pipeline file describes a build in TOML, with a table for each stage. On the command",
        "line, `--set TABLE.OPTION=VALUE` changes an option, in Python `options={...}`.",
        "",
        "Each value of `use` has additional options:",
        "[sources](sources.md), [annotators](annotators.md), [segmenters](segmenters.md).",
        "",
    ]
    tables: dict[str, tuple[str, Any]] = {
        "[about]": ("Contents of the dataset card.", pipeline.About),
        "[source]": ("Where documents come from.", pipeline.SourceOptions),
        "[[source.fetch]]": ("One file of the corpus at its public home.", pipeline.Fetch),
        "[annotate]": ("Where mentions come from.", pipeline.AnnotateOptions),
        "[encode]": ("How text becomes tokens.", pipeline.EncodeOptions),
        "[shard]": ("How rows are divided into files.", pipeline.ShardOptions),
    }
    for heading, (description, kind) in tables.items():
        options = [option for option in list_options(kind) if option.name not in _ELSEWHERE]
        lines += [f"## `{heading}`", "", description, "", *option_table(options)]

    lines += ["## Shipped pipelines", ""]
    for name in resources.pipeline_names():
        text = resources.pipeline_text(name)
        title = tomllib.loads(text)["about"]["title"]
        lines += [f"### `{name}`", "", f"{title}.", "", "```toml", text.rstrip(), "```", ""]
    return "\n".join(lines)


def _picks() -> str:
    """Render the page of picks: kinds of picks, and their tables."""
    lines = [
        "# Picks",
        "",
        "[A strategy of your own](../masking.md#a-strategy-of-your-own) is a list of picks and a",
        "corruption, in a TOML file or in Python. This page lists the tables of a pick with their",
        "options. `mslm-data recipes --picks` prints the same.",
        "",
    ]
    kinds = {f'`use = "{tag}"`': kind for tag, kind in PICKS.items()}
    parts = {f"The table `{place}`": part for place, part in PARTS.items()}
    for title, kind in (kinds | parts).items():
        lines += [f"## {title}", "", *_section(kind)]
    return "\n".join(lines)


def _choices(title: str, table: str, registry: Registry) -> str:
    """Render the page of all values of `use` in a table, with their options."""
    lines = [
        f"# {title}",
        "",
        f"Values of `use` in `[{table}]` of a [pipeline file](pipelines.md).",
        "",
    ]
    for name in registry.names():
        lines += [f"## `{name}`", "", *_section(registry.load(name))]
    return "\n".join(lines)


def _section(kind: Any) -> list[str]:
    """Return the docstring of a class, unless it is inherited, and its options."""
    text = [prose(kind), ""] if vars(kind).get("__doc__") else []
    return [*text, *option_table(list_options(kind))]


def _python() -> str:
    """Render the page of public names by module."""
    lines = ["# Python", ""]
    for module in _MODULES:
        lines += [f"## {module}", "", "```{eval-rst}", f".. automodule:: {module}", "```", ""]
    return "\n".join(lines)
