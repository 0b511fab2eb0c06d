"""`mslm-data recipes`."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import click

from mslm_data.cli.command import argument, make_command, option
from mslm_data.io import resources
from mslm_data.registry import Options
from mslm_data.results import Result, Table

if TYPE_CHECKING:
    from mslm_data.registry import Option, Registry


_WIDTH = 98
"""Maximum length of a comment line, without its mark."""
_FEW_WORDS = 12
"""Maximum number of allowed words to list; longer lists are in the manual."""
_LISTINGS = ("strategies", "sources", "annotators", "segmenters", "picks")
"""Options that list something besides pipelines."""


class Recipes(Options, frozen=True, kw_only=True):
    """Options of `mslm-data recipes`."""

    name: Annotated[str | None, argument("[NAME]")] = None
    strategies: Annotated[
        bool,
        option("List the masking strategies. With NAME, print a TOML file of this strategy."),
    ] = False
    sources: Annotated[
        bool,
        option(
            "List the sources with their files. With NAME, print a pipeline file of this source, "
            "with its options as comments."
        ),
    ] = False
    annotators: Annotated[
        bool,
        option(
            "List the annotators. With NAME, print the table [annotate] of this one, with its "
            "options as comments."
        ),
    ] = False
    segmenters: Annotated[
        bool,
        option(
            "List the segmenters. With NAME, print the table [segment] of this one, with its "
            "options as comments."
        ),
    ] = False
    picks: Annotated[
        bool,
        option(
            "List the kinds of picks for your own strategies, with the options of their tables."
        ),
    ] = False
    input: Annotated[
        tuple[str, ...],
        option(
            "File or folder to recognise, with the NAME `auto`. Can be repeated.", metavar="PATH"
        ),
    ] = ()

    def listing(self) -> str:
        """Return what to list; "" for pipelines.

        Raises:
            UsageError: Options that cannot be combined.
        """
        chosen = [listing for listing in _LISTINGS if getattr(self, listing)]
        if len(chosen) > 1:
            *others, last = [f"--{listing}" for listing in _LISTINGS]
            raise click.UsageError(f"expected one of {', '.join(others)} and {last}, got several")
        if self.input and chosen:
            raise click.UsageError("expected --input with the NAME auto alone, got another option")
        if self.name and chosen == ["picks"]:
            raise click.UsageError("expected --picks alone, got a NAME too")
        return chosen[0] if chosen else ""


@dataclass(frozen=True)
class RecipePage(Result):
    """Something to read or to copy.

    Attributes:
        as_json: The object of `--json`.
        parts: Texts and tables for people.
    """

    as_json: Mapping[str, Any]
    parts: Sequence[str | Table]

    def to_json(self) -> dict[str, Any]:
        """Return the object."""
        return dict(self.as_json)

    def tables(self) -> Iterator[str | Table]:
        """Yield the texts and tables."""
        yield from self.parts


@make_command("recipes", Recipes)
def command(options: Recipes) -> RecipePage:
    r"""List the shipped pipelines, or print one to copy and change.

    The NAME `auto` recognises the files of --input, and prints a pipeline for them.

    --sources lists the sources, or with a NAME prints a pipeline file of one, with the help of each
    option. --annotators and --segmenters do the same for the tables [annotate] and [segment].

    --strategies lists the masking strategies with their origin and units, or with a NAME prints a
    TOML file of one, with its documentation and all options of its picks.

    --picks lists the tables of strategy files with their options.

    \b
    Column `follows` of the strategies:
      paper     the text of the paper
      released  the code released by the paper's authors
      adapted   a paper or its code, adapted to rows of text
      recalled  a paper, from memory
      own       parts that you choose

    \b
    Example:
        mslm-data recipes blurb/ncbi-disease > mine.toml
        mslm-data build --source mine.toml --input my/files --tokenizer vocab.txt \
            --out shards/mine
        mslm-data recipes --sources conllu > mine.toml
        mslm-data recipes --annotators terms
        mslm-data recipes --strategies whole-word > mask.toml
        mslm-data mask-stats shards/mine --strategy mask.toml
    """
    name, listing = options.name, options.listing()
    if listing == "picks":
        return _list_picks()
    if listing == "strategies":
        return _describe_strategy(name) if name else _list_strategies()
    if listing:
        registry = _registries()[listing]
        return _describe(registry, name) if name else _list(listing, registry)
    if options.input or name == "auto":
        return _recognise(name, options.input)
    if name:
        _check_kind(name)
        text = resources.pipeline_text(name)
        return RecipePage({"name": name, "text": text}, [text.removesuffix("\n")])

    pipelines = resources.pipeline_names()
    return RecipePage({"recipes": pipelines}, pipelines)


def _check_kind(name: str) -> None:
    """Check that a name is a pipeline; for a source or strategy, name the right option."""
    if name in resources.pipeline_names():
        return

    from mslm_data.mask.table import STRATEGIES

    for listing, registry in (_registries() | {"strategies": STRATEGIES}).items():
        if name in {full.partition(".v")[0] for full in registry.names()}:
            raise click.UsageError(
                f"expected `recipes --{listing} {name}`, got it without the option"
            )


def _recognise(name: str | None, inputs: Sequence[str]) -> RecipePage:
    """Return the pipeline that reads the input files."""
    if name != "auto" or not inputs:
        raise click.UsageError("expected `recipes auto --input PATH`, got one without the other")
    from mslm_data.source.inputs.localise import localise
    from mslm_data.source.recognise import recognise

    recognised = recognise(localise(inputs))
    found = {"name": recognised.what, "why": recognised.why, "text": recognised.toml}
    text = f"# Found '{recognised.what}': {recognised.why}\n\n{recognised.toml}"
    return RecipePage(found, [text.removesuffix("\n")])


# Sources, annotators and segmenters ---------------------------------------------------------------


def _registries() -> dict[str, Registry]:
    """Return the registries whose names are values of `use` in pipeline files."""
    from mslm_data.annotate import ANNOTATORS
    from mslm_data.segment import SEGMENTERS
    from mslm_data.source import SOURCES

    return {"sources": SOURCES, "annotators": ANNOTATORS, "segmenters": SEGMENTERS}


def _list(listing: str, registry: Registry) -> RecipePage:
    """Return the names of a registry, each with the first paragraph of its documentation."""
    listed: dict[str, dict[str, Any]] = {}
    for name in registry.names():
        kind = registry.load(name)
        does = " ".join(prose(kind).partition("\n\n")[0].split())
        is_source = listing == "sources"
        listed[name] = {"files": [*kind.suffixes], "reads": does} if is_source else {"does": does}

    head = (registry.kind, *next(iter(listed.values())))
    rows = [
        (name, *(text if isinstance(text, str) else " ".join(text) for text in about.values()))
        for name, about in listed.items()
    ]
    return RecipePage({listing: listed}, [Table(rows, head)])


def prose(kind: Any) -> str:
    """Return the docstring of a class up to `Attributes` or `Raises`, which are for programmers."""
    documentation = inspect.cleandoc(kind.__doc__ or "")
    return re.split(r"^(?:Attributes|Raises):$", documentation, maxsplit=1, flags=re.M)[0].rstrip()


def _describe(registry: Registry, name: str) -> RecipePage:
    """Return a source as a pipeline file, an annotator or segmenter as its table.

    Documentation and options are comments. Options of its own come first, then shared ones.
    """
    from mslm_data.pipeline import shared_options
    from mslm_data.registry import list_options
    from mslm_data.source.table import usual_tables

    kind = registry.load(name)
    stage = {"source": "source", "annotator": "annotate", "segmenter": "segment"}[registry.kind]
    tables = usual_tables(name) if stage == "source" else {stage: {"use": name}}
    declared = list_options(kind)
    if stage != "segment":
        declared += shared_options(stage)

    lines = [f"# {line}".rstrip() for line in (name, "", *prose(kind).splitlines())]
    for table, table_options in tables.items():
        lines += ["", f"[{table}]", _line("use", table_options["use"])]
        if table == stage:  # a source's segmenter has only its name
            for each in declared:
                lines += ["", *_commented(each)]

    about = {
        each.name: {"default": _default(each), "help": each.help, "words": each.words}
        for each in declared
    }
    found = {registry.kind: name, "text": prose(kind), "options": about}
    return RecipePage(found, ["\n".join(lines)])


def _default(declared: Option) -> Any:
    """Return the default as JSON; None if there is none."""
    from msgspec import to_builtins

    from mslm_data.registry import REQUIRED

    return None if declared.default is REQUIRED else to_builtins(declared.default)


def _commented(declared: Option) -> list[str]:
    """Return an option as comment lines: its help, then its default."""
    from mslm_data.registry import REQUIRED

    help_text = declared.help
    if 0 < len(declared.words) <= _FEW_WORDS:
        help_text += f" One of {', '.join(map(str, map(_as_toml, declared.words)))}."
    if declared.limits:
        help_text += f" Limits: {declared.limits}."
    if declared.default is REQUIRED:
        line = f"{declared.name}: required"
    elif declared.default is None:
        line = f"{declared.name}: not set"
    else:
        line = _line(declared.name, declared.default)
    return [f"# {text}" for text in (*textwrap.wrap(help_text, _WIDTH), line)]


# Strategies ---------------------------------------------------------------------------------------


def _list_strategies() -> RecipePage:
    """Return the strategies with what they mask."""
    from mslm_data.mask.table import strategies

    # `hides` is the promised JSON key of `Summary.masks`.
    listed = {
        name: {"hides": summary.masks, "status": summary.status, "source": summary.source}
        for name, summary in strategies().items()
    }
    rows = [
        (name, about["status"], about["source"], about["hides"]) for name, about in listed.items()
    ]
    return RecipePage(
        {"strategies": listed}, [Table(rows, ("strategy", "follows", "source", "masks"))]
    )


EXAMPLES: dict[str, dict[str, Any]] = {
    "picks.v1": {
        "picks": [
            {"units": "mentions", "budget": {"rate": 0.4}, "kind": "entity"},
            {"units": "words", "budget": {"rate": 0.12}},
        ]
    },
    "mixture.v1": {
        "parts": [{"use": "joint", "elm": 0.5}, {"use": "whole-word"}],
        "chances": [0.5, 0.5],
    },
    "curriculum.v1": {
        "parts": [{"use": "whole-word"}, {"use": "joint", "elm": 0.5}],
        "epochs": [1],
    },
}
"""Strategies made of parts -> options for an example."""


def _describe_strategy(name: str) -> RecipePage:
    """Return the TOML file of a strategy, with its documentation as comments."""
    from mslm_data.mask.table import NO_MASKS, STRATEGIES, default_options, make, summary
    from mslm_data.registry import list_options

    if name in NO_MASKS:
        make(name, {})  # raises with the name of the nearest strategy

    full = STRATEGIES.resolve(name)
    about = summary(full)
    kind = STRATEGIES.load(full)
    documentation = inspect.getdoc(kind) or ""
    declared = list_options(kind)
    toml = repr(make(full, EXAMPLES.get(full, {})))

    # Strategies made of parts have no useful defaults, so they show an example instead.
    defaults = {} if full in EXAMPLES else default_options(full)

    comments = [f"{full}: {about.status}, {about.source}", "", *documentation.splitlines(), ""]
    if declared:
        comments += ["Options:", *_wrapped(declared), ""]
    if defaults:
        comments += ["The same by its name, with its options and their defaults:", "", "[mask]"]
        comments += [f'use = "{full}"']
        comments += [_line(option, value) for option, value in defaults.items()]
        comments += ["", "The same as picks:"]
    else:
        comments += ["An example, to change:"]

    found = {
        "strategy": full,
        "status": about.status,
        "source": about.source,
        "text": documentation,
        "defaults": {option: _as_toml(value) for option, value in defaults.items()},
        "help": {each.name: each.help for each in declared},
        "toml": toml,
    }
    lines = [f"# {line}".rstrip() for line in comments]
    return RecipePage(found, ["\n".join([*lines, "", toml.removesuffix("\n")])])


def _list_picks() -> RecipePage:
    """Return the tables of strategy files with their options."""
    from mslm_data.mask.file import PARTS, PICKS
    from mslm_data.registry import list_options

    tables = {f'use = "{tag}"': kind for tag, kind in PICKS.items()} | PARTS
    listed = {}
    texts = []
    for name, part in tables.items():
        declared = list_options(part)
        listed[name] = {each.name: {"help": each.help, "words": each.words} for each in declared}
        about = textwrap.wrap(f"{name}: {prose(part)}", _WIDTH)
        texts.append("\n".join([*about, *_wrapped(declared, defaults=True)]))
    return RecipePage({"picks": listed}, ["\n\n".join(texts)])


def _wrapped(declared: Iterable[Option], *, defaults: bool = False) -> Iterator[str]:
    """Yield the indented lines of each option: name, default if wanted, and help."""
    for each in declared:
        default = _shown_default(each.default) if defaults else ""
        limits = f" Limits: {each.limits}." if each.limits else ""
        help_text = f"{each.name}{default}: {each.help}{limits}"
        yield from textwrap.wrap(help_text, _WIDTH, initial_indent="  ", subsequent_indent="    ")


def _shown_default(default: Any) -> str:
    """Return ` = DEFAULT`; "" if there is none, or for a table with its own options."""
    from mslm_data.registry import REQUIRED, Options

    if default is REQUIRED or isinstance(default, Options):
        return ""
    written = _as_toml(default)
    return "" if written in (None, '""') else f" = {written}"


def _line(option: str, value: Any) -> str:
    return f"{option} = {_as_toml(value)}"


def _as_toml(value: Any) -> str | None:
    """Return a value as TOML; None for None, which TOML cannot express."""
    from msgspec import to_builtins

    from mslm_data.io.toml import inline

    return None if value is None else inline(to_builtins(value))
