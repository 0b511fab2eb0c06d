"""Generate the pages of `docs/reference` from the code and from files of the project."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import tomllib
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click
from sphinx.application import Sphinx

from _site import citing, compatibility, errors, gallery, links, notebooks
from mslm_data import pipeline
from mslm_data.annotate import ANNOTATORS
from mslm_data.cli.recipes import prose
from mslm_data.io import resources
from mslm_data.mask.file import PARTS, PICKS
from mslm_data.mask.pick import Pick
from mslm_data.registry import REQUIRED, Options, Registry, list_options
from mslm_data.segment import SEGMENTERS
from mslm_data.source import SOURCES

_TORCH = "mslm_data.torch"


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
        "reference/errors": errors.page(),
        "reference/citing": citing.page(),
        "reference/compatibility": compatibility.page(),
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
    tables: dict[str, tuple[str, Any, tuple[str, ...]]] = {
        "about": ("Contents of the dataset card.", pipeline.About, ()),
        "source": (
            "Where documents come from.",
            pipeline.SourceOptions,
            (*(option.name for option in pipeline.shared_options("source")), "sample"),
        ),
        "source.fetch": ("One file of the corpus at its public home.", pipeline.Fetch, ()),
        "annotate": ("Where mentions come from.", pipeline.AnnotateOptions, ()),
        "encode": ("How text becomes tokens.", pipeline.EncodeOptions, ()),
        "shard": ("How rows are divided into files.", pipeline.ShardOptions, ()),
    }
    for table, (description, kind, chosen) in tables.items():
        options = [
            option
            for option in _options(kind)
            if option.name not in ("options", "use") and (not chosen or option.name in chosen)
        ]
        brackets = "[[{}]]" if table == "source.fetch" else "[{}]"
        lines += [f"## `{brackets.format(table)}`", "", description, "", *_table(options), ""]

    lines += ["## Shipped pipelines", ""]
    for name in resources.pipeline_names():
        text = resources.pipeline_text(name)
        title = tomllib.loads(text)["about"]["title"]
        lines += [f"### `{name}`", "", f"{title}.", "", "```toml", text.rstrip(), "```", ""]
    return "\n".join(lines)


@dataclasses.dataclass(frozen=True)
class Option:
    """A row of a table of options."""

    name: str
    type: str
    default: str
    description: str


def _picks() -> str:
    """Render the page of picks: kinds of picks, and their tables."""
    lines = [
        "# Picks",
        "",
        "A strategy of your own is a list of picks and a corruption, in a TOML file or in Python:",
        "[A strategy of your own](../own_strategy.md) shows both. This page lists the tables of a",
        "pick with their options. `mslm-data recipes --picks` prints the same.",
        "",
    ]
    titles: dict[str, Any] = {
        "A pick of units" if kind is Pick else f'`use = "{tag}"`': kind
        for tag, kind in PICKS.items()
    }
    titles |= {f"The table `{place}`": part for place, part in PARTS.items()}
    for title, part in titles.items():
        options = [
            dataclasses.replace(option, default=option.default.replace("found", "none"))
            for option in _options(part)
        ]
        lines += [f"## {title}", "", *_prose(part), "", *_table(options), ""]
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
        kind: Any = registry.load(name)
        lines += [f"## `{name}`", "", *_prose(kind), "", *_table(_options(kind)), ""]
    return "\n".join(lines)


def _options(kind: Any) -> list[Option]:
    """Return options as table rows."""
    return [
        Option(
            option.name,
            _type_name(option.type) + (f", {option.limits}" if option.limits else ""),
            "required" if option.default is REQUIRED else _toml(option.default),
            option.help,
        )
        for option in list_options(kind)
    ]


def _prose(kind: Any) -> list[str]:
    """Return the paragraphs of a class's own docstring."""
    return [prose(kind)] if vars(kind).get("__doc__") else []


_PLAIN: dict[Any, str] = {
    str: "text",
    bool: "true or false",
    int: "integer",
    float: "number",
}


def _type_name(hint: Any) -> str:
    """Return the name of a type in TOML terms."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return " or ".join(_toml(value) for value in inner)
    if origin is typing.Annotated:
        return _type_name(inner[0])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "table"

    if isinstance(hint, type) and issubclass(hint, Options):
        return "pick" if hint in PICKS.values() else "table"

    if origin in (tuple, list):
        name = f"list of {_type_name(inner[0])}"
    elif inner:
        names = [_type_name(member) for member in inner if member is not type(None)]
        name = " or ".join(dict.fromkeys(names))
    else:
        name = _PLAIN.get(hint, getattr(hint, "__name__", str(hint)))
    return name


def _toml(value: Any) -> str:
    """Return a value in TOML syntax."""
    if isinstance(value, tuple | list):
        written = f"[{', '.join(map(_toml, value))}]"
    elif isinstance(value, Mapping):
        inner = ", ".join(f"{key} = {_toml(item)}" for key, item in value.items())
        written = f"{{{inner}}}"
    elif isinstance(value, str):
        written = f'"{value}"'
    elif isinstance(value, Options):
        written = "its defaults"
    elif isinstance(value, bool):
        written = str(value).lower()
    else:
        written = "found" if value is None else f"{value:_}"
    return written


def _table(options: Iterable[Option]) -> list[str]:
    """Return the lines of a Markdown table of options."""
    rows = []
    for option in options:
        value, default, description = map(_cell, (option.type, option.default, option.description))
        rows.append(f"| `{option.name}` | {value} | `{default}` | {description} |")
    if not rows:
        return ["It has no options."]
    return ["| option | value | default | |", "|---|---|---|---|", *rows]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _python() -> str:
    """Render the page of public names by module."""
    modules: dict[str, tuple[str, list[str]]] = {
        "mslm_data": (
            "Import as `md`. It needs neither torch nor transformers.",
            _public("mslm_data"),
        ),
        _TORCH: ("Needs `pip install 'mslm-data[hf]'`.", _public(_TORCH)),
        "mslm_data.stats": (
            "Counts of masked tokens and mentions, and the loss weights computed from them.",
            _public("mslm_data.stats"),
        ),
        "mslm_data.metrics": (
            "Scores of predicted mentions against gold ones, without torch.",
            _public("mslm_data.metrics"),
        ),
        "mslm_data.testing": (
            "Checks for tests of plug-ins: the contracts of sources, annotators, segmenters and "
            "strategies.",
            _public("mslm_data.testing"),
        ),
    }
    lines = ["# Python", ""]
    for module, (description, names) in modules.items():
        lines += [f"## {module}", "", description, "", "```{eval-rst}"]
        for name in names:
            if name.startswith("__"):
                continue
            lines += _automatic(module, name)
        lines += ["```", ""]
    return "\n".join(lines)


def _public(module: str) -> list[str]:
    """Return the public names of a module."""
    loaded = importlib.import_module(module)
    names = getattr(loaded, "__all__", None)
    if names is not None:
        return list(names)
    return [
        name
        for name, value in vars(loaded).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module
    ]


def _automatic(module: str, name: str) -> list[str]:
    """Return the autodoc directive of a name."""
    value = getattr(importlib.import_module(module), name)
    if inspect.isclass(value):
        return [f".. autoclass:: {module}.{name}", "   :members:", ""]
    if inspect.ismodule(value):
        return [f".. automodule:: {value.__name__}", "   :members:", ""]
    return [f".. autofunction:: {module}.{name}", ""]
